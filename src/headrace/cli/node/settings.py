"""Where a broker's settings come from: its defaults, Kafka's file, a TOML file, the environment, flags; the later one wins.

In the file a name may be written whole (`"log.dirs" = "data"`) or as tables (`[log]`, then `dirs = "data"`).  In the
environment it is in capitals with underscores: HEADRACE_LOG_DIRS; names of our own do not repeat the prefix:
`headrace.flush` is HEADRACE_FLUSH.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from headrace.cli.failure import Failure
from headrace.cli.node.kafka_config import read_kafka_config
from headrace.host.secret_files import SecretFileError, require_private
from headrace.model.broker_settings import BROKER_SETTINGS, setting_named
from headrace.model.settings import Kind, SettingError

PREFIX = "HEADRACE_"
# Variables with our prefix that are for other commands.
NOT_SETTINGS = frozenset({"HEADRACE_BOOTSTRAP", "HEADRACE_DEBUG", "HEADRACE_STATE", "HEADRACE_TRACING"})


def collect(
    file: Path | None, environment: Mapping[str, str], flags: Mapping[str, str], kafka_config: Path | None = None
) -> dict[str, str]:
    """The settings that were given, by name, each as text.  A wrong name or value is a Failure that says where it stands."""
    given: dict[str, str] = {}
    if kafka_config is not None:
        given |= _checked(read_kafka_config(kafka_config).given, f"in {kafka_config}")
        _require_private(kafka_config, given, "--kafka-config")
    if file is not None:
        from_file = _checked(read_file(file), f"in {file}")
        _require_private(file, from_file, "--config")
        given |= from_file
    given |= _checked(read_environment(environment), "in the environment")
    _refuse_secrets(flags)
    return given | _checked(flags, "on the command line")


def _secret(texts: Mapping[str, str]) -> str | None:
    """The first of these settings that is a secret."""
    return next((name for name in texts if setting_named(name).kind is Kind.PASSWORD), None)


def _require_private(file: Path, texts: Mapping[str, str], option: str) -> None:
    if _secret(texts) is not None:
        try:
            require_private(file, option)
        except SecretFileError as error:
            raise Failure(f"{error}.") from None


def _refuse_secrets(flags: Mapping[str, str]) -> None:
    """Everybody on the machine can read a command line."""
    try:
        name = _secret(flags)
    except SettingError:
        return  # said with what is wrong with it
    if name is not None:
        variable = f", or as {variable_of(name)}" if name in BROKER_SETTINGS else ""
        raise Failure(f"{name} is a secret, and everybody can read a command line; give it in a file with --config{variable}.")


def _checked(texts: Mapping[str, str], where: str) -> dict[str, str]:
    try:
        for name, text in texts.items():
            setting_named(name).parse(text)
    except SettingError as error:
        raise Failure(f"{error} ({where})") from None
    return dict(texts)


def read_file(file: Path) -> dict[str, str]:
    """The settings of a TOML file."""
    import tomllib  # most brokers have none

    try:
        document = tomllib.loads(file.read_text())
    except OSError as error:
        raise Failure(f"{file} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Failure(f"{file} is not TOML: {error}.") from None
    return {name: _text(value) for name, value in _flattened(document, "")}


def _flattened(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flattened(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _text(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case list():
            return ",".join(str(item) for item in value)
        case _:
            return str(value)


def variable_of(name: str) -> str:
    """The environment variable that sets a setting."""
    return PREFIX + name.removeprefix("headrace.").upper().replace(".", "_")


def read_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings that the environment gives."""
    names = _names_by_variable()
    return {names[variable]: text for variable, text in environment.items() if variable in names}


def _names_by_variable() -> dict[str, str]:
    """Also by the whole name, HEADRACE_HEADRACE_FLUSH, for programs that make the variable from the name."""
    whole = {PREFIX + setting.name.upper().replace(".", "_"): setting.name for setting in BROKER_SETTINGS}
    return whole | {variable_of(setting.name): setting.name for setting in BROKER_SETTINGS}


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Remarks on variables that look like settings and are none: most likely misspelt."""
    known = {*_names_by_variable(), *NOT_SETTINGS}
    remarks = []
    for variable in sorted(environment):
        if variable.startswith(PREFIX) and variable not in known:
            near = get_close_matches(variable, known, n=1)
            remarks.append(f"{variable} is not a known setting; ignored{f'. Did you mean {near[0]}?' if near else '.'}")
    return remarks

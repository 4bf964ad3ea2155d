"""Profiles: where a cluster is and how to connect, by name, in a file, so that nobody types it twice.

    default = "dev"

    [profiles.prod]
    bootstrap = "broker-1:9093,broker-2:9093"
    username = "ann"
    password_file = "prod.password"
    ca_file = "prod-ca.pem"

Names of files are relative to the profiles' file.  A file with a secret in it is refused where others may read it.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from headrace.client.errors import InvalidArgument
from headrace.client.security.options import FILES, NAMES
from headrace.client.security.secret_files import require_private

PROFILE_VARIABLE: Final = "HEADRACE_PROFILE"
SUFFIX: Final = ".toml"
KEYS: Final = ("bootstrap", *(name for name in NAMES if name != "profile"), "librdkafka")
# What nobody else may read, by our name and by librdkafka's.
SECRETS: Final = ("password", "token")
_SECRET_PROPERTY: Final = re.compile(r"password|passphrase|secret|key\.pem|^ssl_key$")


@dataclass(frozen=True, slots=True)
class Profile:
    """What a file says of one name."""

    name: str
    file: Path
    bootstrap: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    librdkafka: Mapping[str, Any] = field(default_factory=dict, repr=False)


def is_secret_property(name: str) -> bool:
    """Of librdkafka's properties; those of versions to come as well, as far as their names say it."""
    return _SECRET_PROPERTY.search(name.lower()) is not None


def profiles_file() -> Path:
    """Where profiles are, by the rules of the XDG."""
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "headrace" / "config.toml"


def all_profiles(file: Path) -> tuple[dict[str, Profile | InvalidArgument], str | None]:
    """The profiles of a file by their names, or what is wrong with one, which does not keep the others from being used; and
    which one holds where none is named.  Raises InvalidArgument."""
    try:
        with file.open("rb") as opened:
            found = tomllib.load(opened)
    except OSError as error:
        raise InvalidArgument(f"{file} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"{file} is not TOML: {error}") from None
    for key in found:
        if key in KEYS:
            raise InvalidArgument(
                f"{file}: {key!r} belongs into the table of a profile; write a line such as [profiles.dev] above it"
            )
    _check_keys(found, ("default", "profiles"), f"{file}")
    tables = found.get("profiles", {})
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise InvalidArgument(f"{file} wants its profiles as tables, such as [profiles.prod]")
    if any(map(_has_secrets, tables.values())):
        require_private(file, "the file")
    profiles = {name: _profile_or_error(name, file, table) for name, table in tables.items()}
    default = found.get("default")
    if default is not None and default not in profiles:
        raise InvalidArgument(f"{file} has default = {default!r}, which is no profile in it{_nearest(str(default), profiles)}")
    return profiles, default


def load_profile(named: str | Path) -> Profile:
    """The profile of this name, or of the file that is named: its default, or the only one in it."""
    if isinstance(named, Path):
        return _only(named.expanduser())
    if "/" in named or named.endswith(SUFFIX):
        return _only(Path(named).expanduser())
    file = profiles_file()
    if not file.exists():
        raise InvalidArgument(f"there is no profile {named!r}: {file} does not exist")
    profiles, _ = all_profiles(file)
    if named not in profiles:
        raise InvalidArgument(f"there is no profile {named!r} in {file}{_nearest(named, profiles)}")
    return _usable(profiles[named])


def default_profile() -> Profile | None:
    """The one that holds where neither a profile nor an address is named, if there is one."""
    file = profiles_file()
    if not file.exists():
        return None
    profiles, default = all_profiles(file)
    return None if default is None else _usable(profiles[default])


def _only(file: Path) -> Profile:
    profiles, default = all_profiles(file)
    if default is None and len(profiles) != 1:
        raise InvalidArgument(f'{file} has {len(profiles)} profiles; name the one to use in it, such as default = "prod"')
    return _usable(profiles[default or next(iter(profiles))])


def _usable(found: Profile | InvalidArgument) -> Profile:
    if isinstance(found, InvalidArgument):
        raise found
    return found


def _has_secrets(table: Mapping[str, Any]) -> bool:
    properties = table.get("librdkafka")
    return any(name in table for name in SECRETS) or (isinstance(properties, dict) and any(map(is_secret_property, properties)))


def _profile_or_error(name: str, file: Path, table: Mapping[str, Any]) -> Profile | InvalidArgument:
    try:
        return _profile(name, file, table)
    except InvalidArgument as error:
        return error


def _profile(name: str, file: Path, table: Mapping[str, Any]) -> Profile:
    where = f"{file}, profile {name}"
    _check_keys(table, KEYS, where)
    options: dict[str, Any] = {}
    for key, value in table.items():
        if key not in ("bootstrap", "librdkafka"):
            if not isinstance(value, str):
                raise InvalidArgument(f"{where}: {key} wants a text in quotes")
            options[key] = str(file.absolute().parent / Path(value).expanduser()) if key in FILES else value
    properties = table.get("librdkafka", {})
    if not isinstance(properties, dict) or not all(isinstance(value, str | int | float) for value in properties.values()):
        raise InvalidArgument(f"{where}: librdkafka wants a table of its properties, each name in quotes")
    return Profile(name, file, _addresses(table.get("bootstrap"), where), options, properties)


def _addresses(given: object, where: str) -> str | None:
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, list) and all(isinstance(each, str) for each in given):
        return ",".join(given)
    raise InvalidArgument(f"{where}: bootstrap wants 'host:port', or a list of them")


def _check_keys(found: Iterable[str], known: tuple[str, ...], where: str) -> None:
    for key in found:
        if key not in known:
            raise InvalidArgument(f"{where}: there is no key {key!r}{_nearest(key, known)}")


def _nearest(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, list(known), n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; there are {', '.join(sorted(known)) or 'none'}"

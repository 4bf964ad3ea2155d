"""Which way a command takes to its brokers: the options that every command with `--bootstrap` has, and what they come to.

A profile is chosen for a whole invocation, by `--profile` before the command or after it, by HEADRACE_PROFILE, or by the file's
own default; what it says is kept here until the command connects.
"""

import os
from contextvars import ContextVar
from typing import Annotated, Any

import typer
import typer.main

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

_profile: ContextVar[str | None] = ContextVar("profile", default=None)
_properties: ContextVar[dict[str, Any]] = ContextVar("properties")
_given: ContextVar[tuple[str, ...]] = ContextVar("given", default=())


def forget_way() -> None:
    """An invocation begins or ends: nothing is chosen."""
    _profile.set(None)
    _properties.set({})
    _given.set(())


def chosen_properties() -> dict[str, Any]:
    """librdkafka's properties by the profile that was chosen, and by `-X` on top."""
    return {**_properties.get({}), **key_values(list(_given.get()), "--property")}


def chosen_profile() -> str | None:
    """Its name, where one is named on the command line."""
    return _profile.get()


def use_profile(named: str) -> None:
    """Take this one, for what this process itself asks."""
    from headrace.client.security.connecting import way_to

    _properties.set(way_to(None, {"profile": named}).properties)


def _choose_profile(context: typer.Context, value: str | None) -> str | None:
    if value is not None:
        _profile.set(value)
        context.find_root().call_on_close(forget_way)
    return value


def _choose_address(context: typer.Context, value: str) -> str:
    if context.resilient_parsing:
        return value
    from headrace.client.security.connecting import way_to

    is_given = _is_typed(context)
    # An address that is not one is the command's to refuse.
    way = way_to(DEFAULT_BOOTSTRAP if is_given else None, {"profile": _profile.get()}, takes_default=True)
    _properties.set(way.properties)
    context.find_root().call_on_close(forget_way)
    return value if is_given else way.bootstrap


def choose_pipeline_address(context: typer.Context, value: str | None) -> str | None:
    """A pipeline has an address of its own, in its file; a profile is read where its driver runs."""
    if _is_typed(context):
        return value
    if _profile.get() is not None:
        return None
    _profile.set(os.environ.get("HEADRACE_PROFILE"))
    return value


def _is_typed(context: typer.Context) -> bool:
    """Whether somebody gave the address as an argument, and not only the environment."""
    source = context.get_parameter_source("bootstrap")
    return source is not None and source.name == "COMMANDLINE"


def _take_properties(context: typer.Context, value: list[str] | None) -> list[str] | None:
    _given.set(tuple(value or ()))
    context.find_root().call_on_close(forget_way)
    return value


Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        envvar="HEADRACE_BOOTSTRAP",
        metavar="HOST:PORT[,...]",
        help="The broker, or several of one cluster.",
        callback=_choose_address,
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        help="A profile of ~/.config/headrace/config.toml: where the brokers are and how to connect. "
        r"\[env var: HEADRACE_PROFILE]",
        callback=_choose_profile,
        is_eager=True,
    ),
]
Properties = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        "-X",
        metavar="NAME=VALUE",
        help="A client property of librdkafka; may be repeated.",
        callback=_take_properties,
    ),
]


def complete(command: Any) -> None:
    """Give `--profile` and `--property` to every command that has `--bootstrap` and does not name them itself."""
    for inner in getattr(command, "commands", {}).values():
        complete(inner)
    names = [parameter.name for parameter in command.params]
    if "bootstrap" not in names:
        return
    at = names.index("bootstrap") + 1
    for option in _shared_options():
        if option.name == "property" and command.params[at - 1].default != DEFAULT_BOOTSTRAP:
            continue  # a pipeline's properties are in its file
        # Commands call the same option `property` or `properties`.
        if not any(set(option.opts) & set(parameter.opts) for parameter in command.params):
            command.params.insert(at, option)


def _shared_options() -> list[Any]:
    app = typer.Typer(add_completion=False)

    @app.command()
    def template(property: Properties = None, profile: Profile = None) -> None:
        """Only its options are used."""

    options = [each for each in typer.main.get_command(app).params if each.name in ("property", "profile")]
    for option in options:
        option.expose_value = False
    return options


def key_values(pairs: list[str] | None, option: str) -> dict[str, str]:
    """`name=value` texts as a dictionary; a text without `=` is a wrong use of the option."""
    parsed = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{option} wants NAME=VALUE, not {pair!r}.")
        if option == "--property":
            _refuse_secret(name)
        parsed[name] = value
    return parsed


def _refuse_secret(name: str) -> None:
    from headrace.client.security.profiles import is_secret_property

    if is_secret_property(name):
        raise typer.BadParameter(
            f"{name} is a secret, and everybody on this machine can read arguments. Put it into a profile: see docs/security.md."
        )

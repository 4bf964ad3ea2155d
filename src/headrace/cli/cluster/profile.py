"""`headrace profile`: the profiles there are, without their secrets."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.connection import AsJson
from headrace.cli.output import remark, show_json, show_table

if TYPE_CHECKING:
    from headrace.client.errors import InvalidArgument
    from headrace.client.security.profiles import Profile

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Profiles: where clusters are and how to connect, in ~/.config/headrace/config.toml.",
)

HIDDEN = "(hidden)"


@app.command("list")
def list_profiles(as_json: AsJson = False) -> None:
    """List the profiles, which one holds where none is named, and what is wrong with one that cannot be used."""
    from headrace.client.security.profiles import all_profiles, profiles_file

    file = profiles_file()
    profiles, default = all_profiles(file) if file.exists() else ({}, None)
    rows = [_row(name, each, is_default=name == default) for name, each in profiles.items()]
    if as_json:
        show_json(rows)
    elif rows:
        # What is wrong is seldom there.
        keys = ("name", "bootstrap", "username", "default", "error")[: 5 if any(row["error"] for row in rows) else 4]
        shown = [row | {"default": "*" if row["default"] else ""} for row in rows]
        show_table(("profile", *keys[1:]), [tuple(row[key] for key in keys) for row in shown])
    else:
        remark(f"There are no profiles in {file}." if file.exists() else f"{file} does not exist.")


def _row(name: str, found: "Profile | InvalidArgument", *, is_default: bool) -> dict[str, Any]:
    if isinstance(found, Exception):
        return {"name": name, "bootstrap": None, "username": None, "default": is_default, "error": str(found)}
    username = found.options.get("username")
    return {"name": name, "bootstrap": found.bootstrap, "username": username, "default": is_default, "error": None}


@app.command(epilog="Example: [bold]headrace profile show prod[/bold]")
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The profile, or a file of the same form.")],
    as_json: AsJson = False,
) -> None:
    """Show what a profile says.  What is secret is not shown."""
    from headrace.client.security.profiles import load_profile

    profile = load_profile(name)
    rows = _rows(profile)
    if as_json:
        show_json({"profile": profile.name, "file": str(profile.file), **dict(rows)})
    else:
        show_table(("key", "value"), [("profile", profile.name), ("file", str(profile.file)), *rows])


def _rows(profile: "Profile") -> list[tuple[str, str]]:
    from headrace.client.security.profiles import SECRETS, is_secret_property

    rows = [] if profile.bootstrap is None else [("bootstrap", profile.bootstrap)]
    rows += [(key, HIDDEN if key in SECRETS else str(value)) for key, value in profile.options.items()]
    rows += [(key, HIDDEN if is_secret_property(key) else str(value)) for key, value in profile.librdkafka.items()]
    return rows

"""`headrace profile`: the profiles there are, without their secrets."""

from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.connection import AsJson
from headrace.cli.output import remark, show_json, show_table

if TYPE_CHECKING:
    from headrace.client.security.profiles import Profile

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Profiles: where clusters are and how to get in, in ~/.config/headrace/config.toml.",
)

HIDDEN = "(hidden)"


@app.command("list")
def list_profiles(as_json: AsJson = False) -> None:
    """List the profiles, and which one holds where none is named."""
    from headrace.client.security.profiles import all_profiles, profiles_file

    file = profiles_file()
    profiles, default = all_profiles(file) if file.exists() else ({}, None)
    rows = [
        (name, each.bootstrap, each.options.get("username"), "*" if name == default else "") for name, each in profiles.items()
    ]
    if as_json:
        show_json([{"name": row[0], "bootstrap": row[1], "username": row[2], "default": row[0] == default} for row in rows])
    elif rows:
        show_table(("profile", "bootstrap", "username", "default"), rows)
    else:
        remark(f"There are no profiles in {file}." if file.exists() else f"{file} does not exist.")


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

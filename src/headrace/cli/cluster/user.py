"""`headrace user`: who may sign in with a password."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.connection import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, Properties, client_properties
from headrace.cli.failure import Failure
from headrace.cli.output import remark, show_json, show_table

if TYPE_CHECKING:
    from headrace.client.admin.users import Users

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Who may sign in with a password.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")]
PasswordFile = Annotated[
    Path | None,
    typer.Option("--password-file", metavar="FILE", help="A file with the password in its first line; asked for if not given."),
]
Data = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="The data directory of a broker that is stopped: the way to the first user."),
]


# So that what is too much on the command line, most likely a password, is not repeated in an error.
EXTRA = {"allow_extra_args": True}


@app.command(context_settings=EXTRA, epilog="Example: [bold]headrace user add ann --data data[/bold], before the first start")
def add(
    context: typer.Context,
    name: Name,
    password_file: PasswordFile = None,
    data: Data = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
) -> None:
    """Add a user, who may then sign in by SCRAM-SHA-256, SCRAM-SHA-512 and, where it is enabled, PLAIN."""
    _refuse_passwords(context)
    if data is not None:
        _add_to_stopped(data, name, _password(password_file))
        return
    users = _users(bootstrap, properties)
    if name in users.all():
        raise Failure(f"{name} is there already; change the password with `headrace user password {name}`.")
    users.set_password(name, _password(password_file))
    remark(f"Added {name}.")


@app.command(context_settings=EXTRA)
def password(
    context: typer.Context,
    name: Name,
    password_file: PasswordFile = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
) -> None:
    """Change a user's password.  Who is signed in with the old one stays so until the session ends."""
    _refuse_passwords(context)
    users = _users(bootstrap, properties)
    if name not in users.all():
        raise Failure(f"there is no user {name}; add one with `headrace user add {name}`.")
    users.set_password(name, _password(password_file))
    remark(f"Changed the password of {name}.")


@app.command("list")
def list_users(as_json: AsJson = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, properties: Properties = None) -> None:
    """Show the users, and by which mechanisms they may sign in."""
    found = _users(bootstrap, properties).all()
    rows = [(name, mechanism, iterations) for name in sorted(found) for mechanism, iterations in sorted(found[name].items())]
    if as_json:
        show_json([{"user": user, "mechanism": mechanism, "iterations": iterations} for user, mechanism, iterations in rows])
    elif not rows:
        remark("There are no users.")
    else:
        show_table(("user", "mechanism", "iterations"), rows)


@app.command()
def remove(name: Name, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, properties: Properties = None) -> None:
    """Remove a user.  Existing sessions stay valid until they end."""
    users = _users(bootstrap, properties)
    found = users.all().get(name)
    if not found:
        raise Failure(f"there is no user {name}.")
    users.remove(name, set(found))
    remark(f"Removed {name}.")


def _refuse_passwords(context: typer.Context) -> None:
    if context.args:
        raise typer.BadParameter(
            "A password is no argument, as everybody can read a command line: leave it out to be asked for it, or use "
            "--password-file FILE."
        )


def _users(bootstrap: str, properties: list[str] | None) -> "Users":
    from headrace.client.admin.users import Users

    return Users(client_properties(bootstrap, properties))


def _add_to_stopped(data: Path, name: str, secret: str) -> None:
    import asyncio

    from headrace.broker.sign_in.first_users import store_user

    asyncio.run(store_user(data, name, secret))
    remark(f"Added {name} to {data}.")


def _password(file: Path | None) -> str:
    """From a file, or from whoever sits there: never from the command line, which everybody on the machine can read."""
    from headrace.client.security.secret_files import first_line
    from headrace.model.access.saslprep import check_prepared

    if file is not None:
        # As clients read it, so that the same file signs in.
        secret = first_line(file, "the password file")
    elif sys.stdin.isatty():
        secret = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        secret = sys.stdin.readline().rstrip("\n")
    if not secret:
        raise Failure("the password is empty.")
    try:
        check_prepared(secret, "password")
    except ValueError as error:
        raise Failure(f"{error}.") from None
    return str(secret)

"""`headrace cert`: certificates for development."""

from pathlib import Path
from typing import Annotated, Final

import typer

from headrace.cli.failure import Failure
from headrace.cli.output import remark

RESERVED: Final = ("ca", "broker")  # ca.pem and broker.pem are not users' files

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Certificates for development.")


@app.callback()
def certificates() -> None:
    """Certificates for development."""


@app.command(epilog="Example: [bold]headrace cert make certs --host broker.local --client ann[/bold]")
def make(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where the files go; an authority that is there is used.")],
    hosts: Annotated[
        list[str] | None,
        typer.Option("--host", metavar="HOST", help="A host of the broker, beside localhost and 127.0.0.1; may be repeated."),
    ] = None,
    clients: Annotated[
        list[str] | None, typer.Option("--client", metavar="NAME", help="Also a certificate for this user; may be repeated.")
    ] = None,
) -> None:
    """Make an authority (ca.pem), a broker's key and certificate (broker.pem) and users' (NAME.pem), good for a year.

    For development: the authority's key lies beside them, in ca.key.
    """
    try:
        from headrace.host.certificates import DevelopmentAuthority

        authority = DevelopmentAuthority(directory)
    except ImportError:
        raise Failure("this needs a library: pip install 'headrace[security]'.") from None
    except (OSError, ValueError) as error:
        raise Failure(f"{directory} cannot be used: {error}.") from None
    for user in clients or []:
        if "/" in user or user.startswith(".") or user in RESERVED:
            raise typer.BadParameter(f"{user!r} cannot be used: its file would be {user}.pem.")
    made = [authority.file]
    # A broker takes up a new certificate within seconds: one for a client more must not take hosts away from it.
    if hosts or not clients or not (directory / "broker.pem").exists():
        made.append(authority.issue_broker(["localhost", "127.0.0.1", "::1", *(hosts or [])]))
    for user in clients or []:
        made.append(authority.issue_client(user))
    for path in made:
        remark(f"Made {path}." if path != authority.file else f"The authority is {path}.")

"""`headrace console`: a cluster in a browser."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.connection import DEFAULT_BOOTSTRAP, Bootstrap, connection_settings
from headrace.cli.failure import Failure
from headrace.cli.node.gateway import (
    AllowedHost,
    Certificate,
    ClientCa,
    CorsOrigin,
    Identities,
    Key,
    Listen,
    SaslMechanism,
    Verbose,
    check_mechanism,
    log_to_terminal,
    run,
    tls_of,
)

if TYPE_CHECKING:
    from headrace.console.serving.oidc import OidcSettings
    from headrace.console.settings import ConsoleSettings
    from headrace.gateway.gateway import Addition, Gateway

ReadOnly = Annotated[bool, typer.Option("--read-only", help="Refuse every change, whoever asks for it.")]
Hide = Annotated[
    list[str] | None,
    typer.Option(
        "--hide",
        metavar="RULE",
        help="Payloads that nobody is shown: TOPIC, PREFIX*, or TOPIC:/field/inside of JSON values. May be repeated.",
    ),
]
HistoryOption = Annotated[
    Path | None,
    typer.Option(
        "--history", metavar="DIR", help="Where the figures of the last day are kept; in your state directory by default."
    ),
]
OidcIssuer = Annotated[
    str | None,
    typer.Option("--oidc-issuer", metavar="URL", help="An OpenID provider to sign in at; the brokers have to take its tokens."),
]
OidcClientId = Annotated[str | None, typer.Option("--oidc-client-id", metavar="ID", help="Who the console is at the provider.")]
OidcSecretFile = Annotated[
    Path | None, typer.Option("--oidc-secret-file", metavar="FILE", help="Its secret there, if it has one.")
]
OidcScope = Annotated[str, typer.Option("--oidc-scope", metavar="WORDS", help="What is asked for at the provider.")]


def console(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    listen: Listen = "127.0.0.1:8080",
    read_only: ReadOnly = False,
    hide: Hide = None,
    history: HistoryOption = None,
    certificate: Certificate = None,
    key: Key = None,
    client_ca: ClientCa = None,
    identities: Identities = None,
    sasl_mechanism: SaslMechanism = None,
    oidc_issuer: OidcIssuer = None,
    oidc_client_id: OidcClientId = None,
    oidc_secret_file: OidcSecretFile = None,
    oidc_scope: OidcScope = "openid",
    cors_origin: CorsOrigin = None,
    allowed_host: AllowedHost = None,
    verbose: Verbose = False,
) -> None:
    """Show a cluster in a browser: how it is, topics and their messages, groups and their lag, brokers, rights.

    What you do there, you do as yourself: on a cluster whose clients sign in, the page asks for your name and password. The
    console's own --profile is used to watch the cluster for the charts. Every change is shown with its command first.

    Examples:

      headrace console                                    # then open http://127.0.0.1:8080/console/

      headrace console --read-only --hide 'customers*' --hide orders:/card/number
    """
    from headrace.console.settings import ConsoleSettings
    from headrace.gateway.settings import GatewaySettings

    check_mechanism(sasl_mechanism)
    log_to_terminal(verbose)
    settings = GatewaySettings(
        bootstrap=bootstrap,
        properties=connection_settings(),
        listen=listen,
        tls=tls_of(certificate, key, client_ca),
        sasl_mechanism=sasl_mechanism,
        identities=identities,
        cors_origins=tuple(cors_origin or ()),
        allowed_hosts=tuple(allowed_host or ()),
    )
    kept = history or history_directory(bootstrap)
    try:
        kept.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(f"the history cannot be kept in {kept}: {error.strerror}. Choose another place with --history.") from None
    oidc = oidc_of(oidc_issuer, oidc_client_id, oidc_secret_file, oidc_scope)
    wanted = ConsoleSettings(read_only=read_only, hide=tuple(hide or ()), history=kept, oidc=oidc)
    run(settings, _greet, [adding(wanted)])


def oidc_of(issuer: str | None, client_id: str | None, secret_file: Path | None, scope: str) -> "OidcSettings | None":
    from headrace.console.serving.oidc import OidcSettings

    if (issuer is None) != (client_id is None):
        raise typer.BadParameter("--oidc-issuer and --oidc-client-id go together.")
    if issuer is None or client_id is None:
        return None
    if secret_file is not None and not secret_file.is_file():
        raise typer.BadParameter(f"--oidc-secret-file: there is no file {secret_file}.")
    return OidcSettings(issuer=issuer, client_id=client_id, secret_file=secret_file, scope=scope)


def adding(settings: "ConsoleSettings") -> "Callable[[Gateway], Addition]":
    """What adds a console to a gateway."""
    from headrace.console.console import Console

    return lambda gateway: Console(settings, gateway)


def console_beside(bootstrap: str, *, keep: bool = True) -> "Callable[[Gateway], Addition]":
    """The console that every gateway has, with nothing hidden; its history is kept where there is room for it."""
    from headrace.console.settings import ConsoleSettings

    kept: Path | None = history_directory(bootstrap) if keep else None
    try:
        if kept is not None:
            kept.mkdir(parents=True, exist_ok=True)
    except OSError:
        kept = None
    return adding(ConsoleSettings(history=kept))


def history_directory(bootstrap: str) -> Path:
    """One for each cluster that is looked at from here."""
    given = os.environ.get("HEADRACE_STATE")
    home = Path(given) if given else Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "headrace"
    return home / "console" / re.sub(r"[^A-Za-z0-9.-]+", "_", bootstrap)[:100]


def _greet(gateway: "Gateway") -> None:
    url = gateway.server.url.replace("0.0.0.0", "127.0.0.1")
    print(
        f"""
  Headrace console     {url}/console/
  For the cluster at   {gateway.settings.bootstrap}

  Ctrl-C stops it.
""",
        flush=True,
    )

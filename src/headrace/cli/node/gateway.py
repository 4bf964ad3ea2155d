"""`headrace gateway`: HTTP for a cluster, for those who have no client of the wire."""

import errno
import logging
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.connection import DEFAULT_BOOTSTRAP, Bootstrap, connection_settings
from headrace.cli.failure import Failure
from headrace.host.ending import ending_signals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.gateway.gateway import Addition, Gateway
    from headrace.gateway.settings import GatewaySettings, Tls

    Additions = Sequence[Callable[[Gateway], Addition]]

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


Listen = Annotated[
    str,
    typer.Option("--listen", envvar="HEADRACE_GATEWAY_LISTEN", metavar="HOST:PORT", help="The address to listen on for HTTP."),
]
Certificate = Annotated[
    Path | None, typer.Option("--certificate", metavar="FILE", help="Speak TLS with this certificate, in PEM.")
]
Key = Annotated[Path | None, typer.Option("--key", metavar="FILE", help="Its key, where that is in a file of its own.")]
ClientCa = Annotated[
    Path | None,
    typer.Option("--client-ca", metavar="FILE", help="Take client certificates of this authority; see --identities."),
]
Identities = Annotated[
    Path | None,
    typer.Option(
        "--identities",
        metavar="DIR",
        help="Profiles by the common name of a client certificate (ann.toml): who the brokers are asked as.",
    ),
]
SaslMechanism = Annotated[
    str | None,
    typer.Option(
        "--sasl-mechanism",
        metavar="NAME",
        help="How Basic credentials are passed on: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, which is the default.",
    ),
]
CorsOrigin = Annotated[
    list[str] | None,
    typer.Option("--cors-origin", metavar="ORIGIN", help="An origin whose pages may call; none unless named. May be repeated."),
]
AllowedHost = Annotated[
    list[str] | None,
    typer.Option(
        "--allowed-host",
        metavar="NAME",
        help="A public name under which it may be called although anybody may call it, without TLS. May be repeated.",
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        envvar="HEADRACE_GATEWAY_METRICS",
        metavar="HOST:PORT",
        help="Where /metrics is told to Prometheus, at an address of its own; nowhere if not given.",
    ),
]
Advertise = Annotated[
    str | None,
    typer.Option("--advertise", metavar="URL", help="Where other gateways reach this one; the address listened on if not given."),
]
WebhookNetwork = Annotated[
    list[str] | None,
    typer.Option(
        "--webhook-network",
        metavar="CIDR",
        help="A private network that webhooks may go to, such as 10.0.0.0/8; none unless named. May be repeated.",
    ),
]
WebhookHttp = Annotated[bool, typer.Option("--webhook-http", help="Let webhooks go to http:// addresses, too.")]
SecretKeyFile = Annotated[
    Path | None,
    typer.Option(
        "--secret-key-file",
        metavar="FILE",
        help="32 or more random bytes with which the secrets of webhooks are sealed; the same for all gateways.",
    ),
]
BodyBytesMax = Annotated[
    int, typer.Option("--body-bytes-max", metavar="N", min=1024, help="The largest body of a request that is not a stream.")
]
ConnectionsMax = Annotated[
    int, typer.Option("--connections-max", metavar="N", min=1, help="How many connections there may be at once.")
]
MembersMax = Annotated[int, typer.Option("--members-max", metavar="N", min=1, help="How many members of groups it has at once.")]
CallersMax = Annotated[
    int, typer.Option("--callers-max", metavar="N", min=1, help="How many principals it has clients for at once.")
]
RequestsPerSecond = Annotated[
    float, typer.Option("--requests-per-second", metavar="N", min=0.0, help="How many requests a principal may make; 0: any.")
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")]


def gateway(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    listen: Listen = "127.0.0.1:8080",
    metrics: Metrics = None,
    advertise: Advertise = None,
    certificate: Certificate = None,
    key: Key = None,
    client_ca: ClientCa = None,
    identities: Identities = None,
    sasl_mechanism: SaslMechanism = None,
    cors_origin: CorsOrigin = None,
    allowed_host: AllowedHost = None,
    webhook_network: WebhookNetwork = None,
    webhook_http: WebhookHttp = False,
    secret_key_file: SecretKeyFile = None,
    body_bytes_max: BodyBytesMax = 16 * 1024 * 1024,
    connections_max: ConnectionsMax = 20_000,
    callers_max: CallersMax = 256,
    members_max: MembersMax = 500,
    requests_per_second: RequestsPerSecond = 0.0,
    verbose: Verbose = False,
) -> None:
    """Serve a cluster over HTTP, for those who have no client of the wire: records, topics, groups, webhooks.

    Every act is the caller's own: Basic credentials sign in at the brokers by SASL, a bearer token by OAUTHBEARER, and a request
    without either is as powerless as an anonymous client. /try/ has a page to try it, /openapi.json the description, and
    /console/ shows the cluster.

    Examples:

      headrace gateway                              # for the broker at 127.0.0.1:9092, at http://127.0.0.1:8080

      headrace gateway --listen 0.0.0.0:8080 --cors-origin https://shop.example
    """
    from headrace.gateway.settings import GatewaySettings, Limits

    check_mechanism(sasl_mechanism)
    log_to_terminal(verbose)
    settings = GatewaySettings(
        bootstrap=bootstrap,
        properties=connection_settings(),
        listen=listen,
        metrics=metrics,
        advertise=advertise,
        tls=tls_of(certificate, key, client_ca),
        sasl_mechanism=sasl_mechanism,
        identities=identities,
        cors_origins=tuple(cors_origin or ()),
        allowed_hosts=tuple(allowed_host or ()),
        webhook_networks=tuple(webhook_network or ()),
        webhook_http=webhook_http,
        secret_key_file=secret_key_file,
        limits=Limits(
            body_bytes_max=body_bytes_max,
            connections_max=connections_max,
            callers_max=callers_max,
            members_max=members_max,
            requests_per_second=requests_per_second,
        ),
    )
    from headrace.cli.node.console import console_beside

    run(settings, _greet, [console_beside(bootstrap)])


def check_mechanism(name: str | None) -> None:
    if name is not None and name not in MECHANISMS:
        raise typer.BadParameter(f"--sasl-mechanism is one of {', '.join(MECHANISMS)}.")


def log_to_terminal(verbose: bool) -> None:
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )


def tls_of(certificate: Path | None, key: Path | None, client_ca: Path | None) -> "Tls | None":
    from headrace.gateway.settings import Tls

    if certificate is None:
        if key is not None or client_ca is not None:
            raise typer.BadParameter("--key and --client-ca need --certificate beside them.")
        return None
    return Tls(certificate=certificate, key=key, client_authority=client_ca)


def run(settings: "GatewaySettings", greet: "Callable[[Gateway], None]", additions: "Additions") -> None:
    """Serve until a signal asks it to end."""
    import asyncio

    import uvloop

    from headrace.client.errors import InvalidArgument

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings, greet, additions))
    except InvalidArgument as error:
        raise Failure(f"{error}.") from None
    except OSError as error:
        raise Failure(cannot_listen(settings.listen, error)) from None


def cannot_listen(listen: str, error: OSError) -> str:
    """Why, and what to do."""
    if error.errno == errno.EADDRINUSE:
        return f"something already listens at {listen}. Choose another address with --listen HOST:PORT."
    return f"cannot listen at {listen}: {error.strerror or error}."


async def _serve(settings: "GatewaySettings", greet: "Callable[[Gateway], None]", additions: "Additions") -> None:
    import asyncio

    from headrace.gateway.gateway import serve

    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in ending_signals():
        loop.add_signal_handler(signal.Signals(number), stopping.set)
    await serve(settings, greet, stopping, additions)


def _greet(gateway: "Gateway") -> None:
    url = gateway.server.url.replace("0.0.0.0", "127.0.0.1")
    print(
        f"""
  Headrace gateway     {gateway.server.url}
  For the cluster at   {gateway.settings.bootstrap}

  Try, in another terminal or a browser:
    curl {url}/topics
    {url}/try/
    {url}/console/

  Ctrl-C stops it.
""",
        flush=True,
    )

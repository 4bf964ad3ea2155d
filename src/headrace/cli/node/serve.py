"""`headrace serve`: run a broker here until it is told to stop."""

import errno
import os
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.failure import Failure
from headrace.cli.node.beside import GatewayBeside
from headrace.cli.node.kafka_config import holds_kafkas_data, read_kafka_config
from headrace.cli.node.log_lines import set_up_logs
from headrace.cli.node.settings import collect, unknown_variables
from headrace.cli.output import remark
from headrace.model.broker_settings import BrokerConfig
from headrace.model.listeners import PLAINTEXT, Address, read_listeners
from headrace.model.settings import SettingError

if TYPE_CHECKING:
    from headrace.broker.app import Broker
    from headrace.broker.metrics.collecting import Collecting, Page
    from headrace.gateway.settings import GatewaySettings
    from headrace.metrics.scrape import Scrape

DEFAULT_PORT = 9092


def serve(
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help="Where the data lives; ./data if not given.")] = None,
    memory: Annotated[bool, typer.Option("--memory", help="Keep everything in memory; write no file.")] = False,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="The address to listen on; 127.0.0.1:9092 if not given. Several as NAME://HOST:PORT,NAME://HOST:PORT.",
        ),
    ] = None,
    advertise: Annotated[
        str | None,
        typer.Option(
            "--advertise",
            metavar="HOST:PORT",
            help="The address clients are told, where it is not the one listened on; needed with 0.0.0.0.",
        ),
    ] = None,
    config: Annotated[Path | None, typer.Option("--config", metavar="FILE.toml", help="Settings from a file.")] = None,
    kafka_config: Annotated[
        Path | None,
        typer.Option("--kafka-config", metavar="FILE", help="Settings from a server.properties of Kafka, taken as it is."),
    ] = None,
    flush: Annotated[
        str | None,
        typer.Option("--flush", metavar="MODE", help="ack: on disk before the acknowledgement (the default); interval; or os."),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(
            "--http",
            metavar="HOST:PORT",
            help="Serve HTTP there, too: the gateway and the console, as `headrace gateway` does for a cluster.",
        ),
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any setting of docs/settings.md; may be repeated.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")] = False,
) -> None:
    """Run a broker.

    Settings come from the defaults, then the files, then HEADRACE_* variables, then flags: the later one wins.

    Examples:

      headrace serve                                # data in ./data

      headrace serve --memory --listen 127.0.0.1:0  # no file, a free port

      headrace serve --listen 0.0.0.0:9092 --advertise broker.example:9092

      headrace serve --memory --http 127.0.0.1:8080

      HEADRACE_NUM_PARTITIONS=12 headrace serve --config headrace.toml

      headrace serve --kafka-config server.properties --data ./data
    """
    if memory and data is not None:
        raise typer.BadParameter("Give --data or --memory, not both.")
    flags = _flags(data, memory, listen, advertise, flush, setting)
    read = partial(_read_settings, config, flags, kafka_config)
    settings = read()
    for line in unknown_variables(os.environ):
        remark(line)
    if kafka_config is not None and (not_used := read_kafka_config(kafka_config).not_used):
        remark(f"Settings of {kafka_config} that have no meaning here: {', '.join(not_used)}.")
    set_up_logs(settings, verbose=verbose)
    _run(settings, http, read)


def _read_settings(config: Path | None, flags: dict[str, str], kafka_config: Path | None) -> BrokerConfig:
    return BrokerConfig(collect(config, os.environ, flags, kafka_config))


def _flags(
    data: Path | None, memory: bool, listen: str | None, advertise: str | None, flush: str | None, setting: list[str] | None
) -> dict[str, str]:
    from headrace.cli.connection import key_values

    flags = key_values(setting, "--set")
    if data is not None:
        # Said on the command line it also goes before a file or a variable that says memory.
        flags |= {"log.dirs": str(data), "headrace.memory": "false"}
    if memory:
        flags["headrace.memory"] = "true"
    if listen is not None:
        flags["listeners"] = listen
    if advertise is not None:
        flags["advertised.listeners"] = advertise
    if flush is not None:
        flags["headrace.flush"] = flush
    return flags


def _run(settings: BrokerConfig, http: str | None, read: Callable[[], BrokerConfig]) -> None:
    from headrace.broker.app import CannotStart, NoMetadata
    from headrace.broker.app import serve as run_broker
    from headrace.broker.supervision.supervision import BrokerFailed

    _check_addresses(settings, http)
    _check_directory(settings)
    if http is not None:
        _prepare_gateway(http)
    beside: list[GatewayBeside] = []
    try:
        run_broker(settings, partial(_on_ready, http, beside), partial(_reread, read))
    except OSError as error:
        raise Failure(_cannot_start(settings, error)) from None
    except BrokerFailed as error:
        raise Failure(f"the broker has ended: {error}.") from None
    except CannotStart as error:
        raise Failure(f"the broker cannot start: {error}.") from None
    except NoMetadata as error:
        raise Failure(f"the broker cannot start without its metadata ({settings['headrace.metadata']}): {error}.") from None
    finally:
        for gateway in beside:
            gateway.stop()


def _reread(read: Callable[[], BrokerConfig]) -> BrokerConfig:
    try:
        return read()
    except Failure as failure:
        raise SettingError(str(failure).rstrip(".")) from None


def _prepare_gateway(http: str) -> None:
    """What would hold the broker up later: its modules are loaded, and its address is tried."""
    import headrace.console.console
    import headrace.gateway.gateway  # noqa: F401
    from headrace.cli.node.gateway import cannot_listen
    from headrace.gateway.serving.server import listen_address

    try:
        socket.create_server(listen_address(http)).close()
    except OSError as error:
        raise Failure(cannot_listen(http, error).replace("--listen", "--http")) from None


def _on_ready(http: str | None, beside: "list[GatewayBeside]", broker: "Broker") -> None:
    url = ""
    if http is not None:
        from headrace.cli.node.console import console_beside

        settings = _gateway_settings(http, broker)
        gateway = GatewayBeside(settings, [console_beside(settings.bootstrap, keep=not broker.config["headrace.memory"])])
        gateway.start()
        beside.append(gateway)
        broker.collection.collectors.append(_GatewaysFigures(gateway))
        url = gateway.url
    greet(broker, url)


class _GatewaysFigures:
    """The gateway's metrics on the broker's page."""

    def __init__(self, beside: GatewayBeside) -> None:
        self._beside = beside

    def collect(self, scrape: "Scrape", page: "Page") -> "Collecting":
        from headrace.broker.metrics.collecting import Page
        from headrace.gateway.metrics import tell

        if page is Page.SUMMARY and self._beside.gateway is not None:
            tell(self._beside.gateway, scrape)
        yield


def _gateway_settings(http: str, broker: "Broker") -> "GatewaySettings":
    """The way to the broker in this process, as any other client has to take it."""
    from headrace.gateway.settings import GatewaySettings

    reach = broker.address._replace(host="127.0.0.1") if broker.address.is_everywhere else broker.address
    protocol = broker.listeners.each[0].security_protocol
    properties = {} if protocol == PLAINTEXT else {"security.protocol": protocol}
    authority = broker.config["ssl.truststore.location"] or broker.config["ssl.keystore.location"]
    if "SSL" in protocol and authority is not None:
        properties["ssl.ca.location"] = str(authority)
    return GatewaySettings(bootstrap=str(reach), properties=properties, listen=http)


def _check_addresses(settings: BrokerConfig, http: str | None) -> None:
    from headrace.broker.network.http_listener import http_address

    try:
        listeners = read_listeners(settings)
    except SettingError as error:
        raise Failure(f"{error}.") from None
    taken = {each.address.port: "a listener" for each in listeners.each}
    pages = {name: settings[name] for name in ("headrace.health.listener", "headrace.metrics.listener")}
    for name, wanted in {**pages, "--http": http}.items():
        if wanted is None:
            continue
        try:
            port = http_address(wanted).port
        except ValueError as error:
            raise Failure(f"{name}: {error}.") from None
        if port and port in taken:
            raise Failure(f"{name}: {wanted} has the port of {taken[port]}, {port}; give it a port of its own.")
        taken[port] = name


def _check_directory(settings: BrokerConfig) -> None:
    if "," in settings["log.dirs"]:
        raise Failure("log.dirs names several directories, and a broker has one; join disks below it, with RAID or LVM.")
    directory = Path(settings["log.dirs"])
    if not settings["headrace.memory"] and directory.exists() and not directory.is_dir():
        raise Failure(f"{directory} is not a directory. Choose another with --data DIR.")
    if not settings["headrace.memory"] and holds_kafkas_data(directory):
        advice = "Choose another directory with --data DIR; docs/kafka.md says how to move topics."
        raise Failure(f"{directory} holds the data of a Kafka broker. {advice}")


def _cannot_start(settings: BrokerConfig, error: OSError) -> str:
    listeners, directory = settings["listeners"], settings["log.dirs"]
    if isinstance(error, socket.gaierror):
        return f"cannot listen at {error.strerror}. Choose another address with --listen HOST:PORT."
    match error.errno:
        case errno.EADDRINUSE:
            return f"something already listens at {listeners}. Choose another address with --listen HOST:PORT."
        case errno.EADDRNOTAVAIL:
            return f"{listeners} is not an address of this machine. Choose another with --listen HOST:PORT."
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return f"{error.filename or directory}: {error.strerror}. Choose another directory with --data DIR."
        case _:
            return f"the broker cannot start: {error.strerror or error}."


def greet(broker: "Broker", url: str = "") -> None:
    """The one screen: where it listens, where the data is, and what to try next."""
    kept = "in memory; it is gone when the broker stops"
    if not broker.config["headrace.memory"]:
        kept = str(Path(broker.config["log.dirs"]).resolve())
    reach = broker.address._replace(host="127.0.0.1") if broker.address.is_everywhere else broker.address
    option = "" if reach == ("127.0.0.1", DEFAULT_PORT) else f" --bootstrap {reach}"
    invitation = "Try, in another terminal:"
    if (protocol := broker.listeners.each[0].security_protocol) != PLAINTEXT:
        option = " --profile NAME"
        invitation = f"Clients speak {protocol}: write a profile as in docs/security.md, then try, in another terminal:"
    health = "" if broker.health.address is None else f"\n  Health               http://{broker.health.address}/ready"
    web = f"\n  HTTP                 {url}/console/, {url}/try/" if url else ""
    print(
        f"""
{_where(broker)}
  Data                 {kept}{health}{web}

  {invitation}
    echo 'hello, log' | headrace produce greetings{option}
    headrace consume greetings --follow{option}

  Ctrl-C stops it.
""",
        flush=True,
    )


def _where(broker: "Broker") -> str:
    """A line for each listener, and for each address that clients are told and that is not the one listened on."""
    named = len(broker.addresses) > 1 or broker.listeners.each[0].security_protocol != PLAINTEXT
    lines = []
    for name, address in broker.addresses.items():
        purpose = ", for brokers" if len(broker.addresses) > 1 and name == broker.listeners.inter_broker else ""
        lines.append(f"  Headrace serves at   {f'{name}://' if named else ''}{address}{purpose}")
        endpoint = broker.parts.membership.registration.endpoints[name]
        if (endpoint.host, endpoint.port) != address:
            lines.append(f"  Advertised as        {Address(endpoint.host, endpoint.port)}")
    return "\n".join(lines)

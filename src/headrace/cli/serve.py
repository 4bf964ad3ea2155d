"""`headrace serve`: run a broker here until it is told to stop."""

import errno
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.failure import Failure
from headrace.cli.output import remark
from headrace.cli.serve_settings import collect, unknown_variables
from headrace.model.broker_settings import BrokerConfig

if TYPE_CHECKING:
    from headrace.broker.app import Broker

DEFAULT_PORT = 9092


def serve(
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help="Where the data lives; ./data if not given.")] = None,
    memory: Annotated[bool, typer.Option("--memory", help="Keep everything in memory; write no file.")] = False,
    listen: Annotated[
        str | None, typer.Option("--listen", metavar="HOST:PORT", help="The address to listen on; 127.0.0.1:9092 if not given.")
    ] = None,
    advertise: Annotated[
        str | None,
        typer.Option(
            "--advertise", metavar="HOST:PORT", help="The address clients are told, where it is not the one listened on."
        ),
    ] = None,
    config: Annotated[Path | None, typer.Option("--config", metavar="FILE.toml", help="Settings from a file.")] = None,
    flush: Annotated[
        str | None,
        typer.Option("--flush", metavar="MODE", help="ack: on disk before the acknowledgement (the default); interval; or os."),
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any setting of docs/settings.md; may be repeated.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")] = False,
) -> None:
    """Run a broker.

    Settings come from the defaults, then the file, then HEADRACE_* variables, then flags: the later one wins.

    Examples:

      headrace serve                                # data in ./data

      headrace serve --memory --listen 127.0.0.1:0  # no file, a free port

      headrace serve --listen 0.0.0.0:9092 --advertise broker.example:9092

      HEADRACE_NUM_PARTITIONS=12 headrace serve --config headrace.toml
    """
    if memory and data is not None:
        raise typer.BadParameter("Give --data or --memory, not both.")
    flags = _flags(data, memory, listen, advertise, flush, setting)
    settings = BrokerConfig(collect(config, os.environ, flags))
    for line in unknown_variables(os.environ):
        remark(line)
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    _run(settings)


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


def _run(settings: BrokerConfig) -> None:
    from headrace.broker.app import NoMetadata
    from headrace.broker.app import serve as run_broker
    from headrace.broker.listeners import parse_address
    from headrace.broker.supervision import BrokerFailed

    for name in ("listeners", "advertised.listeners", "headrace.health.listener"):
        try:
            parse_address(settings[name] or settings["listeners"])
        except ValueError as error:
            raise Failure(f"{name}: {error}.") from None
    try:
        run_broker(settings, greet)
    except OSError as error:
        raise Failure(_cannot_start(settings, error)) from None
    except BrokerFailed as error:
        raise Failure(f"the broker has ended: {error}.") from None
    except NoMetadata as error:
        raise Failure(f"the broker cannot start without its metadata ({settings['headrace.metadata']}): {error}.") from None


def _cannot_start(settings: BrokerConfig, error: OSError) -> str:
    listeners, directory = settings["listeners"], settings["log.dirs"]
    match error.errno:
        case errno.EADDRINUSE:
            return f"something already listens at {listeners}. Choose another address with --listen HOST:PORT."
        case errno.EADDRNOTAVAIL:
            return f"{listeners} is not an address of this machine. Choose another with --listen HOST:PORT."
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return f"{error.filename or directory}: {error.strerror}. Choose another directory with --data DIR."
        case _:
            return f"the broker cannot start: {error.strerror or error}."


def greet(broker: "Broker") -> None:
    """The one screen: where it listens, where the data is, and what to try next."""
    host, port = broker.address
    kept = "in memory; it is gone when the broker stops"
    if not broker.config["headrace.memory"]:
        kept = str(Path(broker.config["log.dirs"]).resolve())
    reach = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    option = "" if (reach, port) == ("127.0.0.1", DEFAULT_PORT) else f" --bootstrap {reach}:{port}"
    health = "" if broker.health.address is None else "\n  How it is            http://{}:{}/ready".format(*broker.health.address)
    print(
        f"""
  Headrace serves at   {host}:{port}
  The data is          {kept}{health}

  Try, in another terminal:
    echo 'hello, log' | headrace produce greetings{option}
    headrace consume greetings --follow{option}

  Ctrl-C stops it.
""",
        flush=True,
    )

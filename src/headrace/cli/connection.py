"""How the client commands reach a broker: the options they share, and librdkafka's errors as sentences.

confluent-kafka is imported inside the functions: `headrace --help` and `headrace serve` do not pay for it.
"""

import logging
import socket
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from headrace.cli.failure import Failure

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
REACH_TIMEOUT_S = 3.0
REQUEST_TIMEOUT_S = 15.0

Result = TypeVar("Result")

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap", "-b", envvar="HEADRACE_BOOTSTRAP", metavar="HOST:PORT[,...]", help="The broker, or several of one cluster."
    ),
]
Properties = Annotated[
    list[str] | None,
    typer.Option("--property", "-X", metavar="NAME=VALUE", help="A client property of librdkafka; may be repeated."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts instead of a table.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]


def key_values(pairs: list[str] | None, option: str) -> dict[str, str]:
    """`name=value` texts as a dictionary; a text without `=` is a wrong use of the option."""
    parsed = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{option} wants NAME=VALUE, not {pair!r}.")
        parsed[name] = value
    return parsed


def admin_client(bootstrap: str, properties: list[str] | None = None) -> "AdminClient":
    """A client for administration.  Fails at once with a sentence when no broker answers."""
    from confluent_kafka.admin import AdminClient

    return _created(AdminClient, client_properties(bootstrap, properties))


def consumer_client(bootstrap: str, properties: list[str] | None = None, **settings: Any) -> "Consumer":
    """A consumer; settings with their dots written as underscores."""
    from confluent_kafka import Consumer

    return _created(Consumer, {**_dotted(settings), **client_properties(bootstrap, properties)})


def producer_client(bootstrap: str, properties: list[str] | None = None, **settings: Any) -> "Producer":
    """A producer; settings with their dots written as underscores."""
    from confluent_kafka import Producer

    return _created(Producer, {**_dotted(settings), **client_properties(bootstrap, properties)})


def _created(client: Callable[[dict[str, Any]], Result], properties: dict[str, Any]) -> Result:
    from confluent_kafka import KafkaException

    try:
        return client(properties)
    except KafkaException as error:
        raise Failure(f"the client refuses its settings: {sentence(error)}") from None


def _dotted(settings: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in settings.items()}


def client_properties(bootstrap: str, properties: list[str] | None) -> dict[str, Any]:
    """What every client of a command is made with.  Fails at once with a sentence when no broker answers."""
    require_reachable(bootstrap)
    return {
        "bootstrap.servers": bootstrap,
        "logger": _silence(),
        # Whatever matters comes back with the call or the record it concerns.  Without this, a fatal error would also be raised
        # from the midst of a callback.
        "error_cb": lambda error: None,
        **key_values(properties, "--property"),
    }


def _silence() -> logging.Logger:
    """librdkafka writes nothing of its own to the terminal; what matters reaches us as errors."""
    logger = logging.Logger("librdkafka")
    logger.addHandler(logging.NullHandler())
    return logger


def addresses(bootstrap: str) -> list[tuple[str, int]]:
    """The hosts and ports of a bootstrap text."""
    return [_address(part.strip()) for part in bootstrap.split(",") if part.strip()]


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise typer.BadParameter(f"{text!r} is not HOST:PORT.")
    return host.strip("[]"), int(port)


def require_reachable(bootstrap: str) -> None:
    """Fail with a sentence, within seconds, when nothing listens at any of the addresses."""
    reasons = []
    for host, port in addresses(bootstrap):
        try:
            socket.create_connection((host, port), timeout=REACH_TIMEOUT_S).close()
            return
        except OSError as error:
            reasons.append(f"{host}:{port} ({error.strerror or error})")
    raise Failure(
        f"no broker answers at {', '.join(reasons) or repr(bootstrap)}. "
        "Start one with `headrace serve`, or name another with --bootstrap."
    )


def result_of(future: "Future[Result]", doing: str) -> Result:
    """What an administrative call came to; its error becomes a sentence about what was being done."""
    from confluent_kafka import KafkaException

    try:
        return future.result(timeout=REQUEST_TIMEOUT_S + 5)
    except KafkaException as error:
        raise Failure(f"{doing} failed: {sentence(error)}") from None
    except TimeoutError:
        raise Failure(f"{doing} failed: no answer within {REQUEST_TIMEOUT_S:.0f} s.") from None


def attempt(doing: str, call: Callable[[], Result]) -> Result:
    """Run a blocking client call; its error becomes a sentence about what was being done."""
    from confluent_kafka import KafkaException

    try:
        return call()
    except KafkaException as error:
        raise Failure(f"{doing} failed: {sentence(error)}") from None


def sentence(error: Any) -> str:
    """A KafkaError, or the exception that carries one, as one sentence with the protocol's name for it."""
    cause = error.args[0] if isinstance(error, Exception) and error.args else error
    if not hasattr(cause, "name"):
        return str(cause)
    text = cause.str().removeprefix("Broker: ").strip()
    name = cause.name().lstrip("_")
    ending = "" if text.endswith((".", "?", "!")) else "."
    return f"{text}{ending}" if name in text else f"{text}{ending} ({name})"


def existing_topic(admin: "AdminClient", topic: str) -> Any:
    """The metadata of a topic; a sentence when there is none, with the nearest name."""
    metadata = attempt("asking for the topics", lambda: admin.list_topics(timeout=REQUEST_TIMEOUT_S))
    if topic not in metadata.topics:
        from difflib import get_close_matches

        near = get_close_matches(topic, metadata.topics, n=1)
        hint = f"Did you mean {near[0]}?" if near else "`headrace topic list` shows those there are."
        raise Failure(f"there is no topic {topic}. {hint}")
    return metadata.topics[topic]


def complete_topics(incomplete: str) -> list[str]:
    """Topic names for the shell's completion; nothing when no broker answers."""
    import os

    try:
        admin = admin_client(os.environ.get("HEADRACE_BOOTSTRAP", DEFAULT_BOOTSTRAP))
        return sorted(name for name in admin.list_topics(timeout=1).topics if name.startswith(incomplete))
    except Exception:
        return []  # a completion has nowhere to show an error


TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.", autocompletion=complete_topics)]

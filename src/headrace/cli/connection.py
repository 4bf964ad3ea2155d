"""How the client commands reach a broker: the options they share, and the SDK's administration and clients.

The SDK is imported inside the functions: `headrace --help` and `headrace serve` do not pay for them.
"""

import logging
import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.failure import Failure
from headrace.cli.output import remark
from headrace.cli.way import DEFAULT_BOOTSTRAP, Bootstrap, Properties, chosen_properties, key_values

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

    from headrace.client.admin.admin import Admin
    from headrace.client.admin.descriptions import TopicDescription
    from headrace.client.admin.wire_admin import WireAdmin
    from headrace.client.librdkafka import Consumer, Producer
    from headrace.client.positions import Position

REQUEST_TIMEOUT_S = 15.0

__all__ = ["DEFAULT_BOOTSTRAP", "Bootstrap", "Properties", "key_values"]  # what commands need of `way`, beside what is here

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts instead of a table.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]


def connection_settings(properties: list[str] | None = None) -> dict[str, Any]:
    """librdkafka's properties for a command: those of the profile, and those that were given on top."""
    return {**chosen_properties(), **key_values(properties, "--property")}


def open_admin(bootstrap: str, properties: list[str] | None = None, *, timeout: float = REQUEST_TIMEOUT_S) -> "Admin":
    """The SDK's administration.  Fails at once with a sentence when no broker answers."""
    from headrace.client.admin.admin import Admin

    require_reachable(bootstrap, properties)
    # Without a first contact of its own: this was one.
    return Admin(bootstrap, timeout=timeout, connect_timeout=timeout, librdkafka=connection_settings(properties))


def open_wire_admin(bootstrap: str) -> "WireAdmin":
    """For the calls that librdkafka lacks.  Fails at once with a sentence when no broker answers."""
    from headrace.client.admin.wire_admin import WireAdmin

    require_reachable(bootstrap)
    return WireAdmin(bootstrap, connection_settings())


def consumer_client(bootstrap: str, properties: list[str] | None = None, **more: Any) -> "Consumer":
    """A consumer; settings with their dots written as underscores."""
    from headrace.client.librdkafka import new_consumer

    return new_consumer({**_dotted(more), **client_properties(bootstrap, properties)})


def producer_client(bootstrap: str, properties: list[str] | None = None, **more: Any) -> "Producer":
    """A producer; settings with their dots written as underscores."""
    from headrace.client.librdkafka import new_producer

    return new_producer({**_dotted(more), **client_properties(bootstrap, properties)})


def _dotted(more: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in more.items()}


def client_properties(bootstrap: str, properties: list[str] | None) -> dict[str, Any]:
    """What every client of a command is made with.  Fails at once with a sentence when no broker answers."""
    require_reachable(bootstrap, properties)
    return {
        "bootstrap.servers": bootstrap,
        "logger": _silence(),
        # Whatever matters comes back with the call or the record it concerns.  Without this, a fatal error would also be raised
        # from the midst of a callback.
        "error_cb": lambda error: None,
        **connection_settings(properties),
    }


def _silence() -> logging.Logger:
    """librdkafka writes nothing of its own to the terminal; what matters reaches us as errors."""
    logger = logging.Logger("librdkafka")
    logger.addHandler(logging.NullHandler())
    return logger


def require_reachable(bootstrap: str, properties: list[str] | None = None) -> None:
    """Fail with a sentence, within seconds, when there is no broker at any of the addresses."""
    from headrace.client.arguments import refuse_foreign_protocol
    from headrace.client.broker_connection import MAY_WANT
    from headrace.client.contact import ATTEMPT_S, SILENT, FirstContact, look_for_broker

    given = [part.strip() for part in bootstrap.split(",") if part.strip()]
    for text in given:
        refuse_foreign_protocol(text)
        if not re.fullmatch(r".+:\d+", text):
            raise typer.BadParameter(f"{text!r} is not HOST:PORT.")
    is_there, why, refusal = look_for_broker(given, connection_settings(properties))
    if refusal is not None:
        raise refusal
    reasons = ", ".join(f"{address} ({reason})" for address, reason in why.items())
    if is_there and reasons:
        remark(f"Waiting for an answer from {reasons}.")
        contact = FirstContact({"bootstrap.servers": bootstrap, **connection_settings(properties)}, ATTEMPT_S)
        contact.silent = SILENT  # has been told
        contact.require()
    elif not is_there:
        # Somebody who hung up is there, and needs no other to be started.
        advice = "" if MAY_WANT in reasons else " Start one with `headrace serve`, or name another with --bootstrap."
        raise Failure(f"no broker answers at {reasons or repr(bootstrap)}.{advice}")


def sentence(error: "KafkaError") -> str:
    """Why one record was refused, with the protocol's name for it."""
    text = error.str().removeprefix("Broker: ").strip()
    name = error.name().lstrip("_")
    ending = "" if text.endswith((".", "?", "!")) else "."
    return f"{text}{ending}" if name in text else f"{text}{ending} ({name})"


def existing_topic(admin: "Admin", topic: str) -> "TopicDescription":
    """A topic; a sentence when there is none, with the nearest name."""
    from headrace.client.errors import InvalidArgument, TopicNotFound

    try:
        return admin.topic(topic)
    except (TopicNotFound, InvalidArgument):
        from difflib import get_close_matches

        near = get_close_matches(topic, admin.topic_names(), n=1)
        hint = f"Did you mean {near[0]}?" if near else "`headrace topic list` shows those there are."
        raise Failure(f"there is no topic {topic}. {hint}") from None


def chosen_partitions(found: "TopicDescription", partition: int | None) -> list[int]:
    """The partitions of a topic, or the one that was named, which must be there."""
    present = [each.index for each in found.partitions]
    if partition is None:
        return present
    if partition not in present:
        raise Failure(f"{found.name} has no partition {partition}; it has {len(present)}.")
    return [partition]


def position_given(text: str) -> "Position":
    """A place in a partition as a person writes it."""
    from headrace.client.errors import InvalidArgument
    from headrace.client.positions import parse_position

    try:
        return parse_position(text)
    except InvalidArgument as error:
        raise typer.BadParameter(f"{error}.") from None


def complete_topics(incomplete: str) -> list[str]:
    """Topic names for the shell's completion; nothing when no broker answers."""
    from headrace.client.admin.admin import Admin
    from headrace.client.security.connecting import way_to

    try:
        way = way_to(None, {}, takes_default=True)
        with Admin(way.bootstrap, librdkafka=way.properties, timeout=1, connect_timeout=1) as admin:
            return [name for name in admin.topic_names() if name.startswith(incomplete)]
    except Exception:
        return []  # a completion has nowhere to show an error


TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.", autocompletion=complete_topics)]

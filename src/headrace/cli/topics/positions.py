"""Where to start reading, as a person writes it: earliest, latest, an offset, or a point in time."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import typer

from headrace.cli.connection import REQUEST_TIMEOUT_S, result_of

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a partition, not yet resolved to an offset where it is not one."""

    kind: Literal["earliest", "latest", "offset", "time"]
    number: int = 0  # the offset, or milliseconds since 1970


def parse_position(text: str) -> Position:
    """`earliest`, `latest`, a whole number, or an ISO date with or without a time.  A time without a zone is this machine's."""
    match text.strip().lower():
        case "earliest":
            return Position("earliest")
        case "latest":
            return Position("latest")
    if text.strip().isdigit():
        return Position("offset", int(text))
    return Position("time", parse_time(text))


def parse_time(text: str) -> int:
    """Milliseconds since 1970 of an ISO timestamp."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not earliest, latest, an offset or an ISO timestamp such as 2026-05-01T12:00:00Z."
        ) from None
    return round((moment if moment.tzinfo else moment.astimezone()).astimezone(UTC).timestamp() * 1000)


def resolve(admin: "AdminClient", places: dict[tuple[str, int], Position], doing: str) -> dict[tuple[str, int], int]:
    """The offset of each place.  A time after the last record is the end of the partition."""
    offsets = {at: place.number for at, place in places.items() if place.kind == "offset"}
    asked = {at: place for at, place in places.items() if place.kind != "offset"}
    offsets |= _list_offsets(admin, asked, doing)
    beyond = {at: Position("latest") for at, offset in offsets.items() if offset < 0}
    return offsets | _list_offsets(admin, beyond, doing)


def _list_offsets(admin: "AdminClient", places: dict[tuple[str, int], Position], doing: str) -> dict[tuple[str, int], int]:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec

    if not places:
        return {}
    specs = {"earliest": OffsetSpec.earliest, "latest": OffsetSpec.latest}
    request = {
        TopicPartition(topic, partition): OffsetSpec.for_timestamp(place.number) if place.kind == "time" else specs[place.kind]()
        for (topic, partition), place in places.items()
    }
    futures = admin.list_offsets(request, request_timeout=REQUEST_TIMEOUT_S)
    return {(at.topic, at.partition): result_of(future, doing).offset for at, future in futures.items()}


def bounds(admin: "AdminClient", partitions: Iterable[tuple[str, int]], doing: str) -> dict[tuple[str, int], tuple[int, int]]:
    """The first and the next offset of each partition."""
    wanted = list(partitions)
    starts = resolve(admin, dict.fromkeys(wanted, Position("earliest")), doing)
    ends = resolve(admin, dict.fromkeys(wanted, Position("latest")), doing)
    return {at: (starts[at], ends[at]) for at in wanted}

"""A position in a partition: its beginning, its end, an offset, or a moment; and the offset that it comes to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from headrace.client.arguments import timestamp_ms
from headrace.client.errors import InvalidArgument
from headrace.model.identity import TopicPartition

if TYPE_CHECKING:
    from headrace.client.admin.admin import Admin


@dataclass(frozen=True, slots=True)
class Position:
    """Where to read from or to move to: not yet resolved to an offset where it is not one."""

    kind: Literal["earliest", "latest", "offset", "time"]
    number: int = 0  # the offset, or milliseconds since 1970


EARLIEST = Position("earliest")
LATEST = Position("latest")


def parse_position(text: str) -> Position:
    """`earliest`, `latest`, a whole number, or an ISO date with or without a time.  A time without a zone is this machine's."""
    bare = text.strip()
    match bare.lower():
        case "earliest":
            return EARLIEST
        case "latest":
            return LATEST
    if bare.isdigit():
        return Position("offset", int(bare))
    try:
        return Position("time", timestamp_ms("position", datetime.fromisoformat(bare)))
    except ValueError:
        raise InvalidArgument(
            f"{text!r} is not earliest, latest, an offset or an ISO timestamp such as 2026-05-01T12:00:00Z"
        ) from None


def resolve(admin: Admin, positions: Mapping[TopicPartition, Position]) -> dict[TopicPartition, int]:
    """The offset of each position.  A time after the last record is the end of the partition."""
    asked = {each: _at(position) for each, position in positions.items() if position.kind != "offset"}
    found = admin.find_offsets(asked)
    found |= admin.find_offsets(dict.fromkeys((each for each, offset in found.items() if offset is None), "latest"))
    known = {each: offset for each, offset in found.items() if offset is not None}
    return {each: position.number if position.kind == "offset" else known[each] for each, position in positions.items()}


def _at(position: Position) -> str | int:
    return position.number if position.kind == "time" else position.kind


def ranges(admin: Admin, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
    """The first and the next offset of each partition."""
    wanted = list(partitions)
    starts = resolve(admin, dict.fromkeys(wanted, EARLIEST))
    ends = resolve(admin, dict.fromkeys(wanted, LATEST))
    return {each: (starts[each], ends[each]) for each in wanted}

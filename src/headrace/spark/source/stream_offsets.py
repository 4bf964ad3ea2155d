"""A stream's position as Spark keeps it in the checkpoint.

`{"orders": {"0": 12, "1": 7}, "@at": 1700000000000, "@begin": {"orders": {"1": 3}}, "@ids": {"orders": "…"}}`

The topics' part is what Spark's own Kafka source writes.  No topic's name has an @, so the rest is ours:
`@ids` tells a topic from another of the same name that came later; `@begin` says where this batch begins reading partitions
that its predecessor did not know (new ones, or ones that lost records); `@at` is when the batch was planned, against which
messages' time to live is measured, so that a batch run again gives the same rows.  Equal positions give equal JSON.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.model.identity import TopicPartition
from headrace.spark.errors import HeadraceSparkError
from headrace.spark.source.plan import OffsetRange

IDS = "@ids"
BEGIN = "@begin"
PLANNED_AT = "@at"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOffsets:
    """The next offset to read in each partition, after a batch."""

    positions: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str]
    begins: Mapping[TopicPartition, int] = field(default_factory=dict)
    planned_at_ms: int = 0

    @property
    def topics(self) -> set[str]:
        return {partition.topic for partition in self.positions}

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = by_topic(self.positions)
        found[PLANNED_AT] = self.planned_at_ms
        if self.begins:
            found[BEGIN] = by_topic(self.begins)
        found[IDS] = dict(sorted(self.topic_ids.items()))
        return found


def read_stream_offsets(found: Mapping[str, Any]) -> StreamOffsets:
    """Read a position from a checkpoint; one of another source is refused by name."""
    try:
        return StreamOffsets(
            positions=_by_partition({topic: numbers for topic, numbers in found.items() if not topic.startswith("@")}),
            topic_ids=dict(found.get(IDS, {})),
            begins=_by_partition(found.get(BEGIN, {})),
            planned_at_ms=int(found.get(PLANNED_AT, 0)),
        )
    except (AttributeError, TypeError, ValueError):
        raise HeadraceSparkError(
            f"the checkpoint holds a position that is not of the headrace source: {dict(found)!r}; "
            "give the query a checkpointLocation of its own"
        ) from None


def ranges_of_batch(start: StreamOffsets, end: StreamOffsets) -> list[OffsetRange]:
    """What the batch between two positions reads.  Needs nothing else, so a batch run again reads the same."""
    if start == end:
        return []
    ranges = [
        OffsetRange(
            partition=partition,
            start=end.begins[partition] if partition in end.begins else start.positions.get(partition, 0),
            end=end.positions[partition],
        )
        for partition in sorted(end.positions)
    ]
    return [one for one in ranges if one.size > 0]


def by_topic(numbers: Mapping[TopicPartition, int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for partition in sorted(numbers):
        found.setdefault(partition.topic, {})[str(partition.partition)] = numbers[partition]
    return found


def _by_partition(found: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(number)): int(offset) for topic, numbers in found.items() for number, offset in numbers.items()
    }

"""Decides how far the next micro-batch of a stream goes.  Pure: where the query stands and what the brokers have, to a position.

Always: a position never moves backwards within one life of a topic, and whatever cannot be read any more is named in `losses`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.model.identity import TopicPartition
from headrace.spark.source.plan import limit_ends
from headrace.spark.source.stream_offsets import StreamOffsets


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """What the brokers have of the subscribed topics at one moment."""

    topic_ids: Mapping[str, str]
    earliest: Mapping[TopicPartition, int]
    latest: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """Where a batch begins and could end, partition by partition."""

    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    begins: Mapping[TopicPartition, int]  # the starts that the previous position does not say
    dropped: frozenset[TopicPartition]
    losses: tuple[str, ...]

    @property
    def offset_count(self) -> int:
        return sum(max(0, self.ends[partition] - self.starts[partition]) for partition in self.ends)


def advance(start: StreamOffsets, state: LogState, target: Mapping[TopicPartition, int] | None) -> Advance:
    """Everything readable after `start`; not past `target` where one is set (trigger available-now)."""
    starts: dict[TopicPartition, int] = {}
    begins: dict[TopicPartition, int] = {}
    losses: list[str] = []
    for partition, latest in state.latest.items():
        known = start.positions.get(partition)
        begin, loss = _begin(partition, known, start, state)
        starts[partition] = begin
        if begin != known:
            begins[partition] = begin
        if loss:
            losses.append(loss)
        assert begin <= latest or known is None, f"{partition} begins at {begin}, past its end {latest}"
    dropped = frozenset(start.positions) - frozenset(state.latest)
    losses += [
        f"{partition} is gone; its records from offset {start.positions[partition]} on were not read"
        for partition in sorted(dropped)
    ]
    ends = dict(state.latest)
    if target is not None:
        ends = {partition: min(latest, target.get(partition, starts[partition])) for partition, latest in ends.items()}
    ends = {partition: max(end, starts[partition]) for partition, end in ends.items()}
    return Advance(starts=starts, ends=ends, begins=begins, dropped=dropped, losses=tuple(losses))


def _begin(partition: TopicPartition, known: int | None, start: StreamOffsets, state: LogState) -> tuple[int, str]:
    earliest, latest = state.earliest[partition], state.latest[partition]
    if known is None:
        return earliest, ""
    old_id, new_id = start.topic_ids.get(partition.topic), state.topic_ids[partition.topic]
    if old_id is not None and old_id != new_id:
        what = f"topic {partition.topic} was deleted and created again (its id was {old_id}, now {new_id})"
        return earliest, f"{what}; partition {partition.partition} stood at {known}"
    if known < earliest:
        return earliest, f"offsets {known} to {earliest} of {partition} aged out before they were read"
    if known > latest:
        return latest, f"{partition} ends at {latest}, before the position {known}: its log was cut"
    return known, ""


def position_after(
    start: StreamOffsets, found: Advance, state: LogState, *, offsets_max: int | None, planned_at_ms: int
) -> StreamOffsets:
    """The end of the next batch; `start` itself when there is nothing to read, which tells Spark to run none."""
    ends = found.ends if offsets_max is None else limit_ends(found.starts, found.ends, offsets_max)
    # A new partition without records is left out until it has some, else it would cause an empty batch.
    positions = {
        partition: end for partition, end in ends.items() if partition in start.positions or end > found.starts[partition]
    }
    topic_ids = {topic: state.topic_ids[topic] for topic in {partition.topic for partition in positions}}
    if positions == dict(start.positions) and topic_ids == dict(start.topic_ids):
        return start
    begins = {partition: begin for partition, begin in found.begins.items() if partition in positions}
    return StreamOffsets(positions=positions, topic_ids=topic_ids, begins=begins, planned_at_ms=planned_at_ms)

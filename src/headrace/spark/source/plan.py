"""Which offsets a batch reads, and how they are cut into tasks.  Pure: positions in, ranges out.

Always: ranges are half-open, a batch's tasks cover each of its ranges once and in order, and the same input gives the
same tasks; the exactly-once sink and the replay of a batch stand on that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from headrace.model.identity import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """Offsets [start, end) of one partition.  Not every offset has a record: compaction and transactions leave gaps."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def ranges_between(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> list[OffsetRange]:
    """The non-empty ranges, in the order of topic and partition."""
    return [
        OffsetRange(partition=partition, start=starts[partition], end=ends[partition])
        for partition in sorted(ends)
        if starts[partition] < ends[partition]
    ]


def limit_ends(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], offsets_max: int
) -> dict[TopicPartition, int]:
    """Cut the ends so that at most `offsets_max` offsets are read, each partition getting a share of its backlog.

    Largest remainders get what the division leaves, so the sum is exact and no partition with a backlog starves for ever.
    """
    backlog = {partition: max(0, ends[partition] - starts[partition]) for partition in ends}
    total = sum(backlog.values())
    if total <= offsets_max:
        return dict(ends)
    shares = _apportion([backlog[partition] for partition in sorted(ends)], offsets_max)
    return {partition: starts[partition] + share for partition, share in zip(sorted(ends), shares, strict=True)}


def split(ranges: Sequence[OffsetRange], *, partitions_min: int | None, records_max: int | None) -> list[OffsetRange]:
    """Cut ranges until none holds more than `records_max` offsets and there are `partitions_min` of them, offsets permitting."""
    parts = [1 if records_max is None else -(-one.size // records_max) for one in ranges]
    wanted = partitions_min or 0
    if sum(parts) < wanted:
        sizes = [one.size for one in ranges]
        spare = min(wanted, sum(sizes)) - sum(parts)
        room = [size - count for size, count in zip(sizes, parts, strict=True)]
        extra = _apportion(room, spare)
        parts = [count + more for count, more in zip(parts, extra, strict=True)]
    return [piece for one, count in zip(ranges, parts, strict=True) for piece in _cut(one, count)]


def _cut(one: OffsetRange, count: int) -> list[OffsetRange]:
    marks = [one.start + one.size * index // count for index in range(count + 1)]
    return [replace(one, start=start, end=end) for start, end in pairwise(marks)]


def _apportion(weights: Sequence[int], total: int) -> list[int]:
    """Whole shares in proportion to the weights, summing to `total` (or to the weights' own sum), none above its weight."""
    whole = sum(weights)
    if total >= whole:
        return list(weights)
    if total <= 0:
        return [0] * len(weights)
    shares = [weight * total // whole for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda index: (-(weights[index] * total % whole), index))
    for index in by_remainder[: total - sum(shares)]:
        shares[index] += 1
    return shares

"""Which partitions are read, and at which offsets a position such as "earliest" or a moment in time stands."""

import difflib
import logging
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from headrace.client.admin.descriptions import TopicDescription
from headrace.client.errors import TopicNotFound
from headrace.client.positions import LATEST, Position
from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from headrace.spark.cluster import Cluster
from headrace.spark.errors import OptionError
from headrace.spark.options.options import Assignment, Positions, SourceOptions, TopicNames, TopicPattern

logger = logging.getLogger("headrace.spark")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribed:
    """The topics that a query reads, as they are now."""

    topics: Mapping[str, TopicDescription]
    partitions: Sequence[TopicPartition]

    @property
    def leaders(self) -> dict[TopicPartition, str | None]:
        return {
            TopicPartition(name, partition.index): partition.leader_address
            for name, topic in self.topics.items()
            for partition in topic.partitions
        }

    @property
    def topic_ids(self) -> dict[str, str]:
        """In base 64, as they stand in checkpoints."""
        return {name: b64encode(topic.id.bytes).rstrip(b"=").decode() for name, topic in self.topics.items()}


def subscribed(cluster: Cluster, options: SourceOptions, timeout_ms: int, *, may_be_missing: bool = False) -> Subscribed:
    """Look up the subscription.  Unless they may be missing, topics that were named have to be there."""
    topics = cluster.topics(options.subscription, timeout_ms)
    everything = [TopicPartition(name, number) for name in sorted(topics) for number in _numbers(topics[name])]
    match options.subscription:
        case TopicNames(names=names):
            missing = sorted(names - topics.keys())
            partitions = everything
        case Assignment(partitions=assigned):
            missing = sorted(str(one) for one in assigned - set(everything))
            partitions = [one for one in everything if one in assigned]
        case TopicPattern():
            missing, partitions = [], everything
        case never:
            assert_never(never)
    if missing and not may_be_missing:
        what = "topic" if isinstance(options.subscription, TopicNames) else "partition"
        plural = "s" if len(missing) > 1 else ""
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        raise TopicNotFound(
            f"{what}{plural} {', '.join(missing)} not found at {options.client['bootstrap.servers']}; "
            + _way_on(missing, cluster.names(timeout_ms)),
            code=code,
            name=code.name,
        )
    return Subscribed(topics=topics, partitions=partitions)


def _numbers(topic: TopicDescription) -> list[int]:
    return [partition.index for partition in topic.partitions]


def _way_on(missing: Sequence[str], names: Sequence[str]) -> str:
    """The topics whose names are nearest, if any is near."""
    near = {close for one in missing for close in difflib.get_close_matches(one, names, n=1)}
    return f"did you mean {' and '.join(sorted(near))}?" if near else "create it, or correct it"


def resolve(
    cluster: Cluster, options: SourceOptions, wanted: Positions, partitions: Sequence[TopicPartition], *, latest_is_end: bool
) -> dict[TopicPartition, int]:
    """The offset of a position in each partition.  `latest_is_end`: it ends a read, and is not where one starts."""
    timeout_ms = options.connect_timeout_ms
    if isinstance(wanted, Position):
        positions: Mapping[TopicPartition, Position] = dict.fromkeys(partitions, wanted)
    else:
        positions = wanted
        _require_same(partitions, positions, _option_name(positions, latest_is_end=latest_is_end))
    found = cluster.find(positions, timeout_ms)
    late = sorted(one for one, offset in found.items() if offset is None)
    if late and not latest_is_end and not options.late_timestamp_means_latest:
        raise OptionError(
            f"{late[0]} has no record at or after {positions[late[0]].number}; "
            "set startingOffsetsByTimestampStrategy to latest to start at its end"
        )
    found |= cluster.find(dict.fromkeys(late, LATEST), timeout_ms)
    offsets = {one: offset for one, offset in found.items() if offset is not None}
    given = [one for one, position in positions.items() if position.kind == "offset"]
    return offsets | _within_log(cluster, options, {one: offsets[one] for one in given}, latest_is_end=latest_is_end)


def _option_name(positions: Mapping[TopicPartition, Position], *, latest_is_end: bool) -> str:
    by_timestamp = any(position.kind == "time" for position in positions.values())
    return f"{'ending' if latest_is_end else 'starting'}Offsets{'ByTimestamp' if by_timestamp else ''}"


def _require_same(partitions: Sequence[TopicPartition], given: Mapping[TopicPartition, Position], name: str) -> None:
    unknown = sorted(set(given) - set(partitions))
    if unknown:
        raise OptionError(f"option '{name}' names {unknown[0]}, which is not among the partitions that are read")
    forgotten = sorted(set(partitions) - set(given))
    if forgotten:
        raise OptionError(f"option '{name}' says nothing of {forgotten[0]}; use -2 for its earliest and -1 for its latest offset")


def _within_log(
    cluster: Cluster, options: SourceOptions, given: Mapping[TopicPartition, int], *, latest_is_end: bool
) -> dict[TopicPartition, int]:
    """Offsets as given, those outside the log handled as data loss is."""
    earliest = cluster.earliest(given, options.connect_timeout_ms)
    latest = cluster.latest(given, options.connect_timeout_ms)
    name = "endingOffsets" if latest_is_end else "startingOffsets"
    found: dict[TopicPartition, int] = {}
    for one, offset in given.items():
        found[one] = min(max(offset, earliest[one]), latest[one])
        if found[one] != offset:
            outside = f"option '{name}' gives offset {offset} for {one}, which has offsets {earliest[one]} to {latest[one]}"
            if options.fail_on_data_loss:
                raise OptionError(f"{outside}; correct it, or set failOnDataLoss to false to take the nearest")
            logger.warning("%s; taking the nearest", outside)
    return found

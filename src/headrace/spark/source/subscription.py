"""Which partitions are read, and at which offsets a position such as "earliest" or a moment in time stands."""

import difflib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from headrace.model.identity import TopicPartition
from headrace.spark.cluster import Cluster, Topic
from headrace.spark.errors import OptionError, TopicMissingError
from headrace.spark.options.options import (
    EARLIEST,
    LATEST,
    Assignment,
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Edge,
    OffsetChoice,
    SourceOptions,
    TopicNames,
    TopicPattern,
)

logger = logging.getLogger("headrace.spark")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribed:
    """The topics that a query reads, as they are now."""

    topics: Mapping[str, Topic]
    partitions: Sequence[TopicPartition]

    @property
    def leaders(self) -> dict[TopicPartition, str | None]:
        return {one: self.topics[one.topic].leaders[one.partition] for one in self.partitions}

    @property
    def topic_ids(self) -> dict[str, str]:
        return {name: topic.topic_id for name, topic in self.topics.items()}


def subscribed(cluster: Cluster, options: SourceOptions, timeout_ms: int, *, may_be_missing: bool = False) -> Subscribed:
    """Look up the subscription.  Unless they may be missing, topics that were named have to be there."""
    topics = cluster.topics(options.subscription, timeout_ms)
    everything = [TopicPartition(name, number) for name in sorted(topics) for number in sorted(topics[name].leaders)]
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
        raise TopicMissingError(
            f"{what}{plural} {', '.join(missing)} not found at {options.client['bootstrap.servers']}; "
            + _way_on(missing, cluster.names(timeout_ms))
        )
    return Subscribed(topics=topics, partitions=partitions)


def _way_on(missing: Sequence[str], names: Sequence[str]) -> str:
    """The topics whose names are nearest, if any is near."""
    near = {close for one in missing for close in difflib.get_close_matches(one, names, n=1)}
    return f"did you mean {' and '.join(sorted(near))}?" if near else "create it, or correct it"


def resolve(
    cluster: Cluster, options: SourceOptions, position: OffsetChoice, partitions: Sequence[TopicPartition], *, latest_is_end: bool
) -> dict[TopicPartition, int]:
    """The offset where each partition stands for a position.  `latest_is_end`: it ends a read, and is not where one starts."""
    timeout_ms = options.connect_timeout_ms
    match position:
        case Edge() as edge:
            return cluster.edges(partitions, edge, timeout_ms)
        case AtOffsets(offsets=offsets):
            _require_same(partitions, offsets, "endingOffsets" if latest_is_end else "startingOffsets")
            return _at_offsets(cluster, options, offsets, latest_is_end=latest_is_end)
        case AtTimestamp(timestamp_ms=moment):
            moments: Mapping[TopicPartition, int] = dict.fromkeys(partitions, moment)
        case AtTimestamps(timestamps_ms=by_partition):
            _require_same(partitions, by_partition, f"{'ending' if latest_is_end else 'starting'}OffsetsByTimestamp")
            moments = by_partition
        case never:
            assert_never(never)
    found = cluster.at_timestamps(moments, timeout_ms)
    late = sorted(one for one, offset in found.items() if offset is None)
    if late and not latest_is_end and not options.late_timestamp_means_latest:
        raise OptionError(
            f"{late[0]} has no record at or after {moments[late[0]]}; "
            "set startingOffsetsByTimestampStrategy to latest to start at its end"
        )
    ends = cluster.edges(late, Edge.LATEST, timeout_ms)
    return {one: ends[one] if offset is None else offset for one, offset in found.items()}


def _require_same(partitions: Sequence[TopicPartition], given: Mapping[TopicPartition, int], name: str) -> None:
    unknown = sorted(set(given) - set(partitions))
    if unknown:
        raise OptionError(f"option '{name}' names {unknown[0]}, which is not among the partitions that are read")
    forgotten = sorted(set(partitions) - set(given))
    if forgotten:
        raise OptionError(f"option '{name}' says nothing of {forgotten[0]}; use -2 for its earliest and -1 for its latest offset")


def _at_offsets(
    cluster: Cluster, options: SourceOptions, given: Mapping[TopicPartition, int], *, latest_is_end: bool
) -> dict[TopicPartition, int]:
    """Offsets as given, those outside the log handled as data loss is."""
    earliest = cluster.edges(given, Edge.EARLIEST, options.connect_timeout_ms)
    latest = cluster.edges(given, Edge.LATEST, options.connect_timeout_ms)
    name = "endingOffsets" if latest_is_end else "startingOffsets"
    found: dict[TopicPartition, int] = {}
    for one, offset in given.items():
        if offset == EARLIEST:
            found[one] = earliest[one]
        elif offset == LATEST:
            found[one] = latest[one]
        elif earliest[one] <= offset <= latest[one]:
            found[one] = offset
        else:
            outside = f"option '{name}' gives offset {offset} for {one}, which has offsets {earliest[one]} to {latest[one]}"
            if options.fail_on_data_loss:
                raise OptionError(f"{outside}; correct it, or set failOnDataLoss to false to take the nearest")
            logger.warning("%s; taking the nearest", outside)
            found[one] = min(max(offset, earliest[one]), latest[one])
    return found

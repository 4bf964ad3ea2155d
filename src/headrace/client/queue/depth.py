"""How full queues are: put together from what the group's coordinator, the leaders of its partitions and the topics say."""

from __future__ import annotations

import time
from datetime import timedelta

from headrace.client.admin.group_settings import group_settings
from headrace.client.admin.wire_admin import WireAdmin, raise_for
from headrace.client.errors import BrokerError, BrokerTimeout
from headrace.client.security.connecting import Way
from headrace.declaring import dataclass
from headrace.model.errors import ErrorCode
from headrace.records.batch import iterate_batches
from headrace.records.record import Record, read_records
from headrace.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

EARLIEST, LATEST = -2, -1
DEAD_LETTER_TOPIC = "errors.deadletterqueue.topic.name"
FETCH_BYTES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """Jobs of one topic for one group at one moment.

    ready: Somebody may get them now.  Counted by offsets: one that has no record counts until somebody reads past it.
    in_flight: Somebody works on them.
    resting: They failed, and come again after their backoff.
    delayed: Their time has not come; nobody's group has them yet.
    dead: Letters in the group's dead-letter topic.
    oldest: For how long the oldest that is not done has been in the topic; None where all are done.
    paused: Why nobody gets anything; empty where that is not so.
    """

    ready: int
    in_flight: int
    resting: int
    delayed: int
    dead: int
    oldest: timedelta | None
    paused: str

    @property
    def unfinished(self) -> int:
        """All that is to be done, but for what is delayed."""
        return self.ready + self.in_flight + self.resting


def depth_of(way: Way, topic: str, group: str) -> Depth:
    with WireAdmin(way.bootstrap, way.properties) as wire:
        return depth_by(wire, topic, group)


def depth_by(wire: WireAdmin, topic: str, group: str) -> Depth:
    (described,) = wire.metadata((topic,)).topics
    raise_for(described.error_code, f"topic '{topic}'")
    partitions = tuple(each.partition_index for each in described.partitions)
    lag, starts = _to_do(wire, topic, group, partitions)
    in_flight, resting, delayed, paused = _at_work(wire, topic, group)
    letters = group_settings(wire, group).get(DEAD_LETTER_TOPIC, ("", False))[0]
    return Depth(
        ready=max(0, lag - in_flight - resting),
        in_flight=in_flight,
        resting=resting,
        delayed=delayed,
        dead=_records(wire, letters) if letters else 0,
        oldest=_oldest(wire, topic, starts) if lag else None,
        paused=paused,
    )


def _asked(group: str, topic: str, partitions: tuple[int, ...]) -> tuple[DescribeShareGroupOffsetsRequestGroup, ...]:
    topics = (DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=partitions),)
    return (DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=topics),)


def _to_do(wire: WireAdmin, topic: str, group: str, partitions: tuple[int, ...]) -> tuple[int, dict[int, int]]:
    """How many records are not done, and where each partition's first one is; all of the topic, where the group never was."""
    reply = wire.call_coordinator(DescribeShareGroupOffsetsRequest(groups=_asked(group, topic, partitions)), group, "group")
    (found,) = reply.groups
    if found.error_code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
        raise_for(found.error_code, f"group '{group}'", found.error_message)
    known = {each.partition_index: each for each in (found.topics[0].partitions if found.topics else ())}
    lag, starts = 0, {}
    for partition in partitions:
        answer = known.get(partition)
        if answer is not None:
            raise_for(answer.error_code, f"partition {partition} of '{topic}'", answer.error_message)
        start = -1 if answer is None else answer.start_offset
        end = _offset(wire, topic, partition, LATEST)
        if start < 0:
            start = _offset(wire, topic, partition, EARLIEST)
        here = end - start if answer is None or answer.lag < 0 else answer.lag
        lag += max(0, here)
        if here > 0:
            starts[partition] = start
    return lag, starts


def _at_work(wire: WireAdmin, topic: str, group: str) -> tuple[int, int, int, str]:
    in_flight = resting = delayed = 0
    paused = ""
    request = DescribeShareGroupOffsetsRequest(groups=_asked(group, topic, ()), at_work=True)
    for reply in wire.call_every_broker(request).values():
        (found,) = reply.groups
        paused = paused or found.paused
        for each in found.topics:
            delayed += each.delayed
            in_flight += sum(partition.in_flight for partition in each.partitions)
            resting += sum(partition.resting for partition in each.partitions)
    return in_flight, resting, delayed, paused


def _records(wire: WireAdmin, topic: str) -> int:
    (found,) = wire.metadata((topic,)).topics
    if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return 0
    raise_for(found.error_code, f"topic '{topic}'")
    partitions = [each.partition_index for each in found.partitions]
    return sum(_offset(wire, topic, each, LATEST) - _offset(wire, topic, each, EARLIEST) for each in partitions)


def _offset(wire: WireAdmin, topic: str, partition: int, timestamp: int) -> int:
    asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=topic, partitions=(asked,)),))
    found = wire.call_leader(request, topic, partition).topics[0].partitions[0]
    raise_for(found.error_code, f"partition {partition} of '{topic}'")
    return int(found.offset)


def _oldest(wire: WireAdmin, topic: str, starts: dict[int, int]) -> timedelta | None:
    """By the record at each start; a broker that cannot tell now is passed over."""
    times = []
    for partition, start in starts.items():
        try:
            times += [record.timestamp for record in records_from(wire, topic, partition, start)[:1]]
        except (BrokerError, BrokerTimeout):
            continue
    return timedelta(milliseconds=max(0, time.time_ns() // 1_000_000 - min(times))) if times else None


def next_jobs(wire: WireAdmin, topic: str, group: str, count: int) -> list[tuple[int, Record]]:
    """The records from each partition's first on that is not done, with their partitions; some of them may be done, or
    somebody's.  Nothing is taken from anybody."""
    (described,) = wire.metadata((topic,)).topics
    raise_for(described.error_code, f"topic '{topic}'")
    _, starts = _to_do(wire, topic, group, tuple(each.partition_index for each in described.partitions))
    found = [
        (partition, record)
        for partition, start in sorted(starts.items())
        for record in records_from(wire, topic, partition, start)[:count]
    ]
    return sorted(found, key=lambda each: (each[1].timestamp, each[0], each[1].offset))[:count]


def records_from(wire: WireAdmin, topic: str, partition: int, offset: int) -> list[Record]:
    """Those of a partition that one fetch brings."""
    (described,) = wire.metadata((topic,)).topics
    asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
    wanted = FetchTopic(topic=topic, topic_id=described.topic_id, partitions=(asked,))
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=FETCH_BYTES, topics=(wanted,))
    data = wire.call_leader(request, topic, partition).responses[0].partitions[0]
    raise_for(data.error_code, f"partition {partition} of '{topic}'")
    batches = [batch for header, batch in iterate_batches(data.records or b"") if not header.is_control]
    return [record for batch in batches for record in read_records(batch) if record.offset >= offset]

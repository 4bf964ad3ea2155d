"""Reading partitions over the wire as a consumer does, with or without the records of transactions that did not commit."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID

from headrace.model.errors import ErrorCode
from headrace.model.identity import NO_BROKER, NO_EPOCH, NO_TOPIC_ID, TopicPartition
from headrace.records.batch import iterate_batches
from headrace.records.control import read_marker
from headrace.records.header import BatchHeader
from headrace.records.record import read_records
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from headrace.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from simulation.clients.client import ClusterClient, Unavailable

FETCH_VERSION = 12
FETCH_BY_ID_VERSION = 16
LIST_OFFSETS_VERSION = 7
EARLIEST = -2
FETCH_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class Fetched:
    """What one fetch of a partition brought: records with their offsets, and where to go on."""

    partition: TopicPartition
    error: ErrorCode
    records: tuple[tuple[int, str], ...] = ()
    next_offset: int = -1
    high_watermark: int = -1
    nearer_replica: int = NO_BROKER


async def fetch(
    client: ClusterClient,
    broker: int,
    positions: Mapping[TopicPartition, int],
    *,
    isolated: bool,
    wait_ms: int,
    rack: str = "",
    topic_ids: Mapping[str, UUID] | None = None,
) -> list[Fetched]:
    """Read partitions that one broker leads or, by rack, has; topics go by id where ids are given.  Raises Unavailable."""
    ids = topic_ids or {}
    names = {topic_id: name for name, topic_id in ids.items()}
    by_topic: dict[str, list[FetchPartition]] = {}
    for partition, offset in positions.items():
        wanted = FetchPartition(
            partition=partition.partition,
            current_leader_epoch=client.leader_epochs.get(partition, NO_EPOCH),
            fetch_offset=offset,
            partition_max_bytes=FETCH_BYTES_MAX,
        )
        by_topic.setdefault(partition.topic, []).append(wanted)
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        isolation_level=int(isolated),
        rack_id=rack,
        topics=tuple(
            FetchTopic(topic=topic, topic_id=ids.get(topic, NO_TOPIC_ID), partitions=tuple(wanted))
            for topic, wanted in by_topic.items()
        ),
    )
    version = FETCH_VERSION if topic_ids is None else FETCH_BY_ID_VERSION
    response: FetchResponse = await client.call(broker, request, version)
    if response.error_code != ErrorCode.NONE:
        raise Unavailable(ErrorCode(response.error_code).name)
    answers = []
    for topic in response.responses:
        for data in topic.partitions:
            partition = TopicPartition(names.get(topic.topic_id, topic.topic), data.partition_index)
            answers.append(_taken(partition, data, positions[partition], isolated=isolated))
    return answers


def _taken(partition: TopicPartition, data: PartitionData, position: int, *, isolated: bool) -> Fetched:
    if data.error_code != ErrorCode.NONE:
        return Fetched(partition, ErrorCode(data.error_code))
    assert not isinstance(data.records, list), "records of a reply that was read are one buffer"
    batches = list(iterate_batches(data.records or b""))
    aborted = [(each.first_offset, each.producer_id) for each in data.aborted_transactions or ()] if isolated else []
    records: list[tuple[int, str]] = []
    for batch in without_aborted(batches, aborted):
        found = ((record.offset, (record.value or b"").decode()) for record in read_records(batch))
        records += (entry for entry in found if entry[0] >= position)
    next_offset = batches[-1][0].next_offset if batches else position
    return Fetched(partition, ErrorCode.NONE, tuple(records), next_offset, data.high_watermark, data.preferred_read_replica)


def without_aborted(
    batches: Iterable[tuple[BatchHeader, memoryview]], aborted_transactions: Iterable[tuple[int, int]]
) -> Iterator[memoryview]:
    """Batches of records, less those of aborted transactions, each given by its first offset and its producer."""
    aborted = sorted(aborted_transactions)
    aborting: set[int] = set()
    for header, batch in batches:
        while aborted and aborted[0][0] <= header.last_offset:
            aborting.add(aborted.pop(0)[1])
        if header.is_control:
            marker = read_marker(batch)
            if marker is not None and not marker.committed:
                aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            yield batch


async def earliest_offset(client: ClusterClient, partition: TopicPartition) -> int:
    """Where the partition begins.  Raises Unavailable."""
    wanted = ListOffsetsPartition(partition_index=partition.partition, timestamp=EARLIEST)
    request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=partition.topic, partitions=(wanted,)),))
    leader = await client.leader(partition)
    try:
        response: ListOffsetsResponse = await client.call(leader, request, LIST_OFFSETS_VERSION)
    except Unavailable:
        client.forget_leader(partition)
        raise
    answer = response.topics[0].partitions[0]
    if answer.error_code != ErrorCode.NONE:
        client.forget_leader(partition)
        raise Unavailable(ErrorCode(answer.error_code).name)
    return answer.offset


async def read_to_end(client: ClusterClient, partition: TopicPartition, *, isolated: bool) -> list[tuple[int, str]]:
    """Everything a consumer can have of a partition that nobody writes to.  Raises Unavailable."""
    records: list[tuple[int, str]] = []
    position = await earliest_offset(client, partition)
    while True:
        leader = await client.leader(partition)
        (answer,) = await fetch(client, leader, {partition: position}, isolated=isolated, wait_ms=0)
        if answer.error is not ErrorCode.NONE:
            client.forget_leader(partition)
            raise Unavailable(answer.error.name)
        records += answer.records
        if answer.next_offset == position:
            return records
        position = answer.next_offset

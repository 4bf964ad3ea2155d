"""Reading partitions over the wire as a consumer does, with or without the records of transactions that did not commit."""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from headrace.records.batch import iterate_batches
from headrace.records.control import read_marker
from headrace.records.record import read_records
from headrace.testing.simulation.client import ClusterClient, Unavailable
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData

FETCH_VERSION = 12
FETCH_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class Fetched:
    """What one fetch of a partition brought: records with their offsets, and where to go on."""

    partition: TopicPartition
    error: ErrorCode
    records: tuple[tuple[int, str], ...] = ()
    next_offset: int = -1
    high_watermark: int = -1


async def fetch(
    client: ClusterClient, broker: int, positions: Mapping[TopicPartition, int], *, isolated: bool, wait_ms: int
) -> list[Fetched]:
    """Read partitions that one broker leads.  Raises Unavailable."""
    by_topic: dict[str, list[FetchPartition]] = {}
    for partition, offset in positions.items():
        wanted = FetchPartition(partition=partition.partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES_MAX)
        by_topic.setdefault(partition.topic, []).append(wanted)
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        isolation_level=int(isolated),
        topics=tuple(FetchTopic(topic=topic, partitions=tuple(wanted)) for topic, wanted in by_topic.items()),
    )
    response: FetchResponse = await client.call(broker, request, FETCH_VERSION)
    if response.error_code != ErrorCode.NONE:
        raise Unavailable(ErrorCode(response.error_code).name)
    answers = []
    for topic in response.responses:
        for data in topic.partitions:
            partition = TopicPartition(topic.topic, data.partition_index)
            answers.append(_taken(partition, data, positions[partition], isolated=isolated))
    return answers


def _taken(partition: TopicPartition, data: PartitionData, position: int, *, isolated: bool) -> Fetched:
    if data.error_code != ErrorCode.NONE:
        return Fetched(partition, ErrorCode(data.error_code))
    assert not isinstance(data.records, list), "records of a reply that was read are one buffer"
    records: list[tuple[int, str]] = []
    next_offset = position
    aborted = sorted((each.first_offset, each.producer_id) for each in data.aborted_transactions or ())
    aborting: set[int] = set()
    for header, batch in iterate_batches(data.records or b""):
        while aborted and aborted[0][0] <= header.last_offset:
            aborting.add(aborted.pop(0)[1])
        next_offset = header.next_offset
        if header.is_control:
            marker = read_marker(batch)
            if marker is not None and not marker.committed:
                aborting.discard(header.producer_id)
        elif not (isolated and header.is_transactional and header.producer_id in aborting):
            found = ((record.offset, (record.value or b"").decode()) for record in read_records(batch))
            records += (entry for entry in found if entry[0] >= position)
    return Fetched(partition, ErrorCode.NONE, tuple(records), next_offset, data.high_watermark)


async def read_to_end(client: ClusterClient, partition: TopicPartition, *, isolated: bool) -> list[tuple[int, str]]:
    """Everything a consumer can have of a partition that nobody writes to.  Raises Unavailable."""
    records: list[tuple[int, str]] = []
    position = 0
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

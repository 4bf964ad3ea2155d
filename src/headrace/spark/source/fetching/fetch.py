"""Asking a leader for the records of one partition, and reading its answer.

Version 11 of Fetch is the newest one that names topics and has no tagged fields; every broker from Kafka 2.3 on answers it.
"""

from typing import Final

from headrace.model.identity import TopicPartition
from headrace.wire.apis import ApiKey
from headrace.wire.codec import decode, encode
from headrace.wire.errors import WireError
from headrace.wire.framing import RequestHeader, read_response_header, request_frame
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData

VERSION: Final = 11
CLIENT_ID: Final = "headrace-spark"


def fetch_frame(
    correlation_id: int, wanted: TopicPartition, offset: int, *, bytes_max: int, wait_ms: int, read_committed: bool
) -> bytes:
    """A whole frame that asks for records from an offset on."""
    partition = FetchPartition(partition=wanted.partition, fetch_offset=offset, partition_max_bytes=bytes_max)
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=bytes_max,
        isolation_level=1 if read_committed else 0,
        topics=(FetchTopic(topic=wanted.topic, partitions=(partition,)),),
    )
    header = RequestHeader(ApiKey.FETCH, VERSION, correlation_id, CLIENT_ID)
    return b"".join(request_frame(header, [encode(request, VERSION)]))


def read_fetch_reply(frame: memoryview, correlation_id: int) -> PartitionData:
    """What a frame (without its length) says of the partition; the records are a view of it.  WireError if it says nothing."""
    answered, position = read_response_header(frame, ApiKey.FETCH, VERSION)
    if answered != correlation_id:
        raise WireError(f"the broker answered request {answered}, not {correlation_id}")
    reply = decode(FetchResponse, frame, VERSION, position)
    partitions = [data for topic in reply.responses for data in topic.partitions]
    if reply.error_code or len(partitions) != 1:
        raise WireError(f"the broker answered with error {reply.error_code} and {len(partitions)} partitions")
    return partitions[0]

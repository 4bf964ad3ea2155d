"""The Fetch request and reply for one partition, version 11: the newest one that names topics and has no tagged fields.

Every broker from Kafka 2.3 on answers it.  The records of a reply stay one untouched buffer.
"""

import struct
from typing import NamedTuple

FETCH_KEY = 1
FETCH_VERSION = 11
CLIENT_ID = b"headrace-spark"

_REQUEST_HEADER = struct.Struct(f">hhih{len(CLIENT_ID)}s")
# replica id, longest wait, least bytes, most bytes, isolation, session id, session epoch, topic count
_REQUEST_FRONT = struct.Struct(">iiiibiii")
# partition count, partition, leader epoch, offset, log start, most bytes, forgotten topics, rack
_REQUEST_PARTITION = struct.Struct(">iiiqqiih")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_REPLY_FRONT = struct.Struct(">iihii")  # correlation id, throttle, error, session id, topic count
_REPLY_PARTITION = struct.Struct(
    ">iihqqqi"
)  # partition count, partition, error, high watermark, last stable, log start, aborted count
_ABORTED = struct.Struct(">qq")


class FetchReply(NamedTuple):
    """What a broker said about one partition."""

    correlation_id: int
    error: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...]  # producer id and first offset of each aborted transaction in the records
    records: memoryview


def fetch_request(
    correlation_id: int, topic: str, partition: int, offset: int, *, bytes_max: int, wait_ms: int, read_committed: bool
) -> bytes:
    """A whole frame that asks for records from an offset on."""
    name = topic.encode()
    body = b"".join(
        (
            _REQUEST_HEADER.pack(FETCH_KEY, FETCH_VERSION, correlation_id, len(CLIENT_ID), CLIENT_ID),
            _REQUEST_FRONT.pack(-1, wait_ms, 1, bytes_max, 1 if read_committed else 0, 0, -1, 1),
            _INT16.pack(len(name)),
            name,
            _REQUEST_PARTITION.pack(1, partition, -1, offset, -1, bytes_max, 0, 0),
        )
    )
    return _INT32.pack(len(body)) + body


def read_fetch_reply(frame: memoryview) -> FetchReply:
    """Read a reply's frame (without its length).  Raises ValueError when it is not one about one partition."""
    try:
        correlation_id, _throttle, error, _session, topic_count = _REPLY_FRONT.unpack_from(frame)
        if error or topic_count != 1:
            return FetchReply(correlation_id, error or -1, -1, -1, -1, (), frame[:0])
        position = _REPLY_FRONT.size
        (name_bytes,) = _INT16.unpack_from(frame, position)
        position += _INT16.size + name_bytes
        _count, _partition, error, high_watermark, last_stable, log_start, aborted_count = _REPLY_PARTITION.unpack_from(
            frame, position
        )
        position += _REPLY_PARTITION.size
        aborted = tuple(_ABORTED.unpack_from(frame, position + index * _ABORTED.size) for index in range(max(0, aborted_count)))
        position += len(aborted) * _ABORTED.size + _INT32.size  # the preferred read replica is not used
        (records_bytes,) = _INT32.unpack_from(frame, position)
        position += _INT32.size
    except struct.error as fault:
        raise ValueError(f"the broker's reply is cut short: {fault}") from None
    records = frame[position : position + max(0, records_bytes)]
    return FetchReply(correlation_id, error, high_watermark, last_stable, log_start, aborted, records)

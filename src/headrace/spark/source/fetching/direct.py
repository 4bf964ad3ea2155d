"""Reads a range of one partition straight from its leader: a connection, Fetch, columns.

The fast way, over TLS and signed in where that is asked for.  Whatever does not go smoothly (no leader, a moved leader, a broken
connection) raises `DirectFetchFailed` with the position reached, and the caller goes on from there with librdkafka, which knows
how to wait and ask around.

Always: the next request is sent before the last reply is decoded, so that broker and reader work at the same time.
"""

import socket
import ssl
import struct
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from headrace.client.broker_connection import BrokerConnection, Endpoint
from headrace.client.security.tls import protocol_of
from headrace.model.errors import ErrorCode
from headrace.records.compression import CompressionError
from headrace.records.header import BatchError
from headrace.spark.source.fetching.batch_decoder import FetchedRecords
from headrace.spark.source.fetching.fetch import CLIENT_ID, fetch_frame, read_fetch_reply
from headrace.spark.source.range_read import DirectFetchFailed, OutOfRange, RangeRead
from headrace.wire.errors import WireError
from headrace.wire.messages.fetch import PartitionData

BYTES_MAX_DEFAULT = 8 * 1024 * 1024
BYTES_MIN = 64 * 1024
BYTES_PER_RECORD_GUESS = 1024
WAIT_MS = 500
CONNECT_SECONDS = 5.0
REPLY_SECONDS = 30.0
# So many in a row below the log's end, and librdkafka goes on.  They prove nothing: there may be no records up to the end, or the
# broker is short of memory, or holds this client to its quota.
EMPTY_REPLIES_MAX = 3

_LENGTH = struct.Struct(">i")
# One connection per leader and way to get in, kept between the tasks of a worker process, and until when it may be used.
_idle: dict[tuple[Any, ...], tuple[socket.socket, float | None]] = {}


def read_directly(read: RangeRead) -> Iterator[pa.RecordBatch]:
    """The rows of the range as Arrow batches."""
    if read.leader is None:
        raise DirectFetchFailed(read.range.start, "the partition had no leader")
    fetcher = _Fetcher(read, read.leader)
    try:
        yield from fetcher.batches()
        fetcher.keep_connection()
    except (OSError, ValueError, IndexError, BatchError, CompressionError, WireError) as fault:
        raise DirectFetchFailed(fetcher.given, f"{type(fault).__name__}: {fault}") from None
    finally:
        fetcher.close()


class _Fetcher:
    """One range's conversation with a leader."""

    def __init__(self, read: RangeRead, leader: str) -> None:
        self._read = read
        self._leader = leader
        self._place = (
            leader,
            *(item for item in sorted(read.client.items()) if item[0].startswith(("security.", "sasl.", "ssl."))),
        )
        self._correlation_id = 0
        self._socket: socket.socket | None = None
        self._good_until: float | None = None
        self._bytes_max = int(read.client.get("max.partition.fetch.bytes", BYTES_MAX_DEFAULT))
        self._bytes_per_offset = float(BYTES_PER_RECORD_GUESS)
        self.given = read.range.start  # every row before this has been yielded

    def batches(self) -> Iterator[pa.RecordBatch]:
        position, end = self._read.range.start, self._read.range.end
        deadline = time.monotonic() + self._read.timeout_ms / 1000
        empty_replies = 0
        self._open(position)
        while position < end:
            reply = self._receive()
            if reply.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                raise OutOfRange(position)
            if reply.error_code:
                raise ValueError(f"the leader answered with error {reply.error_code}")
            records = FetchedRecords(reply)
            reached = records.next_offset(position)
            if reached == position:
                readable = reply.last_stable_offset if self._read.read_committed else reply.high_watermark
                empty_replies = empty_replies + 1 if readable >= end else 0
                if empty_replies >= EMPTY_REPLIES_MAX:
                    raise ValueError(f"{empty_replies} replies in a row had no records")
                if time.monotonic() >= deadline:
                    raise TimeoutError(f"no record came within {self._read.timeout_ms} ms")
            else:
                empty_replies = 0
                self._bytes_per_offset = len(records.buffer) / (reached - position)
                deadline = time.monotonic() + self._read.timeout_ms / 1000
            if reached < end:
                self._send(reached)
            yield from records.rows(self._read)
            position = self.given = reached
        self.given = end

    def keep_connection(self) -> None:
        """The conversation ended in order: the next task on this leader may go on with the connection."""
        if self._socket is not None and self._place not in _idle:
            _idle[self._place] = self._socket, self._good_until
            self._socket = None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _open(self, position: int) -> None:
        kept, self._good_until = _idle.pop(self._place, (None, None))
        if kept is not None and _is_quiet(kept, self._good_until):
            self._socket = kept
        else:
            if kept is not None:
                kept.close()
            self._socket, self._good_until = _connected(self._leader, self._read.client)
            self._socket.settimeout(REPLY_SECONDS)
        self._send(position)

    def _send(self, position: int) -> None:
        assert self._socket is not None, "the connection is open while a range is read"
        self._correlation_id += 1
        remaining = self._read.range.end - position
        wanted = int(min(self._bytes_max, max(BYTES_MIN, remaining * self._bytes_per_offset * 1.1)))
        frame = fetch_frame(
            self._correlation_id,
            self._read.range.partition,
            position,
            bytes_max=wanted,
            wait_ms=WAIT_MS,
            read_committed=self._read.read_committed,
        )
        self._socket.sendall(frame)

    def _receive(self) -> PartitionData:
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        if not 0 < length < 2**31 - 1:
            raise ValueError(f"the broker's reply claims {length} bytes")
        return read_fetch_reply(self._exactly(length), self._correlation_id)

    def _exactly(self, length: int) -> memoryview:
        assert self._socket is not None, "the connection is open while a range is read"
        view = memoryview(bytearray(length))
        filled = 0
        while filled < length:
            count = self._socket.recv_into(view[filled:])
            if not count:
                raise ConnectionError("the broker closed the connection")
            filled += count
        return view


def _connected(leader: str, client: Mapping[str, Any]) -> tuple[socket.socket, float | None]:
    """A connection on which we are let in, and until when it may be used."""
    host, _, port = leader.rpartition(":")
    if protocol_of(client) != "plaintext":
        return BrokerConnection(Endpoint(host, int(port)), client, client_id=CLIENT_ID, timeout_s=CONNECT_SECONDS).taken_over()
    # Without a question first: in plain text there is nothing to be asked.
    made = socket.create_connection((host, int(port)), CONNECT_SECONDS)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made, None


def _is_quiet(kept: socket.socket, good_until: float | None) -> bool:
    """Whether an idle connection is still open with nothing to read, which is how it was put away."""
    if good_until is not None and time.monotonic() >= good_until:
        return False
    kept.setblocking(False)
    try:
        kept.recv(1)
    except (BlockingIOError, ssl.SSLWantReadError):
        kept.settimeout(REPLY_SECONDS)
        return True
    except OSError:
        return False
    return False

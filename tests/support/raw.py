"""A socket that sends whatever a test likes, and the frames that well-behaved clients send."""

import socket
import struct
from types import TracebackType
from typing import Any, Self

from headrace.records.batch import build_batch
from headrace.records.record import Record
from headrace.wire.apis import ApiKey, messages_of
from headrace.wire.codec import decode, encode
from headrace.wire.framing import RequestHeader, read_response_header, request_frame
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.wire.pieces import pieces_of
from tests.support.waiting import until


class RawClient:
    """One connection, without any manners."""

    def __init__(self, bootstrap: str, timeout: float = 10.0, client_id: str = "raw") -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client_id = client_id
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.socket.close()

    def __del__(self) -> None:
        """Many a test keeps dozens open for as long as it takes, and has nothing to do with them in the end."""
        if hasattr(self, "socket"):
            self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_request(self, request: Any, version: int) -> int:
        self._correlation_id += 1
        self.send(frame(request, version, self._correlation_id, self._client_id))
        return self._correlation_id

    def call(self, request: Any, version: int) -> Any:
        expected = self.send_request(request, version)
        reply = self.receive()
        correlation_id, position = read_response_header(reply, request.api.key, version)
        assert correlation_id == expected
        return decode(messages_of(ApiKey(request.api.key)).response, reply, version, position)

    def receive(self) -> bytes:
        """One reply's frame; raises ConnectionError when the broker has closed the connection."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("closed by the broker")
            data += piece
        return bytes(data)

    def is_closed_by_broker(self) -> bool:
        """Whether the broker ends the connection, rather than answering or keeping silent."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False


def ask_until_created(client: RawClient, topic: str) -> Any:
    """Name a topic until it exists, as clients do; what Metadata says of it then."""

    def ask() -> Any:
        answer = client.call(MetadataRequest(topics=(MetadataRequestTopic(name=topic),)), 12).topics[0]
        return None if answer.error_code else answer

    return until(ask, f"{topic} is created")


def frame(request: Any, version: int, correlation_id: int = 1, client_id: str = "raw") -> bytes:
    """A whole request frame with its length."""
    body = pieces_of(request, version) if isinstance(request, ProduceRequest) else [encode(request, version)]
    return b"".join(request_frame(RequestHeader(request.api.key, version, correlation_id, client_id), body))


def batch(*values: bytes, **options: Any) -> bytes:
    """A record batch with these values."""
    return build_batch([Record(index, 1_700_000_000_000, None, value, ()) for index, value in enumerate(values)], **options)


def produce(topic: str, records: bytes | None, *, partition: int = 0, acks: int = -1) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=5000,
        topic_data=(TopicProduceData(name=topic, partition_data=(PartitionProduceData(index=partition, records=records),)),),
    )

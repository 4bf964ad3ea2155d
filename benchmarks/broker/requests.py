"""How many requests of one message a second the broker answers, with 1, 5 and 50 of them under way on one connection."""

import socket
import struct
import time
from collections.abc import Iterator

from benchmarks.broker.target import Target, fresh_broker
from benchmarks.broker.throughput import temporary_topic
from headrace.records.batch import build_batch
from headrace.records.record import Record
from headrace.wire.codec import decode, encode
from headrace.wire.framing import RequestHeader, read_response_header, request_frame
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

COLUMNS = ("broker", "in flight", "requests/s", "broker CPU µs/request")
IN_FLIGHT = (1, 5, 50)
VERSION = 9
_LENGTH = struct.Struct(">i")


def rows(quick: bool, peers: list[Target]) -> Iterator[tuple[object, ...]]:
    seconds = 1.0 if quick else 3.0
    for in_flight in IN_FLIGHT:
        for flush in ("ack", "os"):
            with fresh_broker(flush) as target:
                yield measure(target, in_flight, seconds)
        for peer in peers:
            yield measure(peer, in_flight, seconds)


def measure(target: Target, in_flight: int, seconds: float) -> tuple[object, ...]:
    with temporary_topic(target, 1) as topic, socket.create_connection(target.address, 10) as connection:
        frame = produce_frame(topic)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        require_success(connection, frame)
        before = target.cpu_seconds()
        answered, took = exchange(connection, frame, in_flight, seconds)
        used = target.cpu_seconds() - before
    return target.name, in_flight, f"{answered / took:,.0f}", f"{used / answered * 1e6:.0f}"


def produce_frame(topic: str, messages: int = 1, size: int = 100) -> bytes:
    """A Produce request with so many messages, acks all."""
    now_ms = time.time_ns() // 1_000_000
    records = [Record(offset=number, timestamp=now_ms, key=None, value=bytes(size), headers=()) for number in range(messages)]
    partition = PartitionProduceData(index=0, records=build_batch(records))
    request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=(TopicProduceData(name=topic, partition_data=(partition,)),))
    header = RequestHeader(ProduceRequest.api.key, VERSION, 1, "bench")
    return b"".join(request_frame(header, [encode(request, VERSION)]))


def require_success(connection: socket.socket, frame: bytes) -> None:
    """One request, looked at closely, so that the loop need not look."""
    connection.sendall(frame)
    received = b""
    while len(received) < 4 or len(received) < 4 + _LENGTH.unpack_from(received)[0]:
        received += connection.recv(65536)
    _, position = read_response_header(received[4:], ProduceRequest.api.key, VERSION)
    reply = decode(ProduceResponse, received[4:], VERSION, position)
    code = reply.responses[0].partition_responses[0].error_code
    if code:
        raise SystemExit(f"the broker refuses the message with error {code}")


def exchange(connection: socket.socket, frame: bytes, in_flight: int, seconds: float) -> tuple[int, float]:
    """Keep so many under way for so long: every reply is followed by a request."""
    answered = 0
    pending = bytearray()
    began = time.perf_counter()
    connection.sendall(frame * in_flight)
    while (elapsed := time.perf_counter() - began) < seconds:
        pending += connection.recv(1 << 18)
        complete = take_frames(pending)
        answered += complete
        connection.sendall(frame * complete)
    return answered, elapsed


def take_frames(pending: bytearray) -> int:
    """Remove the complete frames from the front; how many they were."""
    position = count = 0
    while len(pending) - position >= 4:
        end = position + 4 + _LENGTH.unpack_from(pending, position)[0]
        if end > len(pending):
            break
        position = end
        count += 1
    del pending[:position]
    return count

"""Produce and Fetch on a broker in this process, with an authorizer of 10,000 rules and without: what checking costs a request.

Both are asked in turns by the same connection, and what counts is processor time, the client's included."""

import socket
import struct
import time
from collections.abc import Iterator

from headrace.model.access.acls import AclRule, Operation, ResourceType
from headrace.model.access.principals import EVERYBODY
from headrace.records.batch import build_batch
from headrace.records.record import Record
from headrace.security.authorization.authorizer import Authorizer
from headrace.security.authorization.index import AclIndex
from headrace.testing import Broker
from headrace.wire.codec import encode
from headrace.wire.framing import RequestHeader, request_frame
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.wire.pieces import pieces_of

TOPIC = "measured"
AT_ONCE = 20
TURNS = 9  # the best of each counts
PRODUCE_VERSION, FETCH_VERSION = 9, 12


def guarded(rules: list[AclRule], requests: int) -> Iterator[tuple[object, ...]]:
    """For each kind of request: µs without, µs with, and the ratio."""
    own = [
        AclRule(principal=EVERYBODY, operation=operation, resource_type=ResourceType.TOPIC, resource_name=TOPIC)
        for operation in (Operation.READ, Operation.WRITE)
    ]
    index = AclIndex([*rules, *own])
    with Broker(settings={"authorizer": "acl", "super.users": "User:root"}) as broker:
        assert broker.broker is not None
        guard = broker.broker.parts.access_rules.guard
        guard.authorizer = None
        broker.call(broker.broker.parts.topics.ensure(TOPIC))
        host, port = broker.bootstrap.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as connection:
            for name, frame in frames():
                seconds: dict[bool, float] = {False: float("inf"), True: float("inf")}
                for turn in range(2 * TURNS):
                    is_on = turn % 2 == 1
                    guard.authorizer = Authorizer(index) if is_on else None
                    seconds[is_on] = min(seconds[is_on], ask(connection, frame, requests))
                off, on = (seconds[each] / requests * 1e6 for each in (False, True))
                yield name, f"{off:.1f}", f"{on:.1f}", f"{off / on:.3f}"


def frames() -> Iterator[tuple[str, bytes]]:
    for count in (1, 100):
        records = build_batch([Record(index, 1, None, bytes(100), ()) for index in range(count)])
        topic = TopicProduceData(name=TOPIC, partition_data=(PartitionProduceData(index=0, records=records),))
        produce = ProduceRequest(acks=1, timeout_ms=5000, topic_data=(topic,))
        header = RequestHeader(produce.api.key, PRODUCE_VERSION, 1, "benchmark")
        yield f"Produce, {count} × 100 B", b"".join(request_frame(header, pieces_of(produce, PRODUCE_VERSION)))
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    fetch = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1000, topics=(FetchTopic(topic=TOPIC, partitions=(wanted,)),))
    header = RequestHeader(fetch.api.key, FETCH_VERSION, 1, "benchmark")
    yield "Fetch, 1 kB", b"".join(request_frame(header, [encode(fetch, FETCH_VERSION)]))


def ask(connection: socket.socket, frame: bytes, requests: int) -> float:
    """Processor seconds for so many requests."""
    began = time.process_time()
    for _ in range(requests // AT_ONCE):
        connection.sendall(frame * AT_ONCE)
        for _ in range(AT_ONCE):
            (size,) = struct.unpack(">i", receive(connection, 4))
            receive(connection, size)
    return time.process_time() - began


def receive(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        received += connection.recv(size - len(received))
    return bytes(received)

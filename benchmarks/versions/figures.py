"""What is compared, of one checkout: each question keeps what it needs at hand and is then asked once in every round.

Less is better in all figures.
"""

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

from confluent_kafka.admin import NewTopic

from benchmarks.broker import costs
from benchmarks.broker.requests import produce_frame, require_success
from benchmarks.broker.target import Target, data_directory, fresh_broker, serving
from benchmarks.broker.throughput import quiet_admin, temporary_topic
from headrace.wire.codec import encode
from headrace.wire.framing import RequestHeader, request_frame
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.metadata import MetadataRequest

Figures = dict[str, float]
Round = Callable[[], Figures]
Command = Sequence[str]
Question = Callable[[Command], AbstractContextManager[Round]]

PARTITIONS_MANY = 9_000


@contextmanager
def start(command: Command) -> Iterator[Round]:
    """From `headrace serve` to a record that is on the disk, and the memory that the broker then has."""

    def once() -> Figures:
        with data_directory() as data:
            began = time.perf_counter()
            with serving(data, "ack", command=command) as (target, answered_s):
                _first_record(target)
                seconds, cpu_seconds = time.perf_counter() - began, target.cpu_seconds()
                return {
                    "start to first answer, ms": answered_s * 1000,
                    "start to first record, ms": seconds * 1000,
                    "start to first record, CPU ms": cpu_seconds * 1000,
                    "memory after it, MB": target.memory_mb(),
                }

    yield once


def _first_record(target: Target) -> None:
    topic = CreatableTopic(name="first", num_partitions=1, replication_factor=1, assignments=(), configs=())
    with socket.create_connection(target.address, 10) as connection:
        connection.sendall(_frame(CreateTopicsRequest(topics=(topic,)), 5))
        assert connection.recv(65536), "the broker hung up"
        require_success(connection, produce_frame("first"))


def _frame(request: CreateTopicsRequest | MetadataRequest, version: int) -> bytes:
    header = RequestHeader(request.api.key, version, 1, "bench")
    return b"".join(request_frame(header, [encode(request, version)]))


@contextmanager
def requests(command: Command) -> Iterator[Round]:
    """Requests of one message each, some under way at a time: CPU µs of the broker for one."""
    with ExitStack() as stack:
        reached: dict[str, tuple[Target, socket.socket, bytes]] = {}
        for flush in ("os", "ack"):
            target = stack.enter_context(fresh_broker(flush, command))
            topic = stack.enter_context(temporary_topic(target, 1))
            connection = stack.enter_context(socket.create_connection(target.address, 10))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            reached[flush] = target, connection, produce_frame(topic)
            require_success(connection, produce_frame(topic))
        yield lambda: {
            f"{in_flight} in flight, flush {flush}, CPU µs": costs.of_a_request(*asked, in_flight) * 1e6
            for flush, asked in reached.items()
            for in_flight in (1, 5, 50)
        }


@contextmanager
def batches(command: Command) -> Iterator[Round]:
    """Requests of one size whatever the client's pace, five under way: CPU µs of the broker for one."""
    with (
        fresh_broker("os", command) as target,
        temporary_topic(target, 1) as topic,
        socket.create_connection(target.address, 10) as connection,
    ):
        frames = {f"{count} x 1 KiB, CPU µs": produce_frame(topic, count, 1024) for count in (10, 100, 900)}
        yield lambda: {name: costs.of_a_request(target, connection, frame, 5) * 1e6 for name, frame in frames.items()}


@contextmanager
def metadata(command: Command) -> Iterator[Round]:
    """All that there is to know, asked of a broker with many partitions."""
    with fresh_broker("os", command) as target, socket.create_connection(target.address, 10) as connection:
        many = [NewTopic(f"many-{number}", PARTITIONS_MANY // 3, 1) for number in range(3)]
        admin = quiet_admin(target)
        for created in admin.create_topics(many).values():
            created.result(60)
        frame = _frame(MetadataRequest(topics=None), 12)
        yield lambda: {f"{PARTITIONS_MANY:,} partitions, CPU ms": costs.of_a_request(target, connection, frame, 1) * 1e3}


@contextmanager
def throughput(command: Command) -> Iterator[Round]:
    """Messages by librdkafka, in batches as large as its pace makes them: CPU seconds of the broker for a million."""
    with fresh_broker("os", command) as target:
        yield lambda: {
            f"{what} {size} B, CPU s/M": cost
            for size, count in ((100, 500_000), (1024, 100_000))
            for what, cost in zip(("produce", "consume"), costs.of_a_million(target, size, count), strict=True)
        }


QUESTIONS: dict[str, Question] = {
    "start": start,
    "requests": requests,
    "batches": batches,
    "metadata": metadata,
    "throughput": throughput,
}

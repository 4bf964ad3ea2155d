"""What transactions cost: messages a second in transactions of 100 and 10,000 beside plain ones; starting with many producers."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass

from confluent_kafka.admin import NewTopic

from benchmarks.broker.group_members import Connection
from benchmarks.broker.target import Target, data_directory, fresh_broker, serving
from benchmarks.broker.throughput import quiet_admin, run_client, temporary_topic
from headrace.records.batch import build_batch
from headrace.records.record import Record
from headrace.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

COLUMNS = ("what", "broker", "producers", "messages each", "figure", "unit", "of plain")
PARTITIONS = 3
SIZE = 100
# Each transaction ends before the next begins, so small ones are many round trips: a tenth of the messages gives a figure, too.
COUNTS = {10_000: 1_000_000, 100: 100_000}
PRODUCERS = 10_000
TOPIC = "bench"
ROUNDS = 3
# One producer waits for each of its transactions and has nothing else to do meanwhile; several fill each other's pauses.
MANY = 4


@dataclass(frozen=True)
class Shape:
    """How messages are sent: without a stop, or in parts of so many, each of them a transaction or only waited for."""

    each: int
    transactional: bool
    producers: int = 1

    @property
    def name(self) -> str:
        if not self.each:
            return "produced without a stop"
        return "produced in transactions" if self.transactional else "produced, each part acknowledged before the next"


def rows(quick: bool, peers: list[Target]) -> Iterator[tuple[object, ...]]:
    for flush in ("ack", "os"):
        with fresh_broker(flush) as own:
            yield from measure(own, quick)
    for peer in peers:
        yield from measure(peer, quick)
    yield starting(PRODUCERS // 4 if quick else PRODUCERS)


def measure(target: Target, quick: bool) -> Iterator[tuple[object, ...]]:
    """The best of a few rounds each, taken in turn, so that one slow moment of the machine does not count against one of them."""
    shapes = [
        Shape(0, transactional=False),
        *(Shape(each, transactional) for each in COUNTS for transactional in (False, True)),
        *(Shape(each, each > 0, MANY) for each in (0, *COUNTS)),
    ]
    best = dict.fromkeys(shapes, 0.0)
    for _ in range(1 if quick else ROUNDS):
        for shape in shapes:
            best[shape] = max(best[shape], _rate(target, shape, quick))
    for shape, rate in best.items():
        plain = best[Shape(0, transactional=False, producers=shape.producers)]
        yield shape.name, target.name, shape.producers, shape.each or "", f"{rate:,.0f}", "messages/s", f"{rate / plain:.0%}"


def _rate(target: Target, shape: Shape, quick: bool) -> float:
    count = COUNTS.get(shape.each, COUNTS[10_000]) // (4 if quick else 1)
    with temporary_topic(target, PARTITIONS) as topic:
        arguments = {"bootstrap": target.bootstrap, "topic": topic, "partitions": PARTITIONS, "count": count, "size": SIZE}
        measured = run_client(
            "in_parts", each=shape.each, transactional=shape.transactional, producers=shape.producers, **arguments
        )
    if measured["unacknowledged"]:
        raise SystemExit(f"{measured['unacknowledged']} messages were not acknowledged: the figures would be wrong")
    return float(measured["messages"] / measured["seconds"])


# --- starting ---------------------------------------------------------------------------------------------------------------


def starting(count: int) -> tuple[object, ...]:
    with data_directory() as data:
        with serving(data, "os") as (target, _):
            admin = quiet_admin(target)
            admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
            asyncio.run(write_as_many(target, count))
        began = time.perf_counter()
        with serving(data, "os") as (target, _):
            known = asyncio.run(known_producers(target))
            taken = time.perf_counter() - began
            if known != count:
                raise SystemExit(f"{known} of {count} producers were remembered: the figure would be wrong")
            return f"from start to all of {count:,} producers known", target.name, "", "", f"{taken * 1000:,.0f}", "ms", ""


async def write_as_many(target: Target, count: int) -> None:
    """One batch from each of so many producers."""
    now_ms = time.time_ns() // 1_000_000
    connection = await Connection.open(target.address)
    for producer_id in range(count):
        batch = build_batch([Record(0, now_ms, None, b"x", ())], producer_id=producer_id, producer_epoch=0, base_sequence=0)
        data = TopicProduceData(name=TOPIC, partition_data=(PartitionProduceData(index=0, records=batch),))
        reply = await connection.call(ProduceRequest(acks=1, timeout_ms=10_000, topic_data=(data,)), 9)
        assert not reply.responses[0].partition_responses[0].error_code
    connection.close()


async def known_producers(target: Target) -> int:
    connection = await Connection.open(target.address)
    request = DescribeProducersRequest(topics=(TopicRequest(name=TOPIC, partition_indexes=(0,)),))
    reply = await connection.call(request, 0)
    connection.close()
    return len(reply.topics[0].partitions[0].active_producers)

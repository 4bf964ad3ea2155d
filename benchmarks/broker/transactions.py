"""What transactions cost: messages a second in transactions of 100 and of 10,000 beside plain ones, and starting with many producers."""

import asyncio
import time
from collections.abc import Iterator

from confluent_kafka.admin import NewTopic

from benchmarks.broker.group_members import Connection
from benchmarks.broker.target import Target, data_directory, fresh_broker, serving
from benchmarks.broker.throughput import quiet_admin, run_client, temporary_topic
from headrace.records.batch import build_batch
from headrace.records.record import Record
from headrace.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

COLUMNS = ("what", "broker", "messages each", "figure", "unit", "of plain")
PARTITIONS = 3
SIZE = 100
# Each transaction ends before the next begins, so small ones are many round trips: a tenth of the messages is enough for a figure.
COUNTS = {10_000: 1_000_000, 100: 100_000}
PRODUCERS = 10_000
TOPIC = "bench"
ROUNDS = 3


def rows(quick: bool, peers: list[Target]) -> Iterator[tuple[object, ...]]:
    for flush in ("ack", "os"):
        with fresh_broker(flush) as own:
            yield from measure(own, quick)
    for peer in peers:
        yield from measure(peer, quick)
    yield starting(PRODUCERS // 4 if quick else PRODUCERS)


def measure(target: Target, quick: bool) -> Iterator[tuple[object, ...]]:
    """The best of a few rounds each, taken in turn, so that one slow moment of the machine does not count against one of them."""
    best: dict[int, float] = {}
    for _ in range(1 if quick else ROUNDS):
        for each, count in ((0, COUNTS[10_000]), *COUNTS.items()):
            best[each] = max(best.get(each, 0.0), _rate(target, each, count // 4 if quick else count))
    yield "produced, plain", target.name, "", f"{best[0]:,.0f}", "messages/s", ""
    for each in COUNTS:
        share = f"{best[each] / best[0]:.0%}"
        yield "produced in transactions", target.name, each, f"{best[each]:,.0f}", "messages/s", share


def _rate(target: Target, each: int, count: int) -> float:
    with temporary_topic(target, PARTITIONS) as topic:
        arguments = {"bootstrap": target.bootstrap, "topic": topic, "partitions": PARTITIONS, "count": count, "size": SIZE}
        measured = run_client("transact", each=each, **arguments) if each else run_client("produce", codec="none", **arguments)
    if measured["unacknowledged"]:
        raise SystemExit(f"{measured['unacknowledged']} messages were not acknowledged: the figures would be wrong")
    return float(measured["messages"] / measured["seconds"])


# --- starting ---------------------------------------------------------------------------------------------------------------


def starting(count: int) -> tuple[object, ...]:
    with data_directory() as data:
        with serving(data, "os") as (target, _):
            quiet_admin(target).create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
            asyncio.run(write_as_many(target, count))
        began = time.perf_counter()
        with serving(data, "os") as (target, _):
            known = asyncio.run(known_producers(target))
            taken = time.perf_counter() - began
            if known != count:
                raise SystemExit(f"{known} of {count} producers were remembered: the figure would be wrong")
            return f"from start to all of {count:,} producers known", target.name, "", f"{taken * 1000:,.0f}", "ms", ""


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

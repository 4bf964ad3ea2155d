"""What it costs to be watched: scrapes of 10,000 partitions, what others wait for meanwhile, memory with 100 groups on them."""

import asyncio
import statistics
import time
import urllib.request
from collections.abc import Iterator

from confluent_kafka.admin import NewTopic

from benchmarks.broker.group_members import Connection
from benchmarks.broker.groups import found
from benchmarks.broker.target import Target, data_directory, free_port, serving
from benchmarks.broker.throughput import quiet_admin
from headrace.wire.messages.metadata import MetadataRequest
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

COLUMNS = ("what", "figure", "unit")
TOPICS, PARTITIONS_EACH = 20, 500
GROUPS = 100
PAGES = ("/metrics", "/metrics/detail")
SCRAPES = 5
LATE_S = 0.020


def rows(quick: bool, peers: list[Target]) -> Iterator[tuple[object, ...]]:
    """Only of ours: a peer's metrics are not where ours are."""
    topics, groups = (TOPICS // 4, GROUPS // 4) if quick else (TOPICS, GROUPS)
    shape = f"{topics * PARTITIONS_EACH:,} partitions"
    port = free_port()
    with data_directory() as data:
        # What is asked for has no files, so that it is the metrics that are measured, on every machine.
        settings = {"headrace.memory": "true", "headrace.metrics.listener": f"127.0.0.1:{port}"}
        with serving(data, "os", settings) as (target, _):
            admin = quiet_admin(target)
            empty = target.memory_mb()
            wanted = [NewTopic(f"watched-{number}", PARTITIONS_EACH, 1) for number in range(topics)]
            for made in admin.create_topics(wanted, request_timeout=120).values():
                made.result(120)
            yield f"memory, {shape}", f"{target.memory_mb() - empty:.0f}", "MB more"
            yield from of_pages(target, port, shape, PAGES)
            asyncio.run(commit_all(target, topics, groups))
            yield f"memory, {shape} x {groups} groups", f"{target.memory_mb() - empty:.0f}", "MB more"
            # The other page has a row for each group and partition then, a million of them: nobody scrapes that.
            yield from of_pages(target, port, f"{shape} x {groups} groups", PAGES[:1])


def of_pages(target: Target, port: int, shape: str, pages: tuple[str, ...]) -> Iterator[tuple[object, ...]]:
    for page in pages:
        size, seconds, cpu, waits = asyncio.run(scrapes(target, port, page))
        yield f"{page}, {shape}: time (median of {SCRAPES})", f"{statistics.median(seconds) * 1000:,.0f}", "ms"
        yield f"{page}, {shape}: CPU of the broker", f"{cpu * 1000:,.0f}", "ms"
        yield f"{page}, {shape}: size", f"{size / 1e6:.2f}", "MB"
        yield f"{page}, {shape}: longest wait of another request", f"{max(waits) * 1000:,.0f}", "ms"
        late = sum(wait > LATE_S for wait in waits)
        yield f"{page}, {shape}: of these, above {LATE_S * 1000:.0f} ms", f"{late} of {len(waits):,}", "requests"


async def scrapes(target: Target, port: int, page: str) -> tuple[int, list[float], float, list[float]]:
    """The page's size, how long each scrape took, its CPU time, and how long requests took that were made all the while."""
    connection = await Connection.open(target.address)
    await asyncio.to_thread(scrape, port, page)  # which learns what later ones know
    waits: list[float] = []
    asking = asyncio.create_task(ask_again_and_again(connection, waits))
    before = target.cpu_seconds()
    took = []
    size = 0
    for _ in range(SCRAPES):
        began = time.perf_counter()
        size = await asyncio.to_thread(scrape, port, page)
        took.append(time.perf_counter() - began)
    cpu = (target.cpu_seconds() - before) / SCRAPES
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    connection.close()
    return size, took, cpu, waits


def scrape(port: int, page: str) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{page}", timeout=60) as answer:
        return len(answer.read())


async def ask_again_and_again(connection: Connection, waits: list[float]) -> None:
    """A request that costs next to nothing, twice in ten milliseconds."""
    while True:
        began = time.perf_counter()
        await connection.call(MetadataRequest(topics=()), 12)
        waits.append(time.perf_counter() - began)
        await asyncio.sleep(0.005)


async def commit_all(target: Target, topics: int, groups: int) -> None:
    """Every group commits an offset for every partition."""
    connection = await found(target, "watched")
    partitions = tuple(
        OffsetCommitRequestPartition(partition_index=index, committed_offset=0, committed_metadata="")
        for index in range(PARTITIONS_EACH)
    )
    for group in range(groups):
        for topic in range(topics):
            named = OffsetCommitRequestTopic(name=f"watched-{topic}", partitions=partitions)
            reply = await connection.call(OffsetCommitRequest(group_id=f"group-{group}", topics=(named,)), 9)
            assert not any(each.error_code for each in reply.topics[0].partitions)
    connection.close()

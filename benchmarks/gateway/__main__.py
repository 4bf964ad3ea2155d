"""`python -m benchmarks.gateway [--quick] [--only NAME]`: records over HTTP, events, webhooks; one broker and one gateway."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import time
from collections.abc import Awaitable, Callable, Iterable

import aiohttp
import orjson
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.broker.target import fresh_broker
from benchmarks.gateway.serving import Running, answer_of, endpoint, gateway
from headrace import Admin, AsyncProducer, Producer

VALUE = "x" * 98  # as JSON 100 bytes
NDJSON = {"Content-Type": "application/x-ndjson"}
PIECE = 64 * 1024
Row = tuple[str, ...]


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.gateway", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the records and readers")
    parser.add_argument("--only", choices=tuple(MEASURES), help="one of the tables")
    arguments = parser.parse_args()
    console = Console(highlight=False, width=None if os.isatty(1) else 140)
    console.print(
        f"{platform.machine()}, {os.cpu_count()} cores shared by broker, gateway and clients, Python {platform.python_version()}"
    )
    scale = 10 if arguments.quick else 1
    for name, (title, columns, measure) in MEASURES.items():
        if arguments.only in (None, name):
            with fresh_broker("os") as target, gateway(target.bootstrap) as running:
                show(console, title, columns, asyncio.run(measure(target.bootstrap, running, scale)))


def show(console: Console, title: str, columns: Iterable[str], rows: list[Row]) -> None:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left")
    for row in rows:
        table.add_row(*row)
    console.print(table)


async def timed(running: Running, what: str, count: int, work: Callable[[], Awaitable[object]]) -> Row:
    """A row: how many a second, and what the gateway's CPU did for each."""
    began, cpu = time.perf_counter(), running.cpu_s()
    await work()
    took = time.perf_counter() - began
    return what, f"{count / took:,.0f}", f"{(running.cpu_s() - cpu) / count * 1e6:.1f}"


async def produce(bootstrap: str, running: Running, scale: int) -> list[Row]:
    with Admin(bootstrap) as admin:
        admin.create_topic("written", partitions=1)
    path = f"{running.url}/topics/written/records"
    rows = []
    async with aiohttp.ClientSession() as session:
        single, batched, streamed = 5000 // scale, 100_000 // scale, 500_000 // scale

        async def post(body: bytes, headers: dict[str, str]) -> None:
            async with session.post(path, data=body, headers=headers) as response:
                await answer_of(response)

        async def singly(count: int) -> None:
            body = orjson.dumps({"value": VALUE})
            for _ in range(count):
                await post(body, {"Content-Type": "application/json"})

        async def in_batches() -> None:
            body = orjson.dumps({"records": [{"value": VALUE}] * 100})
            for _ in range(batched // 100):
                await post(body, {"Content-Type": "application/json"})

        async def in_a_stream() -> None:
            async def lines() -> object:
                line = orjson.dumps({"value": VALUE}) + b"\n"
                piece = line * (PIECE // len(line))
                for _ in range(streamed // (PIECE // len(line))):
                    yield piece

            async with session.post(path, data=lines(), headers=NDJSON) as response:
                await answer_of(response)

        await singly(10)
        rows.append(
            await timed(running, "REST, one by one on 8 connections", single, lambda: _beside(8, lambda: singly(single // 8)))
        )
        rows.append(await timed(running, "REST, 100 in a request", batched, in_batches))
        rows.append(await timed(running, "NDJSON, one stream", streamed, in_a_stream))
    raw = VALUE.encode() + b"''"
    with Producer(bootstrap) as producer:
        began = time.perf_counter()
        for _ in range(streamed // 10_000):
            producer.send_many("written", [raw] * 10_000)
        producer.flush()
        rows.append(("librdkafka, for comparison", f"{streamed / (time.perf_counter() - began):,.0f}", "-"))
    return rows


async def _beside(count: int, work: Callable[[], Awaitable[object]]) -> None:
    await asyncio.gather(*(work() for _ in range(count)))


async def consume(bootstrap: str, running: Running, scale: int) -> list[Row]:
    count = 200_000 // scale
    with Producer(bootstrap) as producer:
        producer.send_many("read", [b'"%s"' % VALUE.encode()] * count).result()
    async with aiohttp.ClientSession() as session:

        async def read() -> None:
            seen, cursor = 0, None
            while seen < count:
                query = {"limit": "10000", "bytes": str(2**23), **({} if cursor is None else {"cursor": cursor})}
                async with session.get(
                    f"{running.url}/topics/read/records", params=query, headers={"Accept": "application/x-ndjson"}
                ) as response:
                    seen += (await answer_of(response)).count(b"\n")
                    cursor = response.headers["Headrace-Next"]

        return [await timed(running, "NDJSON, 10,000 in an answer", count, read)]


async def events(bootstrap: str, running: Running, scale: int) -> list[Row]:
    with Admin(bootstrap) as admin:
        admin.create_topic("watched", partitions=1)
    rows: list[Row] = []
    idle = running.memory_mib()
    records = 100
    for readers in (100 // scale, 1000 // scale, 10_000 // scale):
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None)) as session:
            streams = [await session.get(f"{running.url}/topics/watched/events") for _ in range(readers)]
            memory = running.memory_mib() - idle

            async def drain(stream: aiohttp.ClientResponse, wanted: int = records) -> None:
                seen = 0
                while seen < wanted:
                    seen += (await stream.content.readany()).count(b"data: ")

            async def all_of_it(waiting: list[aiohttp.ClientResponse] = streams) -> None:
                async with AsyncProducer(bootstrap, linger=0) as producer:
                    reading = asyncio.gather(*(drain(stream) for stream in waiting))
                    for _ in range(records):
                        await producer.send("watched", VALUE.encode())
                    await reading

            row = await timed(running, f"{readers:,} readers, {records} events each", readers * records, all_of_it)
            rows.append((*row, f"{memory / readers * 1024:.1f}"))
    return rows


async def webhooks(bootstrap: str, running: Running, scale: int) -> list[Row]:
    with Admin(bootstrap) as admin:
        admin.create_topic("hooked", partitions=8)
    rows: list[Row] = []
    async with aiohttp.ClientSession() as session, endpoint() as hook:
        while not (await (await session.get(f"{running.url}/live")).json())["coordinated"]:
            await asyncio.sleep(0.2)
        wanted = {"topic": "hooked", "group": "bench", "callback_url": hook.url, "begin": "earliest"}
        async with session.post(f"{running.url}/subscriptions", json=wanted) as response:
            await answer_of(response)
        async with AsyncProducer(bootstrap, linger=0, values="json") as producer:
            for rate in (100, 1000):
                count = rate * 10 // scale
                hook.delays_s.clear()
                began, cpu = time.perf_counter(), running.cpu_s()
                for number in range(count):
                    await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
                    await producer.enqueue("hooked", time.time(), key=b"%d" % number)
                while len(hook.delays_s) < count:
                    await asyncio.sleep(0.01)
                took = time.perf_counter() - began
                ordered = sorted(hook.delays_s)
                rows.append(
                    (
                        f"{rate} records a second",
                        f"{count / took:,.0f}",
                        f"{(running.cpu_s() - cpu) / count * 1e6:.0f}",
                        f"{ordered[count // 2] * 1000:.1f}",
                        f"{ordered[int(count * 0.99)] * 1000:.1f}",
                    )
                )
    return rows


async def subscriptions(bootstrap: str, running: Running, scale: int) -> list[Row]:
    """Many webhooks on one topic, each with a group of its own."""
    count, records, rest_s = 1000 // scale, 20, 10
    with Admin(bootstrap) as admin:
        admin.create_topic("shared", partitions=1)
    async with aiohttp.ClientSession() as session, endpoint() as hook:
        while not (await (await session.get(f"{running.url}/live")).json())["coordinated"]:
            await asyncio.sleep(0.2)
        before = running.memory_mib()
        for number in range(count):
            wanted = {"topic": "shared", "group": f"bench-{number}", "callback_url": hook.url, "begin": "earliest"}
            async with session.post(f"{running.url}/subscriptions", json=wanted) as response:
                await answer_of(response)
        memory = running.memory_mib() - before
        cpu = running.cpu_s()
        await asyncio.sleep(rest_s)
        resting = (running.cpu_s() - cpu) / rest_s * 100

        async def deliver() -> None:
            async with AsyncProducer(bootstrap, linger=0, values="json") as producer:
                for _ in range(records):
                    await producer.send("shared", time.time())
            while len(hook.delays_s) < count * records:
                await asyncio.sleep(0.01)

        row = await timed(running, f"{count:,} webhooks, {records} records each", count * records, deliver)
        return [(*row, f"{memory / count * 1024:.1f}", f"{resting:.1f} %")]


async def schemas(bootstrap: str, running: Running, scale: int) -> list[Row]:
    count, at_once = 8000 // scale, 8
    text = orjson.dumps({"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}).decode()
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{running.url}/subjects/orders-value/versions", json={"schema": text}) as response:
            number = orjson.loads(await answer_of(response))["id"]

        async def look_up_ids() -> None:
            for _ in range(count // at_once):
                async with session.get(f"{running.url}/schemas/ids/{number}") as response:
                    await answer_of(response)

        async def look_up_texts() -> None:
            for _ in range(count // at_once):
                async with session.post(f"{running.url}/subjects/orders-value", json={"schema": text}) as response:
                    await answer_of(response)

        async def register() -> None:
            for each in range(count // 80):
                wanted = {"schema": orjson.dumps({"type": "enum", "name": "E", "symbols": [f"S{each}"]}).decode()}
                async with session.post(f"{running.url}/subjects/new-{each}/versions", json=wanted) as response:
                    await answer_of(response)

        return [
            await timed(running, "by id, 8 connections", count, lambda: _beside(at_once, look_up_ids)),
            await timed(running, "by content, 8 connections", count, lambda: _beside(at_once, look_up_texts)),
            await timed(running, "registered, one by one", count // 80, register),
        ]


RATE = ("what", "records/s", "gateway's CPU, µs each")
MEASURES = {
    "produce": ("Writing records of 100 bytes", RATE, produce),
    "consume": ("Reading records of 100 bytes", RATE, consume),
    "events": ("Server-sent events", (*RATE, "memory, KiB a reader"), events),
    "schemas": ("Schemas", ("what", "requests/s", "gateway's CPU, µs each"), schemas),
    "subscriptions": ("Many webhooks", (*RATE, "memory, KiB a webhook", "CPU at rest"), subscriptions),
    "webhooks": ("Webhooks, 8 partitions, one record a request", (*RATE, "p50 ms", "p99 ms"), webhooks),
}

if __name__ == "__main__":
    main()

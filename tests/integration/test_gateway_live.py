"""Server-sent events and WebSocket, beside a real broker."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any

import aiohttp
import pytest

from headrace import Admin, Producer
from headrace.gateway.gateway import Gateway
from headrace.testing import Broker
from tests.support.gateway import GatewayThread
from tests.support.waiting import until_async


def on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return run


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"num.partitions": 2}) as running:
        yield running


@pytest.fixture(scope="module")
def gateway(broker: Broker) -> Iterator[GatewayThread]:
    with GatewayThread(broker.bootstrap) as running:
        yield running


def send(broker: Broker, topic: str, *values: int, partition: int = 0) -> None:
    with Producer(broker.bootstrap) as producer:
        for value in values:
            producer.send(topic, b"%d" % value, partition=partition).result()


@asynccontextmanager
async def events(gateway: GatewayThread, path: str, **headers: str) -> AsyncIterator[Any]:
    """A generator of events, as (id, data)."""
    async with aiohttp.ClientSession() as session, session.get(gateway.url + path, headers=headers) as response:
        assert response.status == 200, await response.text()

        async def each() -> AsyncIterator[tuple[str | None, Any]]:
            fields: dict[str, str] = {}
            async for line in response.content:
                name, _, text = line.decode().rstrip("\n").partition(": ")
                if name == "":
                    if "data" in fields:
                        yield fields.get("id"), json.loads(fields["data"])
                    fields = {}
                elif name != ":":
                    fields[name] = text

        yield each()


async def take(stream: Any, count: int) -> list[tuple[str, Any]]:
    async with asyncio.timeout(30):
        return [await anext(stream) for _ in range(count)]


@on_a_loop
async def test_events_go_on_after_the_last_one_that_was_seen(gateway: GatewayThread, broker: Broker) -> None:
    send(broker, "watched", 1, 2, 3)
    send(broker, "watched", 10, 11, partition=1)

    async with events(gateway, "/topics/watched/events?from=earliest") as stream:
        first = await take(stream, 3)
    send(broker, "watched", 4)
    async with events(gateway, "/topics/watched/events?from=latest", **{"Last-Event-ID": first[-1][0]}) as stream:
        then = await take(stream, 3)

    values = [data["value"] for _, data in [*first, *then]]
    assert sorted(values) == [1, 2, 3, 4, 10, 11]
    assert [value for value in values if value < 10] == [1, 2, 3, 4]


@on_a_loop
async def test_many_readers_of_one_end_cost_one_fetch(gateway: GatewayThread, broker: Broker) -> None:
    send(broker, "fanned-out", 0)

    async def read() -> list[Any]:
        async with events(gateway, "/topics/fanned-out/events?partition=0") as stream:
            return [data["value"] for _, data in await take(stream, 3)]

    readers = [asyncio.ensure_future(read()) for _ in range(20)]
    await until_async(lambda: watchers(gateway, "fanned-out") == [20], "all wait at one end")
    await asyncio.to_thread(send, broker, "fanned-out", 1, 2, 3)

    assert await asyncio.gather(*readers) == [[1, 2, 3]] * 20


def watchers(gateway: GatewayThread, topic: str) -> list[int]:
    """How many watch each end of a topic that is watched."""

    def count(running: Gateway) -> list[int]:
        tails = [tail for caller in running.callers for tail in caller.cluster.tails]
        return [tail.watchers for tail in tails if tail.place.topic == topic]

    return list(gateway.ask(count))


@on_a_loop
async def test_a_heartbeat_shows_that_somebody_is_there_and_a_topic_that_goes_ends_the_stream(
    gateway: GatewayThread, broker: Broker
) -> None:
    send(broker, "quiet", 0)
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{gateway.url}/topics/quiet/events?heartbeat_ms=100&partition=0") as response:
            lines = [await response.content.readline() for _ in range(7)]
            with Admin(broker.bootstrap) as admin:
                await asyncio.to_thread(admin.delete_topic, "quiet")
            async with asyncio.timeout(30):
                rest = await response.content.read()
        missing = await session.get(f"{gateway.url}/topics/quiet-too/events")

    assert lines[:2] == [b"retry: 1000\n", b"id: 0:1\n"]
    assert lines[3:] == [b":\n", b"\n", b":\n", b"\n"]
    assert b"event: problem" in rest
    assert missing.status == 404


class Socket:
    """A client of the WebSocket."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket

    async def say(self, kind: str, **more: Any) -> None:
        await self._socket.send_json({"type": kind, **more})

    async def hear(self) -> dict[str, Any]:
        async with asyncio.timeout(30):
            heard: dict[str, Any] = await self._socket.receive_json()
            return heard

    async def quiet(self, seconds: float) -> bool:
        try:
            await self._socket.receive(timeout=seconds)
        except TimeoutError:
            return True
        return False


@asynccontextmanager
async def socket_of(gateway: GatewayThread, **options: Any) -> AsyncIterator[Socket]:
    async with aiohttp.ClientSession() as session, session.ws_connect(f"{gateway.url}/ws", **options) as socket:
        yield Socket(socket)


@on_a_loop
async def test_what_is_produced_on_a_socket_comes_to_its_subscribers(gateway: GatewayThread, broker: Broker) -> None:
    send(broker, "spoken", 0)
    async with socket_of(gateway) as socket:
        await socket.say("subscribe", id="s", topic="spoken", partition=0)
        subscribed = await socket.hear()
        await socket.say("produce", id="p", topic="spoken", records=[{"value": {"n": 1}, "partition": 0, "key": "k"}])
        heard = [await socket.hear(), await socket.hear()]

    assert subscribed == {"type": "subscribed", "id": "s", "positions": {"0": 1}}
    by_type = {message["type"]: message for message in heard}
    assert by_type["produced"]["records"][0]["offset"] == 1
    assert by_type["records"]["records"][0]["value"] == {"n": 1}


@on_a_loop
async def test_a_subscription_sends_no_more_than_its_credits(gateway: GatewayThread, broker: Broker) -> None:
    send(broker, "credited", *range(10))
    async with socket_of(gateway) as socket:
        await socket.say("subscribe", id="s", topic="credited", begin="earliest", credits=4)
        await socket.hear()
        first = await socket.hear()
        nothing = await socket.quiet(0.5)
    async with socket_of(gateway) as socket:
        await socket.say("subscribe", id="s", topic="credited", begin="earliest", credits=4)
        await socket.hear()
        await socket.hear()
        await socket.say("credit", id="s", credits=3)
        second = await socket.hear()

    assert ([record["value"] for record in first["records"]], first["credits"], nothing) == ([0, 1, 2, 3], 0, True)
    assert [record["value"] for record in second["records"]] == [4, 5, 6]


@on_a_loop
async def test_a_group_goes_on_after_what_was_acknowledged(gateway: GatewayThread, broker: Broker) -> None:
    send(broker, "acked", *range(5))

    async def first_value() -> int:
        async with socket_of(gateway) as socket:
            await socket.say("subscribe", id="s", topic="acked", group="of-sockets", credits=10)
            await socket.hear()
            record = (await socket.hear())["records"][0]
            await socket.say("acknowledge", id="s", partition=0, offset=record["offset"] + 1)
            assert (await socket.hear())["type"] == "acknowledged"
            return int(record["value"])

    assert [await first_value(), await first_value()] == [0, 2]


@on_a_loop
async def test_what_is_wrong_on_a_socket_is_said_and_does_not_end_it(gateway: GatewayThread, broker: Broker) -> None:
    async with socket_of(gateway) as socket:
        codes = []
        for message in (
            {"type": "shout"},
            {"type": "subscribe", "id": "s"},
            {"type": "subscribe", "id": "s", "topic": "not-there"},
            {"type": "credit", "id": "nobody", "credits": 1},
            {"type": "produce", "id": "p", "topic": "no name", "records": [{"value": 1}]},
        ):
            await socket.say(str(message.pop("type")), **message)
            heard = await socket.hear()
            codes.append(heard["problem"]["code"] if heard["type"] == "problem" else heard["records"][0]["error"]["code"])

    assert codes == ["invalid_request", "invalid_request", "topic_not_found", "invalid_request", "invalid_request"]


@on_a_loop
async def test_a_page_of_another_origin_may_not_open_a_socket(gateway: GatewayThread) -> None:
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
            await session.ws_connect(f"{gateway.url}/ws", origin="https://evil.example")
        async with session.ws_connect(f"{gateway.url}/ws", origin=gateway.url):
            pass

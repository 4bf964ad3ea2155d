"""The simulated network keeps TCP's promises, and no others."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from simulation.world.loop import SimulatedLoop
from simulation.world.machine import Machine
from simulation.world.network import DEAD_PEER_S, SimulatedNetwork


class Recorder(asyncio.Protocol):
    """Remembers what it got, and when the end came."""

    def __init__(self) -> None:
        self.got = b""
        self.end: tuple[float, Exception | None] | None = None
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.got += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.end = (asyncio.get_running_loop().time(), exc)


class Pair:
    """A client and a server that are connected."""

    def __init__(self, seed: int) -> None:
        self.loop = SimulatedLoop(seed)
        self.network = SimulatedNetwork(self.loop)
        self.client_machine, self.server_machine = Machine("client"), Machine("server")
        self.client, self.server = Recorder(), Recorder()

    def run(self, story: Coroutine[Any, Any, None]) -> None:
        async def connected() -> None:
            await self.loop.start_on(self.server_machine, self._listen())
            await self.loop.start_on(self.client_machine, self._connect())
            await asyncio.sleep(0.1)
            await story

        self.loop.run(connected())

    async def _listen(self) -> None:
        await self.loop.create_server(lambda: self.server, "server", 1)

    async def _connect(self) -> None:
        await self.loop.create_connection(lambda: self.client, "server", 1)

    def send(self, data: bytes) -> None:
        self.loop.call_on(self.client_machine, 0.0, self.client.transport.write, data)


@pytest.mark.parametrize("seed", range(20))
def test_bytes_of_one_connection_arrive_in_order_and_without_gaps(seed: int) -> None:
    pair = Pair(seed)
    sent = b"".join(bytes([n]) * 7 for n in range(100))

    async def story() -> None:
        for start in range(0, len(sent), 50):
            pair.send(sent[start : start + 50])
            await asyncio.sleep(pair.loop.random.uniform(0, 0.002))
        await asyncio.sleep(1)

    pair.run(story())

    assert pair.server.got == sent


def test_what_was_sent_over_a_cut_link_arrives_when_the_link_heals_in_time() -> None:
    pair = Pair(1)

    async def story() -> None:
        pair.network.cut("client", "server")
        pair.send(b"late ")
        await asyncio.sleep(DEAD_PEER_S / 2)
        assert pair.server.got == b""
        pair.network.heal("client", "server")
        pair.send(b"but whole")
        await asyncio.sleep(1)

    pair.run(story())

    assert pair.server.got == b"late but whole"
    assert pair.server.end is None


def test_a_link_that_stays_cut_ends_the_connection_at_both_ends() -> None:
    pair = Pair(1)

    async def story() -> None:
        pair.network.cut("client", "server")
        pair.send(b"lost")
        await asyncio.sleep(DEAD_PEER_S + 1)

    pair.run(story())

    assert pair.server.got == b""
    assert pair.client.end is not None
    assert pair.server.end is not None


def test_the_other_direction_of_a_cut_link_still_works() -> None:
    pair = Pair(1)

    async def story() -> None:
        pair.network.cut("server", "client")
        pair.send(b"one way")
        await asyncio.sleep(1)

    pair.run(story())

    assert pair.server.got == b"one way"


@pytest.mark.parametrize(("silently", "least_s"), [(True, DEAD_PEER_S - 0.01), (False, 0.0)])
def test_a_peer_that_lost_its_power_is_missed_later_than_one_whose_process_died(silently: bool, least_s: float) -> None:
    pair = Pair(1)
    crashed_at = 0.0

    async def story() -> None:
        nonlocal crashed_at
        crashed_at = pair.loop.now
        pair.loop.crash(pair.server_machine)
        pair.network.crash(pair.server_machine, silently=silently)
        await asyncio.sleep(DEAD_PEER_S + 1)

    pair.run(story())

    assert pair.client.end is not None
    waited = pair.client.end[0] - crashed_at
    assert least_s <= waited <= least_s + 0.1
    assert pair.server.end is None, "what belongs to a machine that crashed never runs"


def test_a_machine_that_stands_still_gets_everything_when_it_goes_on() -> None:
    pair = Pair(1)

    async def story() -> None:
        pair.loop.pause(pair.server_machine)
        pair.send(b"patience")
        await asyncio.sleep(1)
        assert pair.server.got == b""
        pair.loop.resume(pair.server_machine)
        await asyncio.sleep(0.1)

    pair.run(story())

    assert pair.server.got == b"patience"


def test_clocks_of_machines_run_at_their_own_rate_and_timers_follow_them() -> None:
    loop = SimulatedLoop(1)
    slow = Machine("slow", clock_rate=0.5)

    async def nap() -> tuple[float, float]:
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(1)
        return asyncio.get_running_loop().time() - began, loop.now

    async def story() -> tuple[float, float]:
        return await loop.start_on(slow, nap())

    by_its_clock, by_the_world = loop.run(story())

    assert by_its_clock == pytest.approx(1)
    assert by_the_world == pytest.approx(2)

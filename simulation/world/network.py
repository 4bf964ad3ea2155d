"""A network without sockets: bytes arrive late, in pieces, or never; links are cut in one direction or both.

Bytes of one connection arrive in order and without gaps, as TCP promises; different connections overtake each other.  What is
sent over a cut link waits, and goes on when the link heals in time; else the connection ends.  A connection whose peer lost its
power learns of it only after a while, as in life; one whose peer's process died learns of it at once.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from simulation.rules.tally import Fault
from simulation.world.loop import SimulatedLoop
from simulation.world.machine import Machine

DELAY_S = (0.0002, 0.003)
WRITE_HIGH_WATER = 65_536
# How long a connection attempt into the void takes to fail, and how long a dead or unreachable peer goes unnoticed.
CONNECT_TIMEOUT_S = 3.0
DEAD_PEER_S = 5.0
# One write in so many arrives in two pieces.
SPLIT_ONE_IN = 8

Address = tuple[str, int]


class Listener:
    """What `create_server` returns."""

    def __init__(
        self, network: "SimulatedNetwork", machine: Machine, address: tuple[str, int], factory: Callable[[], Any]
    ) -> None:
        self._network = network
        self._address = address
        self.machine = machine
        self.factory = factory
        self.is_open = False
        self.sockets = [self]

    def getsockname(self) -> tuple[str, int]:
        return self._address

    async def start_serving(self) -> None:
        self.is_open = True

    def close(self) -> None:
        if self._network.listeners.get(self._address) is self:
            del self._network.listeners[self._address]

    async def wait_closed(self) -> None:
        return


class SimulatedTransport(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network: "SimulatedNetwork", machine: Machine, address: tuple[str, int]) -> None:
        super().__init__({"peername": address})
        self._network = network
        self.machine = machine
        self.peer: SimulatedTransport
        self.protocol: Any = None
        self.is_lost = False
        self._is_closing = False
        self._reading_paused = False
        self._arrived: list[bytes] = []
        self._in_flight = 0
        self._writing_paused = False
        # What is on its way here, in order; None is the end.
        self.under_way: deque[bytes | None] = deque()
        # When the last thing sent arrives at the peer, and what could not be sent because the link was cut.
        self.last_arrival = 0.0
        self.held_back: list[bytes | None] = []

    # -- what protocols use

    def write(self, data: Any) -> None:
        if self._is_closing or not data:
            return
        self._in_flight += len(data)
        self._network.send(self, bytes(data))
        if self._in_flight > WRITE_HIGH_WATER and not self._writing_paused:
            self._writing_paused = True
            self.protocol.pause_writing()

    def writelines(self, list_of_data: Sequence[Any]) -> None:  # type: ignore[override]
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._network.send(self, None)
            self._network.loop.call_on(self.machine, 0.0, self.lose, None)

    abort = close

    def is_closing(self) -> bool:
        return self._is_closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """What is on its way counts as taken by a socket up to the one limit there is; nothing is buffered before it."""

    def get_write_buffer_size(self) -> int:
        return self._in_flight if self._writing_paused else 0

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        self._reading_paused = False
        self._network.loop.call_on(self.machine, 0.0, self._hand_over)

    def is_reading(self) -> bool:
        return not self._reading_paused

    # -- what the network does, on this end's machine

    def arrive(self) -> None:
        data = self.under_way.popleft()
        if self.is_lost:
            return
        if data is None:
            self.lose(None)
            return
        self._arrived.append(data)
        self._hand_over()

    def on_delivered(self, size: int) -> None:
        self._in_flight -= size
        if self._writing_paused and self._in_flight <= WRITE_HIGH_WATER // 4 and not self.is_lost:
            self._writing_paused = False
            self.protocol.resume_writing()

    def lose(self, error: Exception | None) -> None:
        if not self.is_lost:
            self.is_lost = self._is_closing = True
            self._network.forget(self)
            self.protocol.connection_lost(error)

    def _hand_over(self) -> None:
        while self._arrived and not self._reading_paused and not self.is_lost:
            data = self._arrived.pop(0)
            if isinstance(self.protocol, asyncio.BufferedProtocol):
                self._hand_into_buffer(data)
            else:
                self.protocol.data_received(data)
            self._network.acknowledge(self.peer, len(data))

    def _hand_into_buffer(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest and not self.is_lost:
            buffer = self.protocol.get_buffer(len(rest))
            size = min(len(buffer), len(rest))
            buffer[:size] = rest[:size]
            self.protocol.buffer_updated(size)
            rest = rest[size:]


class SimulatedNetwork:
    """Machines, the addresses they listen on, and the links between them."""

    def __init__(self, loop: SimulatedLoop, *, delay_s: tuple[float, float] = DELAY_S) -> None:
        self.loop = loop
        loop.network = self
        self.delay_s = delay_s
        self.listeners: dict[tuple[str, int], Listener] = {}
        # (from, to) names of machines between which nothing passes.
        self.cuts: set[tuple[str, str]] = set()
        self._ports = iter(range(40_000, 65_535))
        # Dictionaries, since the order of a set of objects differs from run to run.
        self._transports: dict[SimulatedTransport, None] = {}
        self._held: dict[SimulatedTransport, float] = {}
        # From machine to machine: when the last of all that was sent so far arrives.
        self._last_arrivals: dict[tuple[str, str], float] = {}

    # -- faults

    def cut(self, source: str, target: str) -> None:
        """Nothing passes from source to target any more; the other direction still works."""
        self.cuts.add((source, target))

    def heal(self, source: str, target: str) -> None:
        """What waited for this direction of a link goes on."""
        self.cuts.discard((source, target))
        self._release()

    def heal_all(self) -> None:
        self.cuts.clear()
        self._release()

    def passes(self, source: str, target: str) -> bool:
        return (source, target) not in self.cuts

    def note_cut(self, source: str, target: str) -> None:
        """A cut has held something up."""
        self.loop.tally[Fault.ONE_WAY_CUT if self.passes(target, source) else Fault.PARTITION] += 1

    def crash(self, machine: Machine, *, silently: bool) -> None:
        """A machine is gone.  Silently: its power failed; otherwise its process died and the system closes its sockets."""
        self.listeners = {address: entry for address, entry in self.listeners.items() if entry.machine is not machine}
        for transport in [transport for transport in self._transports if transport.machine is machine]:
            self.forget(transport)
            delay = DEAD_PEER_S if silently or not self.passes(machine.name, transport.peer.machine.name) else self.delay()
            error = ConnectionResetError("the peer is gone")
            self.loop.call_on(transport.peer.machine, delay, transport.peer.lose, error)

    # -- for the loop

    def listen(self, machine: Machine, factory: Callable[[], Any], host: str, port: int) -> Listener:
        address = (host, port or next(self._ports))
        if address in self.listeners:
            raise OSError(98, f"address {address} is in use")
        self.listeners[address] = listener = Listener(self, machine, address, factory)
        return listener

    async def connect(self, machine: Machine, factory: Callable[[], Any], host: str, port: int) -> tuple[SimulatedTransport, Any]:
        entry = self.listeners.get((host, port))
        if entry is not None and not self._both_ways(machine, entry.machine):
            await asyncio.sleep(CONNECT_TIMEOUT_S)
            raise TimeoutError(f"no answer from {host}:{port}")
        await asyncio.sleep(self.delay())
        entry = self.listeners.get((host, port))
        if entry is None or not entry.is_open:
            raise ConnectionRefusedError(f"nobody listens on {host}:{port}")
        near, far = SimulatedTransport(self, machine, (host, port)), SimulatedTransport(self, entry.machine, (machine.name, 0))
        near.peer, far.peer = far, near
        near.protocol, far.protocol = factory(), entry.factory()
        self._transports[near] = self._transports[far] = None
        self.loop.call_on(entry.machine, 0.0, far.protocol.connection_made, far)
        near.protocol.connection_made(near)
        return near, near.protocol

    def _both_ways(self, one: Machine, other: Machine) -> bool:
        return self.passes(one.name, other.name) and self.passes(other.name, one.name)

    # -- for transports

    def delay(self) -> float:
        return self.loop.random.uniform(*self.delay_s)

    def send(self, source: SimulatedTransport, data: bytes | None) -> None:
        """Bytes, or (None) the end of the connection, leave one end; they reach the other later, cut anywhere."""
        if source.machine.is_crashed:
            return
        if source.held_back or not self.passes(source.machine.name, source.peer.machine.name):
            if not source.held_back:
                self.note_cut(source.machine.name, source.peer.machine.name)
                self._held[source] = self.loop.now
                self.loop.call_on(None, DEAD_PEER_S, self._give_up, source, self.loop.now)
            source.held_back.append(data)
            return
        self._carry(source, data)

    def acknowledge(self, sender: SimulatedTransport, size: int) -> None:
        if not sender.machine.is_crashed:
            self.loop.call_on(sender.machine, self.delay(), sender.on_delivered, size)

    def forget(self, transport: SimulatedTransport) -> None:
        self._transports.pop(transport, None)
        if transport.machine.is_crashed:
            self._held.pop(transport, None)
            transport.held_back.clear()

    def _carry(self, source: SimulatedTransport, data: bytes | None) -> None:
        target = source.peer
        link = (source.machine.name, target.machine.name)
        for piece in self._pieces(data):
            source.last_arrival = max(self.loop.now + self.delay(), source.last_arrival)
            self.loop.tally[Fault.DELAY] += source.last_arrival > self.loop.now + DELAY_S[1]
            self.loop.tally[Fault.REORDERING] += source.last_arrival < self._last_arrivals.get(link, 0.0)
            self._last_arrivals[link] = max(source.last_arrival, self._last_arrivals.get(link, 0.0))
            target.under_way.append(piece)
            self._deliver_later(target, source.last_arrival - self.loop.now)

    def _deliver_later(self, target: SimulatedTransport, delay: float) -> None:
        self.loop.call_on(target.machine, delay, target.arrive)

    def _pieces(self, data: bytes | None) -> Sequence[bytes | None]:
        if data is None or len(data) < 2 or self.loop.random.randrange(SPLIT_ONE_IN):
            return (data,)
        cut = self.loop.random.randrange(1, len(data))
        return (data[:cut], data[cut:])

    def _release(self) -> None:
        for source in list(self._held):
            if self.passes(source.machine.name, source.peer.machine.name):
                del self._held[source]
                held_back, source.held_back = source.held_back, []
                for data in held_back:
                    self._carry(source, data)

    def _give_up(self, source: SimulatedTransport, since: float) -> None:
        """Nothing got through for too long: both ends are told, each by its own system."""
        if self._held.get(source) == since:
            del self._held[source]
            source.held_back.clear()
            for end in (source, source.peer):
                if not end.machine.is_crashed:
                    self.loop.call_on(end.machine, 0.0, end.lose, TimeoutError("the peer does not answer"))

"""A network without sockets: bytes arrive late, in pieces, or never; links are cut in one direction or both.

Bytes of one connection arrive in order, as TCP promises; different connections overtake each other.  A connection whose peer has
crashed or is unreachable learns of it only after a while, as in life.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from headrace.testing.simulation.loop import Machine, SimulatedLoop, current_machine

WRITE_HIGH_WATER = 65_536
# How long a connection attempt into the void takes to fail, and how long a dead peer goes unnoticed.
CONNECT_TIMEOUT_S = 3.0
DEAD_PEER_S = 5.0


class Listener:
    """What `create_server` returns."""

    def __init__(self, network: "SimulatedNetwork", address: tuple[str, int]) -> None:
        self._network = network
        self._address = address
        self.sockets = [self]

    def getsockname(self) -> tuple[str, int]:
        return self._address

    def close(self) -> None:
        self._network.listeners.pop(self._address, None)

    async def wait_closed(self) -> None:
        return


class SimulatedTransport(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network: "SimulatedNetwork", machine: Machine, address: tuple[str, int]) -> None:
        super().__init__({"peername": address})
        self._network = network
        self.machine = machine
        self.peer: SimulatedTransport | None = None
        self.protocol: Any = None
        self._is_closing = False
        self._is_lost = False
        self._reading_paused = False
        self._arrived: list[bytes] = []
        self._in_flight = 0
        self._writing_paused = False
        self._last_arrival = 0.0

    # -- what protocols use

    def write(self, data: Any) -> None:
        if not self._is_closing and data:
            self._in_flight += len(data)
            self._network.carry(self, bytes(data))
            if self._in_flight > WRITE_HIGH_WATER and not self._writing_paused:
                self._writing_paused = True
                self.protocol.pause_writing()

    def writelines(self, list_of_data: Sequence[Any]) -> None:  # type: ignore[override]
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._network.say_goodbye(self)

    abort = close

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        self._reading_paused = False
        self._network.loop.call_soon(self._hand_over)

    def is_reading(self) -> bool:
        return not self._reading_paused

    # -- what the network does

    def next_arrival(self, delay: float) -> float:
        """When something sent now arrives: never before what was sent earlier."""
        self._last_arrival = max(self._network.loop.time() + delay, self._last_arrival)
        return self._last_arrival

    def arrive(self, data: bytes) -> None:
        if not self._is_lost:
            self._arrived.append(data)
            self._hand_over()

    def on_delivered(self, size: int) -> None:
        self._in_flight -= size
        if self._writing_paused and self._in_flight <= WRITE_HIGH_WATER // 4 and not self._is_lost:
            self._writing_paused = False
            self.protocol.resume_writing()

    def lose(self, error: Exception | None) -> None:
        if not self._is_lost:
            self._is_lost = self._is_closing = True
            self.protocol.connection_lost(error)

    def _hand_over(self) -> None:
        while self._arrived and not self._reading_paused and not self._is_lost:
            data = self._arrived.pop(0)
            if isinstance(self.protocol, asyncio.BufferedProtocol):
                self._hand_into_buffer(data)
            else:
                self.protocol.data_received(data)
            if self.peer is not None:
                self._network.acknowledge(self.peer, len(data))

    def _hand_into_buffer(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest and not self._is_lost:
            buffer = self.protocol.get_buffer(len(rest))
            size = min(len(buffer), len(rest))
            buffer[:size] = rest[:size]
            self.protocol.buffer_updated(size)
            rest = rest[size:]


class SimulatedNetwork:
    """Machines, the addresses they listen on, and the links between them."""

    def __init__(self, loop: SimulatedLoop, *, delay_s: tuple[float, float] = (0.0002, 0.003)) -> None:
        self.loop = loop
        loop.network = self
        self.delay_s = delay_s
        self.listeners: dict[tuple[str, int], tuple[Machine, Callable[[], Any], Any]] = {}
        # (from, to) names of machines between which nothing passes.
        self.cuts: set[tuple[str, str]] = set()
        self._ports = iter(range(40_000, 65_535))
        self._transports: set[SimulatedTransport] = set()

    # -- faults

    def cut(self, source: str, target: str) -> None:
        """Nothing passes from source to target any more; the other direction still works."""
        self.cuts.add((source, target))

    def isolate(self, name: str, others: Sequence[str]) -> None:
        for other in others:
            if other != name:
                self.cuts |= {(name, other), (other, name)}

    def heal(self) -> None:
        self.cuts.clear()

    def crash(self, machine: Machine) -> None:
        """A machine is gone: its sockets fall silent, and peers notice later."""
        machine.is_crashed = True
        self.listeners = {address: entry for address, entry in self.listeners.items() if entry[0] is not machine}
        for transport in list(self._transports):
            if transport.machine is machine:
                self._transports.discard(transport)
                if transport.peer is not None:
                    # A machine that restarts resets what it does not know; until then there is only silence.
                    self._in_name_of(transport.peer, DEAD_PEER_S, transport.peer.lose, ConnectionResetError("the peer is gone"))

    # -- for the loop

    def listen(self, machine: Machine, factory: Callable[[], Any], host: str, port: int) -> Listener:
        address = (host, port or next(self._ports))
        if address in self.listeners:
            raise OSError(98, f"address {address} is in use")
        listener = Listener(self, address)
        self.listeners[address] = (machine, factory, current_machine)
        return listener

    async def connect(self, machine: Machine, factory: Callable[[], Any], host: str, port: int) -> tuple[SimulatedTransport, Any]:
        entry = self.listeners.get((host, port))
        if entry is not None and not self._passes(machine, entry[0]):
            entry = None
            await asyncio.sleep(CONNECT_TIMEOUT_S)
            raise TimeoutError(f"no answer from {host}:{port}")
        await asyncio.sleep(self._delay())
        entry = self.listeners.get((host, port))
        if entry is None:
            raise ConnectionRefusedError(f"nobody listens on {host}:{port}")
        server, server_factory, _ = entry
        near, far = SimulatedTransport(self, machine, (host, port)), SimulatedTransport(self, server, (machine.name, 0))
        near.peer, far.peer = far, near
        near.protocol = factory()
        self._transports |= {near, far}
        self._in_name_of(far, 0.0, self._accept, far, server_factory)
        near.protocol.connection_made(near)
        return near, near.protocol

    def _accept(self, transport: SimulatedTransport, factory: Callable[[], Any]) -> None:
        transport.protocol = factory()
        transport.protocol.connection_made(transport)

    def carry(self, source: SimulatedTransport, data: bytes) -> None:
        """Bytes leave one end; they reach the other later, cut anywhere, unless the link is cut or the peer is gone."""
        target = source.peer
        assert target is not None
        if not self._passes(source.machine, target.machine):
            self._in_name_of(source, DEAD_PEER_S, source.lose, TimeoutError("the peer does not answer"))
            return
        for piece in self._pieces(data):
            self._in_name_of(target, target.next_arrival(self._delay()) - self.loop.time(), target.arrive, piece)

    def acknowledge(self, sender: SimulatedTransport, size: int) -> None:
        self._in_name_of(sender, self._delay(), sender.on_delivered, size)

    def say_goodbye(self, source: SimulatedTransport) -> None:
        self._transports.discard(source)
        self._in_name_of(source, 0.0, source.lose, None)
        target = source.peer
        if target is not None and self._passes(source.machine, target.machine):
            self._in_name_of(target, target.next_arrival(self._delay()) - self.loop.time(), self._peer_left, target)

    def _peer_left(self, transport: SimulatedTransport) -> None:
        self._transports.discard(transport)
        transport.lose(None)

    def _passes(self, source: Machine, target: Machine) -> bool:
        return (source.name, target.name) not in self.cuts and not target.is_crashed

    def _pieces(self, data: bytes) -> list[bytes]:
        if len(data) < 2 or self.loop.random.random() < 0.8:
            return [data]
        cut = self.loop.random.randrange(1, len(data))
        return [data[:cut], data[cut:]]

    def _delay(self) -> float:
        return self.loop.random.uniform(*self.delay_s)

    def _in_name_of(self, transport: SimulatedTransport, delay: float, callback: Callable[..., None], *args: Any) -> None:
        """Schedule something that happens on the machine that a transport belongs to."""
        token = current_machine.set(transport.machine)
        try:
            self.loop.call_later(delay, callback, *args)
        finally:
            current_machine.reset(token)

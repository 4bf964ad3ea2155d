"""A client's connection, on a socket that hands over everything it has until it is told to pause."""

import asyncio
import struct
import tracemalloc
from collections.abc import Iterator

import pytest

from headrace.broker.network import server as server_module
from headrace.broker.network.connection import BYTES_PER_TURN, Connection
from headrace.broker.network.pending_reply import PendingReply
from headrace.broker.network.server import Server
from headrace.host.disk import Buffer
from headrace.model.broker_settings import BrokerConfig


class Socket(asyncio.Transport):
    """Reads as libuv does: again and again in one turn of the loop, and first of all right after `connection_made`."""

    def __init__(self) -> None:
        super().__init__()
        self.is_reading_now = False
        self.pauses = 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        self.is_reading_now = False
        self.pauses += 1

    def resume_reading(self) -> None:
        self.is_reading_now = True

    def write(self, data: Buffer) -> None:
        pass

    def abort(self) -> None:
        pass

    close = abort

    def connect(self, connection: Connection) -> None:
        connection.connection_made(self)
        self.is_reading_now = True

    def offer(self, connection: Connection, data: bytes) -> int:
        """How many bytes are taken in this turn."""
        taken = 0
        while self.is_reading_now and taken < len(data):
            buffer = connection.get_buffer(-1)
            count = min(len(buffer), len(data) - taken)
            buffer[:count] = data[taken : taken + count]
            taken += count
            connection.buffer_updated(count)
        return taken


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def one_turn(loop: asyncio.AbstractEventLoop) -> None:
    loop.call_soon(loop.stop)
    loop.run_forever()


def skip(frame: Buffer, connection: Connection, reply: PendingReply) -> None:
    reply.skip()


def frames(size: int, count: int) -> bytes:
    return (struct.pack(">i", size) + bytes(size)) * count


@pytest.mark.parametrize("size", [1000, 900_000])
def test_a_flood_is_read_in_parts_so_that_others_have_their_turn(loop: asyncio.AbstractEventLoop, size: int) -> None:
    server = Server(BrokerConfig({"headrace.connection.requests.max": "1000000"}), skip, loop)
    connection, socket = Connection(server), Socket()
    socket.connect(connection)
    flood = frames(size, 20_000_000 // size)
    position = turns = 0
    while position < len(flood):
        taken = socket.offer(connection, flood[position:])
        assert 0 < taken < 2 * BYTES_PER_TURN
        position += taken
        turns += 1
        one_turn(loop)

    assert turns > 10


def test_what_is_sent_in_small_parts_is_hardly_ever_held_up(loop: asyncio.AbstractEventLoop) -> None:
    server = Server(BrokerConfig(), skip, loop)
    connection, socket = Connection(server), Socket()
    socket.connect(connection)
    request = frames(1000, 1)
    for _ in range(2000):
        assert socket.offer(connection, request) == len(request)
        one_turn(loop)

    assert socket.pauses <= 2000 * len(request) // BYTES_PER_TURN + 1


def test_who_is_turned_away_is_not_heard_and_holds_nothing(loop: asyncio.AbstractEventLoop) -> None:
    started: list[Buffer] = []
    server = Server(BrokerConfig(), lambda frame, connection, reply: started.append(frame), loop)
    server.connection_wait = lambda address: 60.0
    connection, socket = Connection(server), Socket()
    socket.connect(connection)
    flood = struct.pack(">i", 50_000_000) + bytes(5_000_000)
    socket.offer(connection, flood[:200_000])
    one_turn(loop)

    assert not socket.is_reading_now
    assert socket.offer(connection, flood) == 0
    assert (server.memory.held, connection.share.held, started) == (0, 0, [])
    assert connection.is_idle


def test_a_connection_that_is_idle_takes_less_than_a_kibibyte(loop: asyncio.AbstractEventLoop) -> None:
    server = Server(BrokerConfig(), skip, loop)
    Socket().connect(Connection(server))  # what the first one makes for all
    sockets = [Socket() for _ in range(100)]
    tracemalloc.start()
    try:
        for socket in sockets:
            socket.connect(Connection(server))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert taken < 100 * 1024


def test_those_who_stop_amid_large_requests_while_others_wait_are_cut_together(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one after the other it could only be seen by letting each have the turn and wait for more."""
    now = 1000.0
    monkeypatch.setattr(loop, "time", lambda: now)
    config = {"headrace.connections.bytes.max": str(1 << 20), "headrace.connection.slow.ms": "10000"}
    server = Server(BrokerConfig(config), skip, loop)
    connections = [Connection(server) for _ in range(6)]
    # What each has sent: the broker has not read all of it, as there is no room.
    sent = {connection: struct.pack(">i", 900_000) + bytes(600_000) for connection in connections}
    sockets = {connection: Socket() for connection in connections}
    for connection, socket in sockets.items():
        socket.connect(connection)
    cut: list[int] = []
    for _ in range(30):
        for _ in range(10):
            for connection, socket in sockets.items():
                sent[connection] = sent[connection][socket.offer(connection, sent[connection]) :]
            one_turn(loop)
        now += 1.0
        server._sweep()
        gone = [connection for connection in sockets if not connection.is_open]
        for connection in gone:
            del sockets[connection]
            connection.connection_lost(None)
        if gone:
            cut.append(len(gone))

    assert cut == [1, 5]
    assert (server.memory.held, server.memory.is_short) == (0, False)


def test_when_little_moves_after_much_did_what_was_freed_is_given_back_once(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "SWEEP_SECONDS", 0.001)
    server = Server(BrokerConfig(), skip, loop)
    connection, socket = Connection(server), Socket()
    socket.connect(connection)
    gave_back: list[str] = []
    looks = 0

    def quiet() -> None:
        gave_back.append("all")

    def count(now: float) -> None:
        nonlocal looks
        looks += 1

    monkeypatch.setattr(server.closings, "tell", count)
    server.on_quiet = quiet

    async def looked_at(times: int) -> None:
        sweeping = asyncio.ensure_future(server.sweep_for_ever())
        until = looks + times
        while looks < until:
            await asyncio.sleep(0)
        sweeping.cancel()

    loop.run_until_complete(looked_at(3))
    assert gave_back == []
    flood = frames(1000, 2 * server_module.BUSY_BYTES_MIN // 1000)
    while flood:
        flood = flood[socket.offer(connection, flood) :]
        one_turn(loop)
    loop.run_until_complete(looked_at(5))

    assert gave_back == ["all"]

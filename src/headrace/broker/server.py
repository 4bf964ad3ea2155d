"""The listening socket and all its connections: who is let in, who is sent away, and the memory they share."""

import asyncio
import logging
from collections.abc import Callable

from headrace.broker.connection import Connection, PendingReply
from headrace.host.disk import Buffer
from headrace.model.broker_settings import BrokerConfig

logger = logging.getLogger(__name__)

# Frames up to this size need no share of the common room: a connection may always hold one.
FREE_FRAME_BYTES = 65_536
# How long a frame may stand half received, or a reply half taken, without a byte moving.
STALL_SECONDS = 60.0
SWEEP_SECONDS = 5.0
BACKLOG = 4096

Start = Callable[[Buffer, Connection, PendingReply], None]


class Server:
    """Accepts connections and hands their requests to `start`."""

    def __init__(self, config: BrokerConfig, start: Start, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.start = start
        self.frame_bytes_max: int = config["socket.request.max.bytes"]
        self.requests_max: int = config["headrace.connection.requests.max"]
        self.reply_bytes_max: int = config["headrace.connection.reply.bytes.max"]
        self._connections_max: int = config["max.connections"]
        self._idle_seconds: float = config["connections.max.idle.ms"] / 1000
        self._room: int = config["queued.max.request.bytes"]
        self._waiting_for_room: dict[Connection, None] = {}
        self.connections: dict[Connection, None] = {}
        self._server: asyncio.AbstractServer | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Take the address, without letting anybody in yet; answer which it is."""
        self._server = await self.loop.create_server(lambda: Connection(self), host, port, backlog=BACKLOG, start_serving=False)
        bound: tuple[str, int] = self._server.sockets[0].getsockname()[:2]
        return bound

    async def open(self) -> None:
        """Let clients in."""
        assert self._server is not None, "listen first"
        await self._server.start_serving()
        self._sweeper = self.loop.call_later(SWEEP_SECONDS, self._sweep)

    def stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def close(self) -> None:
        """Refuse newcomers, then end every connection."""
        self.stop_listening()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self.connections):
            connection.close_quietly()
        # One turn, so that the sockets are closed before the loop may stop.
        await asyncio.sleep(0)

    def admit(self, connection: Connection) -> bool:
        if len(self.connections) >= self._connections_max:
            return False
        self.connections[connection] = None
        return True

    def forget(self, connection: Connection) -> None:
        self.connections.pop(connection, None)
        self._waiting_for_room.pop(connection, None)

    # -- room for large frames

    def reserve(self, size: int, connection: Connection) -> bool:
        """Set room aside for a frame of this size; False when the connection must wait for it."""
        if size <= FREE_FRAME_BYTES:
            return True
        if size > self._room:
            self._waiting_for_room[connection] = None
            return False
        self._room -= size
        self._waiting_for_room.pop(connection, None)
        return True

    def release(self, size: int) -> None:
        if size <= FREE_FRAME_BYTES:
            return
        self._room += size
        for connection in list(self._waiting_for_room):
            self.loop.call_soon(connection.on_room)

    # -- those who do nothing

    def _sweep(self) -> None:
        now = self.loop.time()
        for connection in list(self.connections):
            silent = now - connection.last_active
            if silent > STALL_SECONDS and connection.has_partial_frame:
                connection.close(f"it left a request unfinished for {silent:.0f} s")
            elif silent > STALL_SECONDS and connection.is_stuck_writing:
                connection.close(f"it did not read its replies for {silent:.0f} s")
            elif silent > self._idle_seconds and connection.is_idle:
                connection.close_quietly()
        self._sweeper = self.loop.call_later(SWEEP_SECONDS, self._sweep)

"""The listening sockets and all its connections: who is let in, who is sent away, and the memory they share."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable

from headrace.broker.metrics.figures import NetworkFigures
from headrace.broker.network.closings import Closings
from headrace.broker.network.connection import STALLED, Connection
from headrace.broker.network.memory_account import MemoryAccount
from headrace.broker.network.pending_reply import PendingReply
from headrace.broker.network.secure_connection import SecureConnection
from headrace.broker.sign_in.sign_in import SignIns
from headrace.broker.tls.listening import BACKLOG, TlsListening
from headrace.broker.tls.tls import Tls
from headrace.host.disk import Buffer
from headrace.model.broker_settings import BrokerConfig
from headrace.model.listeners import Address, Listener

logger = logging.getLogger(__name__)

SWEEP_SECONDS = 5.0
# How often those who are too slow are looked for while others wait for memory.
SHORT_SWEEP_SECONDS = 1.0
# As much as moves between two looks where requests and replies are large, or many.
BUSY_BYTES_MIN = 4 * 1024 * 1024
# How long those who speak TLS have to take leave when the broker stops.
LEAVE_SECONDS_MAX = 1.0
LEAVE_LOOK_SECONDS = 0.01

Start = Callable[[Buffer, Connection, PendingReply], None]


class Server:
    """Accepts connections and hands their requests to `start`."""

    def __init__(
        self,
        config: BrokerConfig,
        start: Start,
        loop: asyncio.AbstractEventLoop,
        tls: Tls | None = None,
        sign_ins: SignIns | None = None,
        *,
        figures: NetworkFigures | None = None,
        monotonic: Callable[[], float] | None = None,
    ) -> None:
        """`monotonic` is the clock by which requests are measured."""
        self.loop = loop
        self.figures = figures or NetworkFigures()
        self.monotonic = monotonic or loop.time
        self._tls = tls
        self._sign_ins = sign_ins
        self.start = start
        self.frame_bytes_max: int = config["socket.request.max.bytes"]
        self.requests_max: int = config["headrace.connection.requests.max"]
        self.reply_bytes_max: int = config["headrace.connection.reply.bytes.max"]
        self.connections_max: int = config["max.connections"]
        self._idle_seconds: float = config["connections.max.idle.ms"] / 1000
        requests_limit: int = config["queued.max.request.bytes"]
        self.memory = MemoryAccount(
            config["headrace.connections.bytes.max"],
            loop.call_soon,
            requests_limit=requests_limit if requests_limit > 0 else None,
        )
        # Bytes a second, and for how many seconds a connection may be slower.
        rate_min: int = config["headrace.connection.bytes.per.second.min"]
        self.slowest: tuple[float, float] = (rate_min, config["headrace.connection.slow.ms"] / 1000) if rate_min else STALLED
        self.connections: dict[Connection, None] = {}
        self.closings = Closings()
        self._servers: list[asyncio.Server | TlsListening] = []
        # In a thread: little has moved since much did.
        self.on_quiet: Callable[[], None] | None = None
        self._moved_bytes = 0
        self._was_busy = False
        # How long a connection from an address is left alone before it is turned away; 0 when it is welcome.
        self.connection_wait: Callable[[str], float] = lambda address: 0.0

    async def listen(self, listener: Listener) -> Address:
        """Take the listener's address, without letting anybody in yet; answer which it is."""
        host, port = listener.address
        try:
            server = await self.loop.create_server(
                self._maker(listener), host or "0.0.0.0", port, backlog=BACKLOG, start_serving=False
            )
        except socket.gaierror as error:
            raise socket.gaierror(error.errno, f"{host}: {error.strerror}") from None
        address = Address(*server.sockets[0].getsockname()[:2])
        self._servers.append(self._with_tls(listener, server) if listener.has_tls else server)
        return address

    def _maker(self, listener: Listener) -> Callable[[], Connection]:
        """What makes a connection for each who comes."""
        tls = self._tls.by_listener[listener.name] if self._tls is not None and listener.has_tls else None
        if listener.has_sasl:
            assert self._sign_ins is not None, "they are there where any listener has SASL"
            begin = self._sign_ins.at(listener)
            return lambda: SecureConnection(self, listener.name, tls, begin())
        if tls is not None:
            return lambda: SecureConnection(self, listener.name, tls, None)
        return lambda: Connection(self, listener.name)

    def _with_tls(self, listener: Listener, server: asyncio.Server) -> TlsListening:
        """Take over the sockets that were bound."""
        tls = self._tls
        assert tls is not None, "it is there where any listener has TLS"
        sockets = [socket.socket(fileno=os.dup(each.fileno())) for each in server.sockets]
        server.close()
        listening = TlsListening(
            listener.name,
            sockets,
            self._maker(listener),
            lambda: tls.by_listener[listener.name].contexts.for_clients,
            tls.handshakes,
            tls.scope,
            self.loop,
        )
        tls.listenings.append(listening)
        return listening

    async def open(self) -> None:
        """Let clients in."""
        assert self._servers, "listen first"
        for server in self._servers:
            await server.start_serving()

    def stop_listening(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()

    async def close(self) -> None:
        """Refuse newcomers, then end every connection."""
        self.stop_listening()
        if self._tls is not None:
            # Whoever still shakes hands would come in afterwards.
            await self._tls.scope.close()
        for connection in list(self.connections):
            connection.close_quietly()
        # One turn, so that the sockets are closed before the loop may stop.
        await asyncio.sleep(0)
        await self._end_tls()

    async def _end_tls(self) -> None:
        """Those who speak TLS take leave of each other, if that does not take long."""
        deadline = self.loop.time() + LEAVE_SECONDS_MAX
        while any(connection.has_tls for connection in self.connections) and self.loop.time() < deadline:
            await asyncio.sleep(LEAVE_LOOK_SECONDS)
        left = [connection for connection in self.connections if connection.has_tls]
        for connection in left:
            connection.abort()
        if left:
            await asyncio.sleep(LEAVE_LOOK_SECONDS)

    def admit(self, connection: Connection) -> bool:
        if len(self.connections) >= self.connections_max:
            return False
        self.connections[connection] = None
        self.figures.opened[connection.listener] += 1
        return True

    def forget(self, connection: Connection) -> None:
        self.connections.pop(connection, None)
        self.figures.on_closed(
            connection.figures.client_id,
            connection.principal.name,
            connection.figures.requests,
            connection.figures.received_bytes,
            connection.figures.sent_bytes,
        )

    # -- those who do nothing, or too little

    async def sweep_for_ever(self) -> None:
        while True:
            often = min(SWEEP_SECONDS, self.slowest[1] / 2)
            await asyncio.sleep(min(often, SHORT_SWEEP_SECONDS) if self.memory.is_short else often)
            self._sweep()
            self.closings.tell(self.loop.time())
            if self._has_become_quiet() and self.on_quiet is not None:
                await self.loop.run_in_executor(None, self.on_quiet)

    def _has_become_quiet(self) -> bool:
        figures = self.figures
        moved = figures.received_bytes + figures.sent_bytes
        moved += sum(each.figures.received_bytes + each.figures.sent_bytes for each in self.connections)
        was_busy, self._was_busy = self._was_busy, moved - self._moved_bytes > BUSY_BYTES_MIN
        self._moved_bytes = moved
        return was_busy and not self._was_busy

    def _sweep(self) -> None:
        now = self.loop.time()
        others_wait = self.memory.is_short
        self.memory.pass_reply_turns_on()
        has_stopped = False
        for connection in list(self.connections):
            if (offence := connection.offence(now, others_wait=others_wait)) is not None:
                has_stopped = has_stopped or connection.share.has_turn
                connection.close(offence)
            elif now - connection.last_active > self._idle_seconds and connection.is_idle:
                connection.close_quietly()
        if has_stopped:
            self._let_several_on()

    def _let_several_on(self) -> None:
        """One that had the turn amid its request stopped, and was cut.  Whether the next ones would go on can only be seen by
        reading what the kernel holds of theirs: that is tried of many at once, or else each would cost the others its time."""
        left = self.frame_bytes_max
        open_ones = [connection for connection in self.connections if connection.is_open]
        for connection in sorted(open_ones, key=lambda connection: not connection.share.has_turn):
            share = connection.share
            if share.is_in_line and connection.missing_bytes <= left:
                left -= connection.missing_bytes
                if not share.has_turn:
                    share.take_turn()

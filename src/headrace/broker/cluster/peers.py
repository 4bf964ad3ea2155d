"""Requests from this broker to others: one connection per peer, requests pipelined, every wait with a deadline.

What a peer does not answer in time, or answers with a broken frame, ends the connection; everybody who waits on it is told, and
the next request opens a new one.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from headrace.broker.sign_in.peer import PeerSignIn
from headrace.host.disk import Buffer
from headrace.wire.apis import ApiKey, messages_of
from headrace.wire.codec import decode
from headrace.wire.errors import WireError
from headrace.wire.framing import FrameSplitter, RequestHeader, read_response_header, request_frame
from headrace.wire.pieces import pieces_of

PEER = "broker"  # with its number, the client id by which a broker knows another
CONNECT_SECONDS_MAX = 5.0
REPLY_BYTES_MAX = 128 * 1024 * 1024

Resolve = Callable[[int], tuple[str, int] | None]


class PeerUnreachable(Exception):
    """The peer is not there, or went away before it answered: whether it did what was asked is unknown."""


class PeerConnection(asyncio.BufferedProtocol):
    """One connection to a peer.  Replies come in the order of the requests."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._splitter = FrameSplitter(REPLY_BYTES_MAX)
        self._waiting: deque[tuple[int, Any, int, asyncio.Future[Any]]] = deque()
        self._correlation_id = 0
        self.is_open = False
        self.good_until: float | None = None  # where this broker signed in for a while only

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.is_open = True

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        waiting, self._waiting = self._waiting, deque()
        for _, _, _, future in waiting:
            if not future.done():
                future.set_exception(PeerUnreachable(f"{self._name} closed the connection"))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._splitter.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        frames: list[Buffer] = []
        try:
            self._splitter.buffer_updated(nbytes, frames)
            for frame in frames:
                self._take(frame)
        except WireError:
            self.close()

    @property
    def last_request(self) -> str:
        own = self._transport.get_extra_info("sockname")
        return f"{own[0]}:{own[1]}/{self._correlation_id}" if own else f"unknown/{self._correlation_id}"

    def is_usable(self, now: float) -> bool:
        return self.is_open and (self.good_until is None or now < self.good_until)

    def close(self) -> None:
        self.is_open = False
        self._transport.abort()

    def send(self, request: Any, version: int, client_id: str) -> "asyncio.Future[Any]":
        """Send a request; the future is its reply, decoded."""
        self._correlation_id += 1
        header = RequestHeader(request.api.key, version, self._correlation_id, client_id)
        self._transport.writelines(request_frame(header, pieces_of(request, version)))
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((self._correlation_id, messages_of(ApiKey(request.api.key)).response, version, future))
        return future

    def _take(self, frame: Buffer) -> None:
        if not self._waiting:
            raise WireError("a reply that nobody asked for")
        expected, response, version, future = self._waiting.popleft()
        correlation_id, position = read_response_header(frame, response.api.key, version)
        if correlation_id != expected:
            raise WireError(f"reply {correlation_id} came where {expected} was due")
        if not future.done():
            future.set_result(decode(response, frame, version, position))


class Peers:
    """Connections to the other brokers, by broker id.  What has a purpose of its own has a connection of its
    own, so that long polls delay nothing else."""

    def __init__(
        self,
        client_id: str,
        resolve: Resolve,
        tls: Callable[[], ssl.SSLContext | None] = lambda: None,
        sign_in: PeerSignIn | None = None,
    ) -> None:
        """`tls` is how TLS is spoken to others at present, `sign_in` how this broker signs in; None where it does not."""
        self._client_id = client_id
        self._resolve = resolve
        self._tls = tls
        self._sign_in = sign_in
        self._connections: dict[tuple[int, str], tuple[tuple[str, int], PeerConnection]] = {}
        self._connecting: dict[tuple[int, str], asyncio.Lock] = {}

    async def call(self, broker_id: int, request: Any, version: int, *, timeout: float, purpose: str = "") -> Any:
        """Send a request to a broker and return its reply; PeerUnreachable when there is none in time."""
        connection = None
        try:
            async with asyncio.timeout(timeout):
                connection = await self._connection(broker_id, purpose)
                return await connection.send(request, version, self._client_id)
        except (TimeoutError, OSError) as error:
            if connection is not None:
                # A reply that comes later would be taken for the next one's.
                connection.close()
            raise PeerUnreachable(f"broker {broker_id} did not answer {type(request).__name__}: {error or 'time-out'}") from error

    def last_request(self, broker_id: int, purpose: str) -> str:
        """By what the peer knows the request sent to it last, in its logs and traces."""
        known = self._connections.get((broker_id, purpose))
        return "unknown" if known is None else known[1].last_request

    async def _connection(self, broker_id: int, purpose: str) -> PeerConnection:
        address = self._resolve(broker_id)
        if address is None:
            raise PeerUnreachable(f"broker {broker_id} is not registered")
        key = (broker_id, purpose)
        async with self._connecting.setdefault(key, asyncio.Lock()):
            known = self._connections.get(key)
            loop = asyncio.get_running_loop()
            if known is not None and known[0] == address and known[1].is_usable(loop.time()):
                return known[1]
            if known is not None:
                known[1].close()
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                _, connection = await loop.create_connection(
                    lambda: PeerConnection(f"broker {broker_id}"), *address, ssl=self._tls()
                )
                await self._introduce(connection, loop)
            self._connections[key] = (address, connection)
            return connection

    async def _introduce(self, connection: PeerConnection, loop: asyncio.AbstractEventLoop) -> None:
        if self._sign_in is None:
            return
        try:
            seconds = await self._sign_in(connection, self._client_id)
        except BaseException:
            connection.close()
            raise
        connection.good_until = None if seconds is None else loop.time() + seconds

    def close(self) -> None:
        for _, connection in self._connections.values():
            if connection.is_open:
                connection.close()
        self._connections.clear()

"""Sockets on which TLS is spoken from the first byte.

The sockets stay; who accepts on them is replaced when the certificates change, and taken away for a while when too many
handshakes are under way: newcomers then wait in the kernel.  Connections that are in notice neither.
"""

import asyncio
import logging
import socket
import ssl
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

logger = logging.getLogger(__name__)

HANDSHAKE_SECONDS_MAX: Final = 10.0
SHUTDOWN_SECONDS_MAX: Final = 5.0
HANDSHAKES_MAX: Final = 512


class Handshakes:
    """Those under way.  One that fails is let go by everybody, and so noticed."""

    def __init__(self, most: int = HANDSHAKES_MAX) -> None:
        self._most = most
        self._under_way: dict[weakref.ref[Any], None] = {}
        self.failed = 0
        self.on_room: Callable[[], None] = lambda: None

    @property
    def are_too_many(self) -> bool:
        return len(self._under_way) >= self._most

    def begin(self, connection: object) -> None:
        self._under_way[weakref.ref(connection, self._fail)] = None

    def succeed(self, connection: object) -> None:
        self._end(weakref.ref(connection, self._fail))

    def _fail(self, reference: "weakref.ref[Any]") -> None:
        if reference in self._under_way:
            self.failed += 1
            self._end(reference)

    def _end(self, reference: "weakref.ref[Any]") -> None:
        were_too_many = self.are_too_many
        self._under_way.pop(reference, None)
        if were_too_many:
            self.on_room()


class TlsListening:
    """One listener's sockets."""

    def __init__(
        self,
        name: str,
        sockets: Sequence[socket.socket],
        make_connection: Callable[[], asyncio.BaseProtocol],
        context: Callable[[], ssl.SSLContext],
        handshakes: Handshakes,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.name = name
        self.sockets = sockets
        self._make_connection = make_connection
        self._context = context
        self._handshakes = handshakes
        self._loop = loop
        self._accepting: list[asyncio.AbstractServer] = []
        self._is_open = False

    async def start_serving(self) -> None:
        """Let clients in; again, with the certificates that there are now.  Nobody waits in between."""
        self._is_open = True
        before, context = self._accepting, self._context()
        self._accepting = [
            await self._loop.create_server(
                self._accept,
                sock=each.dup(),
                ssl=context,
                ssl_handshake_timeout=HANDSHAKE_SECONDS_MAX,
                ssl_shutdown_timeout=SHUTDOWN_SECONDS_MAX,
            )
            for each in self.sockets
        ]
        for server in before:
            server.close()

    async def renew(self) -> None:
        """Other certificates hold."""
        if self._is_open and not self._handshakes.are_too_many:
            await self.start_serving()

    async def go_on(self) -> None:
        """Let those in who wait, if there is room again."""
        if not self._accepting:
            await self.renew()

    def _accept(self) -> asyncio.BaseProtocol:
        connection = self._make_connection()
        self._handshakes.begin(connection)
        if self._handshakes.are_too_many:
            self._loop.call_soon(self._stop_accepting)
        return connection

    def _stop_accepting(self) -> None:
        if self._accepting:
            logger.warning("too many TLS handshakes are under way; newcomers at %s wait", self.name)
            self._stop()

    def close(self) -> None:
        self._is_open = False
        self._stop()
        for each in self.sockets:
            each.close()
        self.sockets = ()

    def _stop(self) -> None:
        servers, self._accepting = self._accepting, []
        for server in servers:
            server.close()

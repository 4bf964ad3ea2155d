"""A connection by TLS."""

import asyncio
from typing import TYPE_CHECKING, cast

from headrace.broker.network.connection import Connection
from headrace.broker.tls.tls import Tls
from headrace.broker.tls.transport import SlicedTransport
from headrace.model.access.principals import Subject

if TYPE_CHECKING:
    from headrace.broker.network.server import Server


class TlsConnection(Connection):
    """As any other, once the handshake is done."""

    __slots__ = ("_is_full", "_sliced", "_tls")

    def __init__(self, server: "Server", listener: str, tls: Tls) -> None:
        super().__init__(server, listener)
        self._tls = tls
        # Made after the handshake: one that fails leaves no circle behind.
        self._sliced: SlicedTransport | None = None
        self._is_full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._tls.handshakes.succeed(self)
        self._sliced = SlicedTransport(cast(asyncio.Transport, transport), self, self.loop)
        if self._is_full:
            self._sliced.fill()
        super().connection_made(self._sliced)
        try:
            principal = self._tls.principal_of(transport)
        except ValueError as error:
            self.close(f"its certificate names nobody: {error}")
            return
        if principal is not None:
            self.subject = Subject(principal, address=self.client_host)

    # The transport speaks to what cuts into slices, and that to the connection.

    def pause_writing(self) -> None:
        self._is_full = True
        if self._sliced is not None:
            self._sliced.fill()

    def resume_writing(self) -> None:
        self._is_full = False
        if self._sliced is not None:
            self._sliced.drain()

    def on_pause(self) -> None:
        super().pause_writing()

    def on_resume(self) -> None:
        super().resume_writing()

    def _has_stopped_sending(self) -> bool:
        """Cannot be seen: what it sent may lie between the socket and the connection, still encrypted."""
        return False

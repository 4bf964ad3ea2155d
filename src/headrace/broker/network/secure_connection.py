"""A connection by TLS, or one whose owner signs in, or both."""

import asyncio
from typing import TYPE_CHECKING, cast

from headrace.broker.network.connection import Connection
from headrace.broker.sign_in.sign_in import SignIn
from headrace.broker.tls.tls import TLS, ListenerTls
from headrace.broker.tls.transport import SlicedTransport
from headrace.model.access.principals import Subject
from headrace.security.audit.events import Origin
from headrace.security.authentication.exchange import Authenticated
from headrace.wire.framing import FrameSplitter

if TYPE_CHECKING:
    from headrace.broker.network.server import Server


class SecureConnection(Connection):
    """As any other, once the handshake is done and its owner is known."""

    __slots__ = ("_is_full", "_sliced", "_tls", "sign_in")

    def __init__(self, server: "Server", listener: str, tls: ListenerTls | None, sign_in: SignIn | None) -> None:
        super().__init__(server, listener)
        self._tls = tls
        self.sign_in = sign_in
        if sign_in is not None:
            self._splitter = FrameSplitter(min(sign_in.frame_bytes_max, server.frame_bytes_max))
        # Made after the handshake: one that fails leaves no circle behind.
        self._sliced: SlicedTransport | None = None
        self._is_full = False

    @property
    def has_tls(self) -> bool:
        return self._tls is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._tls is None:
            super().connection_made(transport)
            return
        self._sliced = SlicedTransport(cast(asyncio.Transport, transport), self, self.loop)
        if self._is_full:
            self._sliced.fill()
        super().connection_made(self._sliced)
        if self.sign_in is None:
            self._ask_certificate(self._tls, transport)

    def _ask_certificate(self, tls: ListenerTls, transport: asyncio.BaseTransport) -> None:
        try:
            principal = tls.principal_of(transport)
        except ValueError as error:
            origin = Origin(subject=self.subject, port=self.client_port, listener=self.listener)
            tls.on_refused(origin, TLS, f"its certificate names nobody: {error}")
            self.close(f"its certificate names nobody: {error}")
            return
        if principal is not None:
            self.subject = Subject(principal, address=self.client_host)

    def on_signed_in(self, identity: Authenticated) -> None:
        self.subject = Subject(identity.principal, identity.groups, self.client_host)
        self._splitter.allow(self._server.frame_bytes_max)

    def offence(self, now: float, *, others_wait: bool) -> str | None:
        if self.sign_in is not None and self.sign_in.takes_too_long(now):
            return "it did not sign in for a minute"
        return super().offence(now, others_wait=others_wait)

    # A TLS transport speaks to what cuts into slices, and that to the connection.

    def pause_writing(self) -> None:
        self._is_full = True
        if self._sliced is not None:
            self._sliced.fill()
        elif self._tls is None:
            super().pause_writing()

    def resume_writing(self) -> None:
        self._is_full = False
        if self._sliced is not None:
            self._sliced.drain()
        elif self._tls is None:
            super().resume_writing()

    def on_pause(self) -> None:
        super().pause_writing()

    def on_resume(self) -> None:
        super().resume_writing()

    def _has_stopped_sending(self) -> bool:
        """With TLS this cannot be seen: what it sent may lie between the socket and the connection, still encrypted."""
        return self._tls is None and super()._has_stopped_sending()

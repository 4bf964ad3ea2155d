"""Sockets on which TLS is spoken from the first byte.

Newcomers are accepted a few in each turn of the loop, so that a flood of handshakes takes turns with those who are in.  An
address begins only so many at a time, and its others wait for them; it has no more than half of the places that others leave,
and what it sends beyond that is turned away.  When all places are taken, newcomers wait in the kernel.  Each handshake uses the
certificates of its moment.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Final

from headrace.broker.supervision.supervision import Rule, Scope
from headrace.model.access.acls import block_of

logger = logging.getLogger(__name__)

HANDSHAKE_SECONDS_MAX: Final = 10.0
SHUTDOWN_SECONDS_MAX: Final = 5.0
HANDSHAKES_MAX: Final = 512
# Each takes up to a millisecond of computing when the first message is there.
AT_ONCE_PER_ADDRESS: Final = 32
ACCEPTED_PER_TURN: Final = 2
ACCEPT_AGAIN_SECONDS: Final = 1.0
BACKLOG: Final = 4096


class Handshakes:
    """Those under way, by address."""

    def __init__(self, most: int = HANDSHAKES_MAX) -> None:
        self._most = most
        self._by_address: dict[str, _Address] = {}
        self.under_way = 0
        self.failed = 0
        self.last_failure = ""  # from where, and why
        self.turned_away = 0
        # Hears of an address that could not agree with a listener on how to speak, or showed no certificate that is trusted.
        self.on_refused: Callable[[str, str, ssl.SSLError], None] = lambda address, listener, error: None
        self.on_room: Callable[[], None] = lambda: None

    @property
    def are_too_many(self) -> bool:
        return self.under_way >= self._most

    def begin(self, address: str) -> "asyncio.Semaphore | None":
        """A place for one more, with what it waits for; None when the address has enough of them."""
        block = block_of(address)
        known = self._by_address.get(block)
        if known is None:
            known = self._by_address[block] = _Address()
        # Half of what is left, so that a few addresses together do not have all.
        if known.places >= max(1, (self._most - self.under_way + known.places) // 2):
            self.turned_away += 1
            return None
        known.places += 1
        self.under_way += 1
        return known.at_once

    def on_failed(self, address: str, listener: str, error: BaseException) -> None:
        self.failed += 1
        self.last_failure = f"{address} at {listener}: {reason_of(error)}"
        if isinstance(error, ssl.SSLError):
            self.on_refused(address, listener, error)

    def end(self, address: str) -> None:
        were_too_many = self.are_too_many
        self.under_way -= 1
        block = block_of(address)
        known = self._by_address[block]
        known.places -= 1
        if not known.places:
            del self._by_address[block]
        if were_too_many:
            self.on_room()


def reason_of(error: BaseException) -> str:
    """OpenSSL's, without where in its source it was found."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    return str(error) or type(error).__name__


class _Address:
    """What one address has under way."""

    __slots__ = ("at_once", "places")

    def __init__(self) -> None:
        self.places = 0
        self.at_once = asyncio.Semaphore(AT_ONCE_PER_ADDRESS)


class TlsListening:
    """One listener's sockets."""

    def __init__(
        self,
        name: str,
        sockets: Sequence[socket.socket],
        make_connection: Callable[[], asyncio.BaseProtocol],
        context: Callable[[], ssl.SSLContext],
        handshakes: Handshakes,
        scope: Scope,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.name = name
        self.sockets = sockets
        self._make_connection = make_connection
        self._context = context
        self._handshakes = handshakes
        self._scope = scope
        self._loop = loop
        self._is_open = self._is_accepting = False

    async def start_serving(self) -> None:
        """Let clients in."""
        self._is_open = True
        for each in self.sockets:
            each.setblocking(False)
            each.listen(BACKLOG)
        self.go_on()

    def go_on(self) -> None:
        """Let those in who wait, if there is room."""
        if self._is_open and not self._is_accepting and not self._handshakes.are_too_many:
            self._is_accepting = True
            for each in self.sockets:
                self._loop.add_reader(each, self._accept, each)

    def _pause(self) -> None:
        if self._is_accepting:
            self._is_accepting = False
            for each in self.sockets:
                self._loop.remove_reader(each)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTED_PER_TURN):
            if self._handshakes.are_too_many:
                logger.warning("too many TLS handshakes are under way; newcomers at %s wait", self.name)
                self._pause()
                return
            try:
                newcomer, peer = listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                # Most likely there are no descriptors left, and trying on would take all of the loop's time.
                logger.error("nobody can be let in at %s for a while: %s", self.name, error)
                self._pause()
                self._loop.call_later(ACCEPT_AGAIN_SECONDS, self.go_on)
                return
            self._welcome(newcomer, peer[0])

    def _welcome(self, newcomer: socket.socket, address: str) -> None:
        at_once = self._handshakes.begin(address)
        if at_once is None:
            newcomer.close()
            return
        newcomer.setblocking(False)
        newcomer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = self._scope.spawn("handshake", self._shake_hands(newcomer, at_once), Rule.OWNER)
        task.add_done_callback(lambda task: self._on_done(task, newcomer, address))

    async def _shake_hands(self, newcomer: socket.socket, at_once: asyncio.Semaphore) -> None:
        # Who waits for others of its address has a place, too.
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS_MAX):
                await at_once.acquire()
        except TimeoutError:
            newcomer.close()
            raise
        try:
            await self._loop.connect_accepted_socket(
                self._make_connection,
                newcomer,
                ssl=self._context(),
                ssl_handshake_timeout=HANDSHAKE_SECONDS_MAX,
                ssl_shutdown_timeout=SHUTDOWN_SECONDS_MAX,
            )
        finally:
            at_once.release()

    def _on_done(self, task: "asyncio.Task[None]", newcomer: socket.socket, address: str) -> None:
        if task.cancelled():
            newcomer.close()
        elif (error := task.exception()) is not None:
            self._handshakes.on_failed(address, self.name, error)
        self._handshakes.end(address)

    def close(self) -> None:
        self._is_open = False
        self._pause()
        for each in self.sockets:
            each.close()
        self.sockets = ()

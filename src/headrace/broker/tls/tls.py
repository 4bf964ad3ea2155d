"""TLS on a broker: the certificates that hold now, the listeners that use them, and whoever looks after both."""

import asyncio
import logging
import os
import ssl
from datetime import UTC, datetime, timedelta
from typing import Final

from headrace.broker.tls.contexts import Contexts, certificate_names, load
from headrace.broker.tls.listening import Handshakes, TlsListening
from headrace.host.clock import Clock
from headrace.model.access.principals import Principal
from headrace.model.broker_settings import BrokerConfig
from headrace.model.settings import SettingError

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 2.0
EXPIRY_WARNED_BEFORE: Final = timedelta(days=30)
EXPIRY_WARNED_AGAIN_SECONDS: Final = 24 * 3600.0

Stamp = tuple[tuple[int, int, int], ...]


class Tls:
    """Made where any listener speaks TLS; raises SettingError when what is set cannot be used."""

    def __init__(self, config: BrokerConfig, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self._config = config
        self._clock = clock
        self._loop = loop
        self._files = [name for name in (config["ssl.keystore.location"], config["ssl.truststore.location"]) if name]
        self._stamp = _stamp(self._files)
        self.contexts: Contexts = load(config)
        asks_for_certificates = config["ssl.client.auth"] != "none"
        self._principal_of = certificate_names(config["ssl.principal.mapping.rules"]) if asks_for_certificates else None
        self.listenings: list[TlsListening] = []
        self.handshakes = Handshakes()
        self.handshakes.on_room = self._on_room
        self._has_room = asyncio.Event()
        self._failures_told = 0
        self._expiry_told_at: float | None = None

    def principal_of(self, transport: asyncio.BaseTransport) -> Principal | None:
        """Who somebody is by the certificate shown; None where nobody is asked for one.  Raises ValueError for nobody."""
        if self._principal_of is None:
            return None
        shown: ssl.SSLObject = transport.get_extra_info("ssl_object")
        return self._principal_of(shown.getpeercert(binary_form=True))

    def reasons(self) -> tuple[str, ...]:
        """What is not as it should be, in words for people."""
        expires_at = self.contexts.expires_at
        if expires_at is None:
            return ()
        now = datetime.fromtimestamp(self._clock.wall_ms() / 1000, UTC)
        if now >= expires_at:
            return (f"the TLS certificate expired at {expires_at:%Y-%m-%d %H:%M} UTC",)
        if now >= expires_at - EXPIRY_WARNED_BEFORE:
            return (f"the TLS certificate expires at {expires_at:%Y-%m-%d %H:%M} UTC",)
        return ()

    # -- looking after it

    async def tend_for_ever(self) -> None:
        while True:
            self._warn_of_expiry()
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._has_room.wait()
            except TimeoutError:
                await self._look_at_files()
                self._tell_failures()
            self._has_room.clear()
            for listening in self.listenings:
                await listening.go_on()

    def _on_room(self) -> None:
        self._has_room.set()

    async def _look_at_files(self) -> None:
        stamp = await self._loop.run_in_executor(None, _stamp, self._files)
        if stamp == self._stamp:
            return
        # Also when they cannot be used: they are looked at again when they change again.
        self._stamp = stamp
        try:
            self.contexts = await self._loop.run_in_executor(None, load, self._config)
        except SettingError as error:
            logger.error("the new certificates are not taken up, and the old ones stay: %s", error)
            return
        self._expiry_told_at = None
        for listening in self.listenings:
            await listening.renew()
        logger.info("new certificates hold for new connections")

    def _tell_failures(self) -> None:
        count, self._failures_told = self.handshakes.failed - self._failures_told, self.handshakes.failed
        if count:
            logger.warning("%d TLS %s failed", count, "handshake" if count == 1 else "handshakes")

    def _warn_of_expiry(self) -> None:
        now = self._loop.time()
        if self._expiry_told_at is None or now - self._expiry_told_at >= EXPIRY_WARNED_AGAIN_SECONDS:
            for reason in self.reasons():
                self._expiry_told_at = now
                logger.warning("%s", reason)


def _stamp(files: list[str]) -> Stamp:
    """What changes when a file does; a file that is not there has none."""
    return tuple(_stamp_of(name) for name in files)


def _stamp_of(name: str) -> tuple[int, int, int]:
    try:
        found = os.stat(name)
    except OSError:
        return (0, 0, 0)
    return found.st_mtime_ns, found.st_size, found.st_ino

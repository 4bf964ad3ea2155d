"""TLS on a broker: the certificates that hold now at each listener, and whoever looks after them."""

import asyncio
import logging
import os
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from headrace.broker.supervision.supervision import Scope
from headrace.broker.tls.contexts import Contexts, certificate_names, keystores, load
from headrace.broker.tls.listening import Handshakes, TlsListening, reason_of
from headrace.host.clock import Clock
from headrace.model.access.principals import Principal, Subject
from headrace.model.broker_settings import BrokerConfig
from headrace.model.listeners import Listener, Listeners
from headrace.model.live_config import LiveConfig
from headrace.model.settings import SettingError
from headrace.security.audit.events import Origin

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 2.0
EXPIRY_WARNED_BEFORE: Final = timedelta(days=30)
EXPIRY_WARNED_AGAIN_SECONDS: Final = 24 * 3600.0

TLS: Final = "TLS"
OnRefused = Callable[[Origin, str, str], None]
Stamp = tuple[tuple[str, int, int, int], ...]


class ListenerTls:
    """One listener's certificates.  Raises SettingError when what is set cannot be used."""

    def __init__(self, listener: Listener, config: LiveConfig) -> None:
        self.listener = listener
        self._config = config
        self._stamp = self._stamp_now()
        self.contexts: Contexts = self.loaded(config.now)
        now = config.now.of_listener(listener.name)
        asks = _client_auth(listener, config.now) != "none" and not listener.has_sasl
        self._principal_of = certificate_names(now["ssl.principal.mapping.rules"]) if asks else None
        # Hears of those who are not let in.
        self.on_refused: OnRefused = lambda origin, mechanism, reason: None
        # Hears of new certificates.
        self.on_renewed: Callable[[], None] = lambda: None

    @property
    def asks_for_names(self) -> bool:
        """Whether who comes may show a certificate, and is then known by its name."""
        return self._principal_of is not None

    @property
    def expires_at(self) -> datetime | None:
        """When the first of its certificates expires; None where nothing is installed that can tell."""
        return self.contexts.expires_at

    def principal_of(self, transport: asyncio.BaseTransport) -> Principal | None:
        """Who somebody is by the certificate shown; None where nobody is asked for one.  Raises ValueError for nobody."""
        if self._principal_of is None:
            return None
        shown: ssl.SSLObject = transport.get_extra_info("ssl_object")
        return self._principal_of(shown.getpeercert(binary_form=True))

    def loaded(self, config: BrokerConfig) -> Contexts:
        """What would hold with these settings.  Raises SettingError."""
        return load(config.of_listener(self.listener.name), _client_auth(self.listener, config))

    def look(self) -> Contexts | None:
        """What is to hold from now on, if files or settings have changed.  Raises SettingError."""
        stamp = self._stamp_now()
        if stamp == self._stamp:
            return None
        # Also when they cannot be used: they are looked at again when they change again.
        self._stamp = stamp
        return self.loaded(self._config.now)

    def _stamp_now(self) -> Stamp:
        """What changes when a file does, or another is set; a file that is not there has no times."""
        config = self._config.now.of_listener(self.listener.name)
        return tuple(_stamp_of(name) for name in (*keystores(config), config["ssl.truststore.location"]) if name)


def _client_auth(listener: Listener, config: BrokerConfig) -> str:
    """Who signs in otherwise shows no certificate, unless that is set for the very listener (KIP-684)."""
    own = config.only_of_listener(listener.name).get("ssl.client.auth")
    if listener.has_sasl:
        return own or "none"
    asked: str = config.of_listener(listener.name)["ssl.client.auth"]
    return asked


class Tls:
    """Made where any listener speaks TLS; raises SettingError when what is set cannot be used."""

    def __init__(
        self, config: LiveConfig, listeners: Listeners, clock: Clock, loop: asyncio.AbstractEventLoop, scope: Scope
    ) -> None:
        """`scope` holds the handshakes under way."""
        self.scope = scope
        self._clock = clock
        self._loop = loop
        self.by_listener = {each.name: ListenerTls(each, config) for each in listeners.each if each.has_tls}
        self.listenings: list[TlsListening] = []
        self.handshakes = Handshakes()
        self.handshakes.on_room = self._on_room
        self._failures_told = self._turned_away_told = 0
        self._expiry_told_at: float | None = None

    def tell_refused(self, hear: OnRefused) -> None:
        """Have somebody hear of all who are not let in: where they came from, by which mechanism, and why not."""
        for each in self.by_listener.values():
            each.on_refused = hear
        self.handshakes.on_refused = lambda address, listener, error: hear(
            Origin(subject=Subject(address=address), listener=listener), TLS, reason_of(error)
        )

    async def check(self, listener: str, config: BrokerConfig) -> None:
        """Whether a listener could work with these settings.  Raises SettingError."""
        found = self.by_listener.get(listener)
        if found is None:
            raise SettingError(f"there is no listener {listener} with TLS")
        await self._loop.run_in_executor(None, found.loaded, config)

    def reasons(self) -> tuple[str, ...]:
        """What is not as it should be, in words for people."""
        now = datetime.fromtimestamp(self._clock.wall_ms() / 1000, UTC)
        found: dict[datetime, list[str]] = {}
        for name, each in self.by_listener.items():
            if each.expires_at is not None and now >= each.expires_at - EXPIRY_WARNED_BEFORE:
                found.setdefault(each.expires_at, []).append(name)
        return tuple(
            f"the TLS certificate of {' and '.join(names)} {'expired' if now >= at else 'expires'} at {at:%Y-%m-%d %H:%M} UTC"
            for at, names in sorted(found.items())
        )

    # -- looking after it

    async def tend_for_ever(self) -> None:
        while True:
            self._warn_of_expiry()
            await asyncio.sleep(LOOK_SECONDS)
            for each in self.by_listener.values():
                await self._look_at(each)
            self._tell_failures()

    def _on_room(self) -> None:
        for listening in self.listenings:
            self._loop.call_soon(listening.go_on)

    async def _look_at(self, each: ListenerTls) -> None:
        try:
            contexts = await self._loop.run_in_executor(None, each.look)
        except SettingError as error:
            logger.error("the new certificates are not taken up, and the old ones stay: %s", error)
            return
        if contexts is not None:
            each.contexts = contexts
            each.on_renewed()
            self._expiry_told_at = None
            logger.info("new connections use the new certificates at %s", each.listener.name)

    def _tell_failures(self) -> None:
        count, self._failures_told = self.handshakes.failed - self._failures_told, self.handshakes.failed
        if count:
            handshakes = "handshake" if count == 1 else "handshakes"
            logger.warning("%d TLS %s failed, the last one from %s", count, handshakes, self.handshakes.last_failure)
        count, self._turned_away_told = self.handshakes.turned_away - self._turned_away_told, self.handshakes.turned_away
        if count:
            logger.warning("%d new connections were refused: their address had too many TLS handshakes under way", count)

    def _warn_of_expiry(self) -> None:
        now = self._loop.time()
        if self._expiry_told_at is None or now - self._expiry_told_at >= EXPIRY_WARNED_AGAIN_SECONDS:
            for reason in self.reasons():
                self._expiry_told_at = now
                logger.warning("%s", reason)


def _stamp_of(name: str) -> tuple[str, int, int, int]:
    try:
        found = os.stat(name)
    except OSError:
        return (name, 0, 0, 0)
    # Of ctime, as who may read it matters, too.
    return name, max(found.st_mtime_ns, found.st_ctime_ns), found.st_size, found.st_ino

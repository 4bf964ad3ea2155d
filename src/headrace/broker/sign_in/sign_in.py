"""Signing in at SASL listeners: what one connection has said so far, and what all of them share."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from headrace.broker.sign_in.credentials import Credentials
from headrace.broker.sign_in.fair_threads import FairThreads
from headrace.broker.sign_in.token_keys import TokenKeys
from headrace.controller.image import CurrentImage
from headrace.host.clock import Clock
from headrace.model.access.acls import block_of
from headrace.model.access.principals import NAME_CHARACTERS_MAX, USER, Principal, Subject
from headrace.model.access.scram import ScramMechanism
from headrace.model.broker_settings import BrokerConfig
from headrace.model.errors import ErrorCode
from headrace.model.listeners import Listener, read_listeners
from headrace.model.settings import SettingError
from headrace.security.audit.events import Origin
from headrace.security.authentication.exchange import Exchange, Refused
from headrace.security.authentication.failures import FailedSignIns
from headrace.security.authentication.session import HandshakeReply, SaslSession, State, TokenReply

logger = logging.getLogger(__name__)

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = "sasl.enabled.mechanisms"
# These compute for milliseconds.  They have threads of their own, so that a flood of them keeps nobody from the disk.
SLOW: Final = frozenset({PLAIN, OAUTHBEARER})
THREADS: Final = 2
SECONDS_MAX: Final = 60.0
MECHANISM_CHARACTERS_MAX: Final = 20  # as SASL has it (RFC 4422)

Mechanisms = dict[str, Callable[[], Exchange]]


class SignIns:
    """Of a broker that has SASL listeners.  Raises SettingError when what is set cannot work."""

    def __init__(
        self,
        config: BrokerConfig,
        image: CurrentImage,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        count: Callable[[str, bool], None] = lambda mechanism, succeeded: None,
    ) -> None:
        """`count` is told of each sign-in: by which mechanism, and whether it succeeded."""
        self.count = count
        self.loop = loop
        self.clock = clock
        self.credentials = Credentials(image)
        self._config = config
        enabled = [config.of_listener(each.name)[MECHANISMS] for each in read_listeners(config).each if each.has_sasl]
        self.token_keys = TokenKeys(config, clock, loop) if any(OAUTHBEARER in each for each in enabled) else None
        self.failures = FailedSignIns(config["connection.failed.authentication.delay.ms"] / 1000)
        self._threads = FairThreads(loop, THREADS)
        # Hears where somebody who failed came from, by which mechanism, and why.
        self.on_failed: Callable[[Origin, str, str], None] = lambda origin, mechanism, reason: None

    def close(self) -> None:
        self._threads.close()

    def at(self, listener: Listener) -> Callable[[], "SignIn"]:
        """What makes the state of each connection at this listener."""
        config = self._config.of_listener(listener.name)
        mechanisms = self._mechanisms(listener, config)
        lifetime_ms_max, frame_bytes_max = config["connections.max.reauth.ms"], config["sasl.server.max.receive.size"]
        return lambda: SignIn(self, SaslSession(mechanisms, lifetime_ms_max), frame_bytes_max)

    def _mechanisms(self, listener: Listener, config: BrokerConfig) -> Mechanisms:
        enabled: tuple[str, ...] = config[MECHANISMS]
        found: Mechanisms = {
            mechanism.title: self.credentials.scram(mechanism) for mechanism in ScramMechanism if mechanism.title in enabled
        }
        if PLAIN in enabled and (listener.has_tls or config["headrace.sasl.plain.without.tls"]):
            found[PLAIN] = self.credentials.plain
            if not listener.has_tls:
                logger.warning("PLAIN at %s, without TLS: everybody on the way can read the passwords", listener.name)
        if self.token_keys is not None and OAUTHBEARER in enabled:
            found[OAUTHBEARER] = self.token_keys.exchange
        if not found:
            raise SettingError(
                f"{MECHANISMS}: nobody could sign in at {listener.name}; PLAIN needs TLS, or headrace.sasl.plain.without.tls=true"
            )
        return found

    async def computed(self, session: SaslSession, token: bytes, address: str) -> TokenReply:
        """What the session answers."""
        if session.mechanism in SLOW:
            return await self._threads.run(block_of(address), lambda: session.on_token(token, self.clock.wall_ms()))
        return session.on_token(token, self.clock.wall_ms())

    async def wait_for_turn(self, address: str) -> None:
        """Return when somebody from an address may sign in: at once, unless others from there failed often."""
        if (seconds := self.failures.wait(address, self.loop.time())) > 0:
            await asyncio.sleep(seconds)

    async def punish(self, refused: Refused, origin: Origin, mechanism: str | None) -> None:
        """Return after a while, for a sign-in that failed."""
        now, address = self.loop.time(), origin.subject.address
        self.on_failed(_as_claimed(origin, refused.claimed), mechanism or "", refused.reason)
        seconds = self.failures.on_failure(address, now)
        count = self.failures.recent(address, now)
        logger.warning(
            "a sign-in from %s by %s failed (%d %s from this address in the last minute): %s",
            address,
            mechanism,
            count,
            "failure" if count == 1 else "failures",
            refused.reason,
        )
        await asyncio.sleep(seconds)


def _as_claimed(origin: Origin, name: str) -> Origin:
    """Where somebody came from, under the name that they gave; of one that is too long for any, as much as a name may have."""
    given = Principal(USER, name[:NAME_CHARACTERS_MAX])
    return replace(origin, subject=Subject(given, address=origin.subject.address)) if name else origin


class SignIn:
    """One connection's."""

    __slots__ = ("_began_at", "_common", "_has_turn", "frame_bytes_max", "is_busy", "session")

    def __init__(self, common: SignIns, session: SaslSession, frame_bytes_max: int) -> None:
        self._common = common
        self.frame_bytes_max = frame_bytes_max  # how much is read of somebody unknown
        self.session = session
        self.is_busy = False
        self._has_turn = False
        self._began_at = common.loop.time()

    @property
    def is_over(self) -> bool:
        """Whether the connection ends after the reply."""
        return self.session.state is State.ENDED

    @property
    def takes_bare_tokens(self) -> bool:
        """Whether what comes next is a token without a header: after the oldest handshake."""
        return self.session.tokens_are_bare and self.session.state is State.CHOSEN

    def may_ask(self) -> bool:
        """Whether anything but signing in is answered now."""
        return self.session.may_ask(self._common.clock.wall_ms())

    def takes_too_long(self, now: float) -> bool:
        return self.session.identity is None and now - self._began_at > SECONDS_MAX

    def on_handshake(self, mechanism: str, version: int, origin: Origin) -> HandshakeReply:
        reply = self.session.on_handshake(mechanism, version, self._common.clock.wall_ms())
        # Without a name it is a question, as a gateway asks it when its readiness is looked at, and nobody's sign-in.
        if reply.error_code is not ErrorCode.NONE and mechanism:
            self._common.on_failed(
                origin, mechanism[:MECHANISM_CHARACTERS_MAX], f"the choice of the mechanism was refused: {reply.error_code.name}"
            )
        return reply

    async def on_token(self, token: bytes, origin: Origin) -> TokenReply:
        """Answer one message.  A reply that refuses comes late; who comes from where many failed waits for the first one, too."""
        # Whoever sends anything meanwhile is cut off.
        self.is_busy = True
        try:
            address = origin.subject.address
            if not self._has_turn:
                self._has_turn = True  # for as long as the connection lasts
                await self._common.wait_for_turn(address)
            reply = await self._common.computed(self.session, token, address)
            if reply.refused is not None:
                self._common.count(self.session.mechanism or "", False)
                await self._common.punish(reply.refused, origin, self.session.mechanism)
            elif self.session.state is State.SIGNED_IN:
                self._common.count(self.session.mechanism or "", True)
            return reply
        finally:
            self.is_busy = False

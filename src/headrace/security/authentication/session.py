"""Signing in on one connection: SaslHandshake, then SaslAuthenticate until it is done, and again before it expires (KIP-368).

Until somebody is signed in, and once the session has expired, only what serves to sign in is answered.  Who signs in again has to
be the same and to use the same mechanism.  A refusal ends the connection after its reply.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import Enum
from typing import Final

from headrace.declaring import dataclass
from headrace.model.access.principals import Principal
from headrace.model.errors import ErrorCode
from headrace.security.authentication.exchange import Authenticated, Challenge, Exchange, Refused

# As Kafka: whoever signs in again sooner is out of order.
AGAIN_AFTER_MS: Final = 1000


class NotSignedInError(Exception):
    """Something was asked that is only answered to those who have signed in.  The connection is closed."""


class State(Enum):
    """Where a connection is.  SIGNED_IN may sign in again, and so go back to CHOSEN."""

    OPEN = "open"  # nothing yet, perhaps ApiVersions
    CHOSEN = "chosen"  # a mechanism is chosen, and its exchange goes on
    SIGNED_IN = "signed in"
    ENDED = "ended"  # the reply is the last one


TRANSITIONS: Final[dict[State, frozenset[State]]] = {
    State.OPEN: frozenset({State.CHOSEN, State.ENDED}),
    State.CHOSEN: frozenset({State.SIGNED_IN, State.ENDED}),
    State.SIGNED_IN: frozenset({State.CHOSEN, State.ENDED}),
    State.ENDED: frozenset({State.ENDED}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HandshakeReply:
    """What SaslHandshake is answered.  `mechanisms` are those that are enabled, whatever was asked for."""

    error_code: ErrorCode
    mechanisms: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenReply:
    """What SaslAuthenticate is answered.  `refused` is for the audit, once for each sign-in, and never for the client."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0
    refused: Refused | None = None


class SaslSession:
    """Who a connection belongs to.  `mechanisms` make an exchange each; a lifetime of 0 is none."""

    def __init__(self, mechanisms: Mapping[str, Callable[[], Exchange]], lifetime_ms_max: int = 0) -> None:
        self._mechanisms = mechanisms
        self._lifetime_ms_max = lifetime_ms_max
        self._exchange: Exchange | None = None
        self._began_at_ms: int | None = None
        self.state = State.OPEN
        self.mechanism: str | None = None
        self.identity: Authenticated | None = None  # also while it is proven anew
        self.expires_at_ms: int | None = None
        self.tokens_are_bare = False  # after SaslHandshake v0 they come and go without a header

    @property
    def principal(self) -> Principal | None:
        return self.identity.principal if self.identity is not None else None

    def may_ask(self, now_ms: int) -> bool:
        """Whether anything but signing in is answered now."""
        return self.state is State.SIGNED_IN and (self.expires_at_ms is None or now_ms < self.expires_at_ms)

    def on_handshake(self, mechanism: str, version: int, now_ms: int) -> HandshakeReply:
        if not self._may_begin(version, now_ms):
            return self._refused_handshake(ErrorCode.ILLEGAL_SASL_STATE)
        make = self._mechanisms.get(mechanism)
        if make is None or (self.identity is not None and mechanism != self.mechanism):
            return self._refused_handshake(ErrorCode.UNSUPPORTED_SASL_MECHANISM)
        self._go(State.CHOSEN)
        self.mechanism = mechanism
        self.tokens_are_bare = version == 0
        self._exchange = make()
        self._began_at_ms = now_ms
        return HandshakeReply(error_code=ErrorCode.NONE, mechanisms=tuple(self._mechanisms))

    def on_token(self, token: bytes, now_ms: int) -> TokenReply:
        """One message of the client, from SaslAuthenticate or bare."""
        if self.state is not State.CHOSEN or self._exchange is None:
            message = "SaslAuthenticate is expected after SaslHandshake and until the end of the exchange only."
            return self._refused(Refused(message, "out of order"), ErrorCode.ILLEGAL_SASL_STATE)
        exchange = self._exchange
        was_told = exchange.failed is not None
        outcome = exchange.respond(token)
        match outcome:
            case Challenge(reply):
                # A failure counts now: whoever hangs up instead of saying that they heard has tried as well.
                return TokenReply(auth_bytes=reply, refused=exchange.failed)
            case Refused():
                refusal = self._refused(outcome)
                return replace(refusal, refused=None) if was_told else refusal
            case Authenticated():
                return self._on_authenticated(outcome, now_ms)

    def _may_begin(self, version: int, now_ms: int) -> bool:
        if self.state is State.SIGNED_IN:
            return version > 0 and self._began_at_ms is not None and now_ms - self._began_at_ms >= AGAIN_AFTER_MS
        return self.state is State.OPEN

    def _on_authenticated(self, outcome: Authenticated, now_ms: int) -> TokenReply:
        if self.identity is not None and self.identity.principal != outcome.principal:
            reason = f"{self.identity.principal.shown} signed in again as {outcome.principal.shown}"
            return self._refused(Refused("Cannot change principals during re-authentication.", reason))
        lifetime_ms = self._lifetime_ms(outcome, now_ms)
        if lifetime_ms is not None and lifetime_ms <= 0:
            return self._refused(Refused("Authentication failed: the credentials have expired.", "expired credentials"))
        self._go(State.SIGNED_IN)
        self._exchange = None
        self.identity = outcome
        self.expires_at_ms = None if lifetime_ms is None else now_ms + lifetime_ms
        return TokenReply(auth_bytes=outcome.reply, session_lifetime_ms=lifetime_ms or 0)

    def _lifetime_ms(self, outcome: Authenticated, now_ms: int) -> int | None:
        """The shorter of the credentials' life and of the session's; None when neither ends."""
        lifetimes = [self._lifetime_ms_max] if self._lifetime_ms_max > 0 else []
        if outcome.expires_at_ms is not None:
            lifetimes.append(outcome.expires_at_ms - now_ms)
        return min(lifetimes, default=None)

    def _refused_handshake(self, code: ErrorCode) -> HandshakeReply:
        self._end()
        return HandshakeReply(error_code=code, mechanisms=tuple(self._mechanisms))

    def _refused(self, refused: Refused, code: ErrorCode = ErrorCode.SASL_AUTHENTICATION_FAILED) -> TokenReply:
        self._end()
        return TokenReply(error_code=code, error_message=refused.message, refused=refused)

    def _end(self) -> None:
        self._go(State.ENDED)
        self._exchange = self.identity = None

    def _go(self, state: State) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state} does not lead to {state}"
        self.state = state

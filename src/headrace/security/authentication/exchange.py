"""One SASL exchange as a machine: the client's bytes in, an outcome out.

Whatever arrives, in whatever order, the machine answers: a challenge, a principal, or a refusal.  After either of the last two it
is over, and everything more is refused.  What a client is told of a refusal never says which half of its credentials was wrong;
the reason, for the audit, may.
"""

from abc import ABC, abstractmethod
from typing import Final

from headrace.declaring import dataclass
from headrace.model.access.principals import Principal

MESSAGE_BYTES_MAX: Final = 512 * 1024  # as Kafka's sasl.server.max.receive.size
# Of names and passwords.  What somebody unknown sends is held, several times over, for as long as they take to sign in.
SHORT_MESSAGE_BYTES_MAX: Final = 16 * 1024


@dataclass(frozen=True, slots=True)
class Challenge:
    """The exchange goes on: the client is to answer this."""

    reply: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Authenticated:
    """The client is who it says.  `reply` is the last word to it; the credentials hold until `expires_at_ms`."""

    principal: Principal
    groups: tuple[Principal, ...] = ()
    expires_at_ms: int | None = None
    reply: bytes = b""


@dataclass(frozen=True, slots=True)
class Refused:
    """`message` is for the client, `reason` for the audit and the log, and so is who the client said it is."""

    message: str
    reason: str
    claimed: str = ""


Outcome = Challenge | Authenticated | Refused


class RefusalError(Exception):
    """A step cannot go on."""

    def __init__(self, reason: str, message: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.message = message


class Exchange(ABC):
    """What all mechanisms share: the bound on messages, and the end."""

    message_bytes_max = MESSAGE_BYTES_MAX

    def __init__(self, mechanism: str) -> None:
        self.mechanism = mechanism
        self.claimed = ""  # the name that the client gave, as long as nothing proves it
        self.failed: Refused | None = None  # set as soon as it is so, where the client has yet to say that it heard
        self._over = False

    def respond(self, message: bytes) -> Outcome:
        """Take in one message of the client."""
        try:
            if self._over:
                raise RefusalError("a message after the end of the exchange")
            if len(message) > self.message_bytes_max:
                raise RefusalError(f"a message of {len(message)} bytes")
            outcome = self._step(message)
        except RefusalError as refusal:
            self._over = True
            return Refused(refusal.message or self.invalid_credentials, refusal.reason, self.claimed)
        self._over = isinstance(outcome, Authenticated)
        return outcome

    @property
    def invalid_credentials(self) -> str:
        """Kafka's sentence, the same whatever was wrong."""
        return f"Authentication failed during authentication due to invalid credentials with SASL mechanism {self.mechanism}"

    @abstractmethod
    def _step(self, message: bytes) -> Challenge | Authenticated:
        """The next step; raises RefusalError."""

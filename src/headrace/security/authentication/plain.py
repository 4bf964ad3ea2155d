"""SASL PLAIN (RFC 4616): `authorization id NUL user NUL password`, in one message.  For use over TLS."""

from collections.abc import Callable
from typing import Final

from headrace.model.access.principals import PrincipalError, user
from headrace.security.authentication.exchange import SHORT_MESSAGE_BYTES_MAX, Authenticated, Exchange, RefusalError

PLAIN: Final = "PLAIN"
INVALID: Final = "Authentication failed: Invalid username or password"


class PlainExchange(Exchange):
    """Asks `is_valid(user, password)`, which takes as long for a user that there is not."""

    message_bytes_max = SHORT_MESSAGE_BYTES_MAX

    def __init__(self, is_valid: Callable[[str, str], bool]) -> None:
        super().__init__(PLAIN)
        self._is_valid = is_valid

    def _step(self, message: bytes) -> Authenticated:
        try:
            parts = message.decode().split("\0")
        except UnicodeDecodeError:
            raise RefusalError("the message is not UTF-8", INVALID) from None
        if len(parts) != 3:
            raise RefusalError(f"{len(parts)} parts instead of 3", "Invalid SASL/PLAIN response: expected 3 tokens")
        authorization_id, name, password = parts
        self.claimed = name
        if not name or not password:
            raise RefusalError("an empty user name or password", INVALID)
        if not self._is_valid(name, password):
            raise RefusalError("the user or the password is wrong", INVALID)
        if authorization_id not in ("", name):
            raise RefusalError("an authorization id that is not the user name", INVALID)
        try:
            return Authenticated(principal=user(name))
        except PrincipalError as error:
            raise RefusalError(str(error), INVALID) from None

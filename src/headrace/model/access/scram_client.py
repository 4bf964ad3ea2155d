"""SCRAM, the side of whoever signs in (RFC 5802), as values: no password is sent, and the other side has to know it as well."""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from typing import Final

from headrace.model.access.scram import ITERATIONS_MIN, ScramMechanism

ACCEPTED_ITERATIONS_MAX: Final = 1_000_000  # more would only be to keep us busy
_SERVER_FIRST: Final = re.compile(r"r=([^,]+),s=([A-Za-z0-9+/=]+),i=([0-9]{1,7})")


class NotTheirAnswer(ValueError):
    """What came is no answer of somebody who knows the user's keys."""


def escaped(name: str) -> str:
    """A user name as it stands in a message."""
    return name.replace("=", "=3D").replace(",", "=2C")


class ScramClient:
    """One exchange: `first` is sent, its answer goes to `take_challenge`, `final` is sent, its answer goes to `verify`."""

    def __init__(self, mechanism: ScramMechanism, user: str) -> None:
        self._digest = mechanism.digest
        self._nonce = secrets.token_urlsafe(24)
        self._bare = f"n={escaped(user)},r={self._nonce}"
        self.first = f"n,,{self._bare}".encode()

    def take_challenge(self, message: bytes) -> tuple[bytes, int]:
        """The salt and the iterations with which the password is to be salted."""
        text = message.decode(errors="replace")
        found = _SERVER_FIRST.fullmatch(text)
        if found is None or not found[1].startswith(self._nonce):
            raise NotTheirAnswer("its challenge is not an answer to our message")
        if not ITERATIONS_MIN <= int(found[3]) <= ACCEPTED_ITERATIONS_MAX:
            raise NotTheirAnswer(f"it asks for {found[3]} iterations")
        try:
            salt = base64.b64decode(found[2], validate=True)
        except binascii.Error:
            raise NotTheirAnswer("its salt is not base64") from None
        self._without_proof = f"c=biws,r={found[1]}"
        self._signed = f"{self._bare},{text},{self._without_proof}".encode()
        return salt, int(found[3])

    def final(self, salted: bytes) -> bytes:
        """The proof."""
        self._server_key = hmac.digest(salted, b"Server Key", self._digest)
        key = hmac.digest(salted, b"Client Key", self._digest)
        signature = hmac.digest(hashlib.new(self._digest, key).digest(), self._signed, self._digest)
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
        return f"{self._without_proof},p={proof}".encode()

    def verify(self, message: bytes) -> None:
        expected = b"v=" + base64.b64encode(hmac.digest(self._server_key, self._signed, self._digest))
        if not hmac.compare_digest(message, expected):
            raise NotTheirAnswer("it does not know the password itself")

"""Tokens for OAUTHBEARER: where they come from, and how long each is good."""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headrace.client.errors import InvalidArgument
from headrace.client.security.secret_files import first_line

# Of a token that does not say when it expires: it is asked for again when most of this has passed.
LIFE_UNKNOWN_S: Final = 300.0

TokenCall = Callable[[], str]


@dataclass(frozen=True, slots=True)
class TokenSource:
    """What librdkafka calls for a token, and our own connections, too.  It can be sent to other processes if `given` can."""

    given: str | TokenCall | None = field(default=None, repr=False)
    file: Path | None = None

    def __call__(self, config: str) -> tuple[str, float]:
        """A token, and when it expires, in seconds since 1970."""
        token = self._token()
        return token, _expiry(token)

    def _token(self) -> str:
        if self.file is not None:
            return first_line(self.file, "token_file")
        token = self.given() if callable(self.given) else self.given
        if not isinstance(token, str) or not token.strip():
            raise InvalidArgument("token gave no text; it is a token, or a function that returns one")
        return token.strip()


def _expiry(token: str) -> float:
    """What the token itself says, unchecked: that is the broker's to do."""
    try:
        _, body, _ = token.split(".")
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        return float(claims["exp"])
    except (ValueError, KeyError, TypeError, binascii.Error):
        return time.time() + LIFE_UNKNOWN_S

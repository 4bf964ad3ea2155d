"""Whether anybody listens at a bootstrap address, before the first answer.

librdkafka tries an address that refuses for as long as it may, which is half a minute of silence for somebody who has
forgotten to start a broker, or misspelt its name.  So until a broker has been reached once, we look for ourselves.  After that
a broker that is away is expected to come back, and is waited for.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable

from headrace.client.errors import BrokerTimeout

ATTEMPT_S = 1.0
AGAIN_S = 0.1
DEFAULT_PORT = 9092
_PROTOCOL = re.compile(r"^[A-Za-z_]+://")


class FirstContact:
    """Looks at most once every AGAIN_S, and no more once somebody was there."""

    def __init__(self, bootstrap: str, patience: float, unless_within: float | None = None) -> None:
        """What is given up by itself within a time that is no longer than our patience needs no looking."""
        self.bootstrap = bootstrap
        self.made = unless_within is not None and unless_within <= patience
        self.why: str | None = None  # nobody was there, when we last looked for as long as our patience lasts
        self._patience = patience
        self._since: float | None = None
        self._looked_at = 0.0

    def require(self, give_up: Callable[[], bool] = lambda: False) -> None:
        """Return when somebody listens; BrokerTimeout when nobody did for as long as our patience lasts."""
        self._since = None
        while not self.made and not give_up():
            if self.is_overdue():
                raise BrokerTimeout(self.why)
            if not self.made:
                time.sleep(AGAIN_S)

    def is_overdue(self) -> bool:
        """Look, if it is time to; whether nobody has been there since the first look of this round, for all our patience."""
        now = time.monotonic()
        if self.made or now - self._looked_at < AGAIN_S:
            return False
        self._looked_at = now
        self._since = self._since or now
        refusals = self._look()
        if self.made:
            self.why = None
        elif time.monotonic() - self._since >= self._patience:
            self.why = f"no broker answers at {', '.join(refusals)}; gave up after {self._patience:g} s"
            self._since = None
            return True
        return False

    def _look(self) -> list[str]:
        """Why each address does not answer; stops at the first that does."""
        refusals = []
        for text in self.bootstrap.split(","):
            try:
                socket.create_connection(_address(text), timeout=min(ATTEMPT_S, max(self._patience, 0.1))).close()
            except (OSError, UnicodeError) as error:
                refusals.append(f"{text.strip()} ({getattr(error, 'strerror', None) or error})")
            else:
                self.made = True
                break
        return refusals


def _address(text: str) -> tuple[str, int]:
    bare = _PROTOCOL.sub("", text.strip())
    host, colon, port = bare.rpartition(":")
    if not colon or not port.isdecimal():
        return bare.strip("[]"), DEFAULT_PORT
    return host.strip("[]"), int(port)

"""How fast this broker uploads: one bucket of bytes for all its partitions."""

import asyncio
from collections.abc import Callable

from headrace.model.live_config import LiveConfig

RATE = "headrace.remote.upload.bytes.per.second"


class UploadThrottle:
    """Whoever takes more than there is waits until it has come in; the next one waits behind."""

    def __init__(self, config: LiveConfig, now: Callable[[], float]) -> None:
        self._config = config
        self._now = now
        # When all that was taken so far has come in.
        self._paid_at = 0.0

    @property
    def bytes_per_second(self) -> int:
        rate: int = self._config.now[RATE]
        return rate

    async def take(self, size: int) -> None:
        now = self._now()
        self._paid_at = max(self._paid_at, now) + size / self.bytes_per_second
        # What comes in within a moment is not worth a timer.
        if self._paid_at - now > 0.005:
            await asyncio.sleep(self._paid_at - now)

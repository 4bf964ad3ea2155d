"""Something that may take long, told step by step: whoever has asked for it sees that it goes on, and what it waits for."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

logger = logging.getLogger(__name__)

# Nothing is said of what takes no longer than this; then a line comes this often.
QUIET_S: Final = 2.0
AGAIN_S: Final = 5.0


class StepReports:
    """Tells of a step for as long as it lasts; `over` ends it."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop) -> None:
        """`name` goes before what is told: "stopping"."""
        self._name = name
        self._loop = loop
        self._began = loop.time()
        self._step: Callable[[], str] = lambda: ""
        self._timer = loop.call_later(QUIET_S, self._tell)

    def at(self, step: Callable[[], str]) -> None:
        """What is being done from now on; it is asked again for each line."""
        self._step = step

    def over(self) -> None:
        self._timer.cancel()

    def _tell(self) -> None:
        logger.info("%s: %s, %.0f s so far", self._name, self._step(), self._loop.time() - self._began)
        self._timer = self._loop.call_later(AGAIN_S, self._tell)

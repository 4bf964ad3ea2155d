"""The gateway's tasks: each has a scope that ends it, and none dies in silence.  No other module of the gateway makes tasks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

logger = logging.getLogger(__name__)

PAUSE_S: Final = 0.2
PAUSE_S_MAX: Final = 10.0


class Tasks:
    """A scope: what is started in it ends with it."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def spawn(self, coroutine: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run something once; its failure is logged."""
        task = asyncio.create_task(coroutine, name=name)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def keep(self, function: Callable[[], Coroutine[Any, Any, None]], name: str) -> asyncio.Task[Any]:
        """Run something for as long as the scope lasts: it begins again, after a pause that grows, when it fails."""
        return self.spawn(_kept(function, name), name)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("%s failed: %s", task.get_name(), error, exc_info=error)

    async def close(self) -> None:
        """End everything, and wait for its end."""
        running = [task for task in self._running if task is not asyncio.current_task()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _kept(function: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
    pause = PAUSE_S
    while True:
        began = asyncio.get_running_loop().time()
        try:
            await function()
            return
        except Exception as error:
            if asyncio.get_running_loop().time() - began > PAUSE_S_MAX:
                pause = PAUSE_S
            logger.warning("%s failed and begins again in %.1f s: %s", name, pause, error)
        await asyncio.sleep(pause)
        pause = min(2 * pause, PAUSE_S_MAX)

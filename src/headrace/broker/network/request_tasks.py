"""Requests that take a while are tasks; however one ends, its request has a reply then, or its connection is closed."""

import asyncio
import logging
from collections.abc import Coroutine
from functools import partial
from typing import Any

from headrace.broker.network.pending_reply import FAILED, PendingReply
from headrace.broker.supervision.supervision import Rule, Scope

logger = logging.getLogger(__name__)


class RequestTasks:
    """All of them; those still under way end with their scope."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def run(self, coroutine: Coroutine[Any, Any, None], reply: PendingReply) -> "asyncio.Task[None]":
        """Do a request's work in a task."""
        task = self._scope.spawn("request", coroutine, Rule.OWNER)
        task.add_done_callback(partial(self._ended, reply))
        return task

    def _ended(self, reply: PendingReply, task: "asyncio.Task[None]") -> None:
        if task.cancelled():
            reply.abandon("its request was given up")
        elif (error := task.exception()) is not None:
            logger.error("%s failed", reply.name, exc_info=error)
            reply.abandon(FAILED)

    async def close(self) -> None:
        """Give up what is still under way."""
        await self._scope.close()

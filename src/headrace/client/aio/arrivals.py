"""From librdkafka's threads to the event loop: deliveries come back in bunches, and calls that block run in threads."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from headrace.client.producer.receipts import DeliveryFuture
from headrace.client.producer.unseen import KEPT_MAX

T = TypeVar("T")


class Arrivals(Generic[T]):
    """Brings results from librdkafka's thread to the loop, many in one wake-up."""

    def __init__(self, *, remembers: bool) -> None:
        self._remembers = remembers
        self._done: deque[tuple[asyncio.Future[T], Future[T]]] = deque()
        self._woken = False
        self._failed: list[tuple[asyncio.Future[T], BaseException]] = []  # that nobody may have looked at

    def follow(self, future: DeliveryFuture[T]) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        mine: asyncio.Future[T] = loop.create_future()
        future.add_done_callback(lambda done: self._arrived(loop, mine, done))
        return mine

    def _arrived(self, loop: asyncio.AbstractEventLoop, mine: asyncio.Future[T], done: Future[T]) -> None:
        self._done.append((mine, done))
        if not self._woken:
            self._woken = True
            try:
                loop.call_soon_threadsafe(self.deliver)
            except RuntimeError:
                self._done.clear()  # the loop is closed: nobody waits any more

    def deliver(self) -> None:
        """Resolve the loop's futures of what has arrived."""
        self._woken = False
        while self._done:
            mine, done = self._done.popleft()
            if mine.done():
                continue
            error = done.exception()
            if error is not None:
                mine.set_exception(error)
                self._remember(mine, error)
            else:
                mine.set_result(done.result())

    def _remember(self, mine: asyncio.Future[T], error: BaseException) -> None:
        if not self._remembers:
            return
        if len(self._failed) >= KEPT_MAX:
            self._failed = [each for each in self._failed if _is_unseen(each[0])]
        if len(self._failed) < KEPT_MAX:
            self._failed.append((mine, error))

    def raise_unseen(self) -> None:
        """Raise the first failure that nobody has looked at, as Producer.close does."""
        failed, self._failed = self._failed, []
        unseen = [(mine, error) for mine, error in failed if _is_unseen(mine)]
        for mine, _ in unseen:
            mine.exception()  # it is told here, and asyncio need not complain as well
        if unseen:
            raise unseen[0][1]


def _is_unseen(future: asyncio.Future[Any]) -> bool:
    """asyncio knows: it complains of a future with an error that nobody has asked for."""
    return bool(getattr(future, "_log_traceback", False))


async def await_quietly(future: asyncio.Future[T]) -> T:
    """Wait for a delivery; cancelling the wait leaves the record on its way."""
    return await asyncio.shield(future)


async def to_its_end(call: Callable[..., T], *arguments: Any) -> T:
    """Run it in a thread.  A thread cannot be cancelled: who is cancelled meanwhile waits for it, instead of leaving it to go on
    behind what comes next."""
    work = asyncio.ensure_future(asyncio.to_thread(call, *arguments))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait({work})
        if not work.cancelled():
            work.exception()
        raise

"""Push on an event loop: one task that fetches, and `workers` that await the callback.

Always: after `stop` no callback runs, what was finished is committed, and what was fetched and not finished will be read again.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from inspect import isawaitable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from headrace.client.arguments import Duration, seconds, whole_number
from headrace.client.consumer.feed import feed_of
from headrace.client.deadletter.deadletter import DeadLetters
from headrace.client.errors import Closed, StillRunning
from headrace.client.push.handlers import async_function
from headrace.client.push.scheduling import OnError, Schedule, Task
from headrace.client.push.threads import FETCH_SLICE_S, REVOKE_WAIT_S, STOP_WAIT_S
from headrace.client.records.record import Record
from headrace.model.identity import TopicPartition

if TYPE_CHECKING:
    from headrace.client.consumer.consumer import Consumer


class AsyncSubscription:
    """A running push.  Await `wait`, await `stop`, or use it as an `async with` block that stops it at its end."""

    def __init__(
        self,
        consumer: Consumer[Any, Any],
        in_thread: Callable[..., Awaitable[Any]],
        callback: Callable[[Record[Any, Any]], Awaitable[object]],
        *,
        workers: int,
        order: str,
        pending_max: int,
        dead_letters: DeadLetters | None,
        on_error: OnError | None,
    ) -> None:
        async_function("callback", callback, "a Record")
        whole_number("workers", workers, at_least=1, at_most=10_000)
        self._consumer = consumer  # as long as this runs, the consumer is in use
        self._feed = feed_of(consumer)
        self._in_thread = in_thread
        self._callback = callback
        if self._feed.spans is not None:
            from headrace.client.tracing.handling import around_async

            self._callback = around_async(self._feed.spans, callback)
        self._schedule = Schedule(self._feed, order=order, pending_max=pending_max, dead_letters=dead_letters, on_error=on_error)
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._stopping = False
        self._ended = False
        self._feed.begin_push(self._before_revoke)
        self._tasks = [asyncio.create_task(self._fetch()), *(asyncio.create_task(self._serve()) for _ in range(workers))]

    @property
    def running(self) -> bool:
        """Whether it has not been stopped, and nothing has ended it."""
        return not self._stopping

    async def wait(self) -> None:
        """Until the subscription has ended; raises what ended it."""
        await asyncio.wait(self._tasks)
        await self.stop()
        self._schedule.raise_error()

    async def stop(self, timeout: Duration = STOP_WAIT_S) -> None:
        """Wait for running callbacks, start no more, commit what is finished.  Calling it again has no effect."""
        self._stop_soon()
        if asyncio.current_task() in self._tasks:
            return
        deadline = time.monotonic() + seconds("timeout", timeout)
        _, late = await asyncio.wait(self._tasks, timeout=seconds("timeout", timeout))
        if late:
            raise self._schedule.still_running(timeout)
        await asyncio.to_thread(self._schedule.wait_until_idle, deadline)
        if not self._ended:
            self._ended = True
            with contextlib.suppress(Closed):  # by a callback, say: then what was finished is committed
                await self._in_thread(self._feed.end_push, self._schedule.unfinished())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.stop()
        if error is None:
            self._schedule.raise_error()

    def raise_error(self) -> None:
        """Raise what ended it, if nobody has heard of it yet."""
        self._schedule.raise_error()

    def _stop_soon(self) -> None:
        self._stopping = True
        self._changed.set()

    def _wake(self) -> None:
        self._loop.call_soon_threadsafe(self._changed.set)

    async def _fetch(self) -> None:
        try:
            while not self._stopping:
                room = self._schedule.room()
                if room > 0:
                    # Both in the thread: cancelled in between, what was taken would be nowhere.
                    if await self._in_thread(self._take_and_accept, room):
                        self._changed.set()
                else:
                    await asyncio.sleep(0.01)
        except Closed:
            pass
        except Exception as error:
            self._schedule.error = self._schedule.error or error
        finally:
            self._stop_soon()

    def _take_and_accept(self, room: int) -> bool:
        messages = self._feed.take_for_push(room, FETCH_SLICE_S)
        self._schedule.accept(messages)
        return bool(messages)

    async def _serve(self) -> None:
        while (task := await self._next_task()) is not None:
            if task.parking:
                self._schedule.park(task, self._wake)
            elif (error := task.what_failed()) is not None:
                self._schedule.failed(task, error)
            else:
                await self._call(task)
            self._changed.set()

    async def _next_task(self) -> Task | None:
        while not self._stopping and self._schedule.error is None:
            with self._schedule.changed:
                task = self._schedule.take()
                wait = self._schedule.seconds_to_next_due(1.0)
            if task is not None:
                return task
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), wait)
        self._stop_soon()
        return None

    async def _call(self, task: Task) -> None:
        try:
            returned = await self._callback(task.record)
            # A delivery that was only begun, or a coroutine whose `await` was forgotten: nobody else would wait for it.
            if isawaitable(returned):
                returned = await returned
            elif isinstance(returned, Future):
                returned = await asyncio.wrap_future(returned)
        except asyncio.CancelledError:
            self._schedule.give_up(task, StillRunning("the task that ran a callback was cancelled"))
            raise
        except BaseException as error:
            self._schedule.failed(task, error)
        else:
            self._schedule.returned(task, returned)

    def _before_revoke(self, places: frozenset[TopicPartition]) -> None:
        self._schedule.before_revoke(places, REVOKE_WAIT_S)
        self._wake()

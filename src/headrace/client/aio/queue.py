"""A queue for asyncio: nothing here blocks the event loop, and locks are renewed even where something else does."""

from __future__ import annotations

import asyncio
import signal
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, Unpack

from headrace.client.arguments import Duration, seconds, whole_number
from headrace.client.push.handlers import async_function
from headrace.client.queue.engine import Engine
from headrace.client.queue.job import Job
from headrace.client.queue.queue import Queue, insides_of
from headrace.client.records.record import Delivery
from headrace.client.records.serialization import Format
from headrace.client.records.type_variables import K, V

if TYPE_CHECKING:
    from headrace.client.options import PutOptions, QueueOptions
    from headrace.client.queue.depth import Depth


class AsyncQueue(Generic[K, V]):
    """Puts jobs and works them off.  Takes what Queue takes; use it with `async with` and `async for`."""

    def __init__(
        self,
        topic: str,
        *,
        group: str | None = None,
        bootstrap: str | Iterable[str] | None = None,
        keys: Format[K] = bytes,  # type: ignore[assignment]  # bytes is what K is then
        values: Format[V] = bytes,  # type: ignore[assignment]
        **settings: Unpack[QueueOptions],
    ) -> None:
        self._queue: Queue[K, V] = Queue(topic, group=group, bootstrap=bootstrap, keys=keys, values=values, **settings)
        self._inside = insides_of(self._queue)
        self._ready: deque[Job[K, V]] = deque()
        self._changed = asyncio.Event()
        self._is_stopping = False
        self._in_hand: Job[K, V] | None = None
        self._engine: Engine | None = None

    # Putting

    async def put(self, value: V, **options: Unpack[PutOptions]) -> Delivery:
        """As Queue.put."""
        return await asyncio.to_thread(partial(self._queue.put, value, **options))

    async def put_many(self, values: Iterable[V], *, keys: Iterable[K] | None = None) -> int:
        """As Queue.put_many."""
        return await asyncio.to_thread(partial(self._queue.put_many, values, keys=keys))

    async def cancel(self, key: K) -> None:
        """As Queue.cancel."""
        await asyncio.to_thread(self._queue.cancel, key)

    # Working

    async def __aiter__(self) -> AsyncIterator[Job[K, V]]:
        async for job in self.jobs():
            yield job

    async def jobs(self, timeout: Duration | None = None) -> AsyncIterator[Job[K, V]]:
        """As Queue.jobs, without regard to signals: whoever runs the loop handles them, and calls `stop`."""
        limit = None if timeout is None else seconds("timeout", timeout)
        (await self._start()).want(1)
        while True:
            self._finish_in_hand()
            job = await self._next(limit)
            if job is None:
                return
            self._in_hand = job
            yield job

    def _finish_in_hand(self) -> None:
        job, self._in_hand = self._in_hand, None
        if job is not None:
            job.end(None)

    async def take(self, timeout: Duration | None = None) -> Job[K, V] | None:
        """As Queue.take."""
        limit = None if timeout is None else seconds("timeout", timeout)
        with (await self._start()).wanting(1):
            return await self._next(limit)

    async def work(
        self, handler: Callable[[Job[K, V]], Awaitable[object]], *, workers: int = 8, idle: Duration | None = None
    ) -> None:
        """Await a coroutine function with each job, `workers` at a time, until `stop` is called, or SIGTERM or Ctrl-C comes; with
        `idle`, also when no job has come for so long."""
        async_function("handler", handler, "a Job")
        count = whole_number("workers", workers, at_least=1, at_most=10_000)
        wait = None if idle is None else seconds("idle", idle)
        engine = await self._start()
        engine.want(count)
        self._finish_in_hand()
        loop = asyncio.get_running_loop()
        caught = [number for number in (signal.SIGTERM, signal.SIGINT) if self._catch(loop, number)]
        try:
            await asyncio.gather(*(self._serve(handler, wait) for _ in range(count)))
        finally:
            self.stop()
            engine.want(0)
            for number in caught:
                loop.remove_signal_handler(number)

    def _catch(self, loop: asyncio.AbstractEventLoop, number: signal.Signals) -> bool:
        """Where nobody else has plans for it, and this is the thread that gets signals."""
        if signal.getsignal(number) not in (signal.SIG_DFL, signal.default_int_handler):
            return False
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, self.stop)
            return True
        return False

    async def _serve(self, handler: Callable[[Job[K, V]], Awaitable[object]], wait: float | None) -> None:
        while (job := await self._next(wait)) is not None:
            with job:
                await handler(job)

    def stop(self) -> None:
        """Have loops over jobs and `work` end after the jobs in hand."""
        self._is_stopping = True
        self._changed.set()

    async def _start(self) -> Engine:
        self._is_stopping = False
        if self._engine is not None:
            return self._engine
        loop = asyncio.get_running_loop()

        def on_jobs(jobs: list[Job[Any, Any]]) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(self._arrive, jobs)

        self._engine = await asyncio.to_thread(self._inside.start, on_jobs)
        return self._engine

    def _arrive(self, jobs: list[Job[K, V]]) -> None:
        self._ready.extend(jobs)
        self._changed.set()

    async def _next(self, timeout: float | None) -> Job[K, V] | None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while not self._is_stopping:
                    while self._ready:
                        job = self._ready.popleft()
                        if self._inside.begin(job):
                            return job
                    self._inside.raise_failure()
                    self._changed.clear()
                    await self._changed.wait()
        self._changed.set()  # for the others who wait
        return None

    # How it is, and ending

    async def depth(self) -> Depth:
        """As Queue.depth."""
        return await asyncio.to_thread(self._queue.depth)

    async def close(self) -> None:
        """As Queue.close."""
        if self._in_hand is not None and self._in_hand.is_open:
            self._in_hand.release()
        self.stop()
        await asyncio.to_thread(self._queue.close)

    async def __aenter__(self) -> Self:
        self._queue.__enter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        job, self._in_hand = self._in_hand, None
        if job is not None:
            job.end(error)
        await self.close()

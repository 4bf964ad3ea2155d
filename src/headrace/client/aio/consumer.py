"""A consumer for asyncio: nothing here blocks the event loop.

Fetches run in a thread of its own.  Always: a call that is cancelled loses nothing, because a fetch only fills the buffer, and
records are handed out on the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar, Unpack

from headrace.client.arguments import Duration, Moment, seconds, whole_number
from headrace.client.consumer.consumer import Consumer
from headrace.client.consumer.feed import feed_of
from headrace.client.errors import Closed
from headrace.client.logs import log
from headrace.client.records.record import Record, Records
from headrace.client.records.type_variables import K, V
from headrace.model.identity import TopicPartition

if TYPE_CHECKING:
    from headrace.client.deadletter.deadletter import DeadLetters
    from headrace.client.options import ConsumerOptions
    from headrace.client.push.tasks import AsyncSubscription
    from headrace.client.records.serialization import Format

T = TypeVar("T")


class AsyncConsumer(Generic[K, V]):
    """Reads topics.  Takes what Consumer takes; use it with `async with` and `async for`."""

    def __init__(
        self,
        topics: str | Iterable[str] | Iterable[TopicPartition] | TopicPartition,
        *,
        bootstrap: str | Iterable[str] | None = None,
        keys: Format[K] = bytes,  # type: ignore[assignment]  # bytes is what K is then
        values: Format[V] = bytes,  # type: ignore[assignment]
        **settings: Unpack[ConsumerOptions],
    ) -> None:
        self._consumer: Consumer[K, V] = Consumer(topics, bootstrap=bootstrap, keys=keys, values=values, **settings)
        self._feed = feed_of(self._consumer)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="headrace-async-consumer")
        self._subscription: AsyncSubscription | None = None

    async def __aiter__(self) -> AsyncIterator[Record[K, V]]:
        self._feed.finish_handed_out()  # which refuses when it is closed already; closed later, the loop ends
        while not self._feed.reader.stopping and (record := await self._next(None)) is not None:
            yield record

    async def poll(self, timeout: Duration = 1.0) -> Record[K, V] | None:
        """The next record, or None when there is none within `timeout`."""
        return await self._next(seconds("timeout", timeout))

    async def _next(self, timeout: float | None) -> Record[K, V] | None:
        records = await self._records(1, timeout, whole=False, single=True)
        return records[0] if records else None

    async def batch(self, size: int, timeout: Duration = 1.0) -> Records[K, V]:
        """Up to `size` records; fewer, perhaps none, when no more come within `timeout`."""
        return await self._records(whole_number("size", size, at_least=1), seconds("timeout", timeout), whole=True)

    async def batches(self, size: int, timeout: Duration = 1.0) -> AsyncIterator[Records[K, V]]:
        """As Consumer.batches."""
        self._feed.finish_handed_out()
        while not self._feed.reader.stopping:
            batch = await self.batch(size, timeout)
            if batch:
                yield batch

    async def _records(self, size: int, timeout: float | None, *, whole: bool, single: bool = False) -> Records[K, V]:
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        self._feed.finish_handed_out()
        while not self._feed.reader.stopping:
            left = None if deadline is None else deadline - loop.time()
            ready = len(self._feed.reader.ready)
            if ready >= size or (ready and not whole) or (left is not None and left <= 0 and timeout):
                break
            await self._fetch(size, left)
            if timeout == 0:
                break
        return self._feed.take_ready(size, single=single)

    async def _fetch(self, size: int, left: float | None) -> None:
        await self._in_thread(self._feed.fetch_ready, size, left)

    def on_message(
        self,
        callback: Callable[[Record[K, V]], Awaitable[object]],
        *,
        workers: int = 1,
        order: Literal["key", "partition"] = "key",
        pending_max: int = 1000,
        dead_letters: DeadLetters | None = None,
        on_error: Callable[[Record[Any, Any], BaseException], object] | None = None,
    ) -> AsyncSubscription:
        """Push every record to a coroutine function, `workers` at a time, until the subscription is stopped; as
        Consumer.on_message."""
        from headrace.client.push.tasks import AsyncSubscription

        letters = self._consumer.dead_letters if dead_letters is None else dead_letters
        self._subscription = AsyncSubscription(
            self._consumer,
            self._in_thread,
            callback,
            workers=workers,
            order=order,
            pending_max=pending_max,
            dead_letters=letters,
            on_error=on_error,
        )
        return self._subscription

    async def commit(self, offsets: Mapping[TopicPartition, int] | None = None, *, wait: bool = True) -> None:
        """As Consumer.commit."""
        await self._in_thread(partial(self._consumer.commit, offsets, wait=wait))

    async def committed(self) -> dict[TopicPartition, int]:
        """As Consumer.committed."""
        return await self._in_thread(self._consumer.committed)

    async def lag(self) -> dict[TopicPartition, int]:
        """As Consumer.lag."""
        return await self._in_thread(self._consumer.lag)

    async def seek(self, partition: TopicPartition, offset: int | Literal["earliest", "latest"]) -> None:
        """As Consumer.seek."""
        await self._in_thread(self._consumer.seek, partition, offset)

    async def seek_to_time(self, moment: Moment) -> None:
        """As Consumer.seek_to_time."""
        await self._in_thread(self._consumer.seek_to_time, moment)

    async def rewind(self, records: int | None = None) -> None:
        """As Consumer.rewind."""
        await self._in_thread(self._consumer.rewind, records)

    async def pause(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """As Consumer.pause."""
        await self._in_thread(self._consumer.pause, partitions)

    async def resume(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """As Consumer.resume."""
        await self._in_thread(self._consumer.resume, partitions)

    def positions(self) -> dict[TopicPartition, int]:
        """As Consumer.positions."""
        return self._consumer.positions()

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions this consumer has at this moment."""
        return self._consumer.assignment

    async def close(self) -> None:
        """Commit what is finished and leave the group.  Calling it again has no effect."""
        if self._subscription is not None:
            await self._subscription.stop()
        self._feed.reader.stopping = True  # ends a fetch that waits
        await asyncio.to_thread(self._consumer.close)
        self._thread.shutdown(wait=False)
        if self._subscription is not None:
            self._subscription.raise_error()

    async def __aenter__(self) -> Self:
        self._consumer.__enter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._feed.end_handling(error)
        if error is None and not self._feed.reader.stopping:
            self._feed.finish_handed_out()
        try:
            await self.close()
        except Exception as failure:
            if error is None:
                raise
            log.warning("%s: %s", type(failure).__name__, failure)

    async def _in_thread(self, call: Callable[..., T], *arguments: Any) -> T:
        try:
            answer = asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)
        except RuntimeError:  # its thread has gone
            raise Closed("this consumer is closed; open a new one to read more") from None
        return await answer

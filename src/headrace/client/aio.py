"""The same for asyncio: nothing here blocks the event loop.

librdkafka waits in threads: deliveries come back to the loop in bunches, and a consumer's fetches run in a thread of its
own.  Always: a call that is cancelled loses nothing, because a fetch only fills the buffer, and records are handed out on
the loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar, Unpack

from headrace.client.admin.admin import Admin, At
from headrace.client.admin.descriptions import ClusterDescription, GroupDescription, GroupListing, Setting, TopicDescription
from headrace.client.arguments import Duration, Moment, seconds, whole_number
from headrace.client.consumer.consumer import Consumer
from headrace.client.consumer.feed import feed_of
from headrace.client.errors import BufferFull, Closed, InvalidArgument
from headrace.client.logs import log
from headrace.client.producer.outbox import outbox_of
from headrace.client.producer.producer import Producer
from headrace.client.producer.receipts import Deliveries, DeliveryFuture
from headrace.client.producer.transaction import Transaction
from headrace.client.producer.unseen import KEPT_MAX
from headrace.client.records.record import Delivery, HeadersGiven, Record, Records
from headrace.client.records.type_variables import K, V
from headrace.model.identity import TopicPartition

if TYPE_CHECKING:
    from headrace.client.deadletter.deadletter import DeadLetters
    from headrace.client.options import AdminOptions, ConsumerOptions, ProducerOptions, SendOptions, TopicOptions
    from headrace.client.push.tasks import AsyncSubscription
    from headrace.client.records.serialization import Format

T = TypeVar("T")
FULL_WAIT_S = 0.005


class AsyncProducer:
    """Sends records.  Takes what Producer takes; a full buffer makes `enqueue` wait, unless `when_full="raise"`."""

    def __init__(
        self,
        bootstrap: str | Iterable[str] | None = None,
        *,
        when_full: Literal["block", "raise"] = "block",
        **settings: Unpack[ProducerOptions],
    ) -> None:
        if when_full not in ("block", "raise"):
            raise InvalidArgument(f"when_full={when_full!r} is not accepted; accepted: 'block', 'raise'")
        self._producer = Producer(bootstrap, when_full="raise", **settings)
        self._outbox = outbox_of(self._producer)
        self._blocks = when_full == "block"
        # In a transaction it is the commit that tells of failures.
        self._arrivals: Arrivals[Any] = Arrivals(remembers=settings.get("transactional_id") is None)

    @property
    def bootstrap(self) -> str:
        """The address it was given."""
        return self._producer.bootstrap

    async def send(
        self,
        topic: str,
        value: Any,
        *,
        key: Any = None,
        headers: HeadersGiven | None = None,
        partition: int | None = None,
        timestamp: datetime | int | None = None,
        ttl: float | timedelta | None = None,
    ) -> Delivery:
        """Send one record and wait until it is acknowledged."""
        return await await_quietly(
            await self.enqueue(topic, value, key=key, headers=headers, partition=partition, timestamp=timestamp, ttl=ttl)
        )

    async def enqueue(self, topic: str, value: Any, **options: Unpack[SendOptions]) -> asyncio.Future[Delivery]:
        """Hand one record over, waiting only for room; the future has its Delivery later.  The way to keep many on their way."""
        await self._know_partitions(topic, options.get("partition"))
        return self._arrivals.follow(await self._when_there_is_room(partial(self._producer.send, topic, value, **options)))

    async def send_many(self, topic: str, values: Iterable[Any], *, keys: Iterable[Any] | None = None) -> Deliveries:
        """Send many records of one topic, and wait until all are acknowledged."""
        listed, keyed = list(values), None if keys is None else list(keys)
        await self._know_partitions(topic, None)
        if len(self._producer) + len(listed) > self._outbox.buffer_messages:
            # It will have to wait for room in the middle: not on the loop.
            return await asyncio.to_thread(lambda: self._outbox.send_many(topic, listed, keyed, None, wait=True).result())
        return await await_quietly(self._arrivals.follow(self._producer.send_many(topic, listed, keys=keyed)))

    async def flush(self, timeout: Duration | None = None) -> None:
        """As Producer.flush."""
        await asyncio.to_thread(self._producer.flush, timeout)

    def transaction(self, consumer: AsyncConsumer[Any, Any] | None = None) -> AsyncTransaction:
        """An `async with` block whose records become visible together at its end, or not at all."""
        return AsyncTransaction(self, self._producer.transaction(None if consumer is None else consumer._consumer))

    async def close(self, timeout: Duration | None = None) -> None:
        """As Producer.close."""
        await asyncio.to_thread(self._producer.close, timeout)
        self._arrivals.deliver()
        self._arrivals.raise_unseen()

    async def __aenter__(self) -> Self:
        self._producer.__enter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await asyncio.to_thread(self._producer.__exit__, kind, error, trace)
        self._arrivals.deliver()
        if error is None:
            self._arrivals.raise_unseen()

    async def _know_partitions(self, topic: str, partition: int | None) -> None:
        if self._outbox.must_ask_first(topic, partition):
            await asyncio.to_thread(self._outbox.ask_first, topic)

    async def _when_there_is_room(self, send: Callable[[], T]) -> T:
        while True:
            try:
                return send()
            except BufferFull:
                if not self._blocks:
                    raise
            await asyncio.sleep(FULL_WAIT_S)


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


class AsyncTransaction:
    """One `async with` block."""

    def __init__(self, producer: AsyncProducer, transaction: Transaction) -> None:
        self._producer = producer
        self._transaction = transaction

    async def send(self, topic: str, value: Any, **options: Unpack[SendOptions]) -> asyncio.Future[Delivery]:
        """Hand one record over as part of the transaction; its end waits for the acknowledgement."""
        return await self._producer.enqueue(topic, value, **options)

    async def send_offsets(self, consumer: AsyncConsumer[Any, Any], offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """As Transaction.send_offsets."""
        await to_its_end(self._transaction.send_offsets, consumer._consumer, offsets)

    async def __aenter__(self) -> Self:
        try:
            await to_its_end(self._transaction.__enter__)
        except asyncio.CancelledError as cancelled:
            if self._transaction.is_open:
                await to_its_end(self._transaction.__exit__, type(cancelled), cancelled, None)
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await to_its_end(self._transaction.__exit__, kind, error, trace)


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
        records = await self._records(1, timeout, whole=False)
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

    async def _records(self, size: int, timeout: float | None, *, whole: bool) -> Records[K, V]:
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
        return self._feed.take_ready(size)

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
        """Commit what is finished and leave the group.  Again is nothing."""
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


class AsyncAdmin:
    """Asks and changes what a cluster holds: Admin, with every call awaited."""

    def __init__(self, bootstrap: str | Iterable[str] | None = None, **settings: Unpack[AdminOptions]) -> None:
        self._admin = Admin(bootstrap, **settings)

    async def create_topic(self, name: str, **options: Unpack[TopicOptions]) -> None:
        """As Admin.create_topic."""
        await asyncio.to_thread(self._admin.create_topic, name, **options)

    async def delete_topic(self, name: str, *, missing_ok: bool = False) -> None:
        """As Admin.delete_topic."""
        await asyncio.to_thread(self._admin.delete_topic, name, missing_ok=missing_ok)

    async def topics(self, names: Iterable[str] | None = None, *, internal: bool = False) -> dict[str, TopicDescription]:
        """As Admin.topics."""
        return await asyncio.to_thread(self._admin.topics, names, internal=internal)

    async def topic_names(self) -> list[str]:
        """As Admin.topic_names."""
        return await asyncio.to_thread(self._admin.topic_names)

    async def topic(self, name: str) -> TopicDescription:
        """As Admin.topic."""
        return await asyncio.to_thread(self._admin.topic, name)

    async def add_partitions(self, topic: str, total: int) -> None:
        """As Admin.add_partitions."""
        await asyncio.to_thread(self._admin.add_partitions, topic, total)

    async def delete_records(self, topic: str, before: Mapping[int, int | None]) -> dict[int, int]:
        """As Admin.delete_records."""
        return await asyncio.to_thread(self._admin.delete_records, topic, before)

    async def settings(self, topic: str) -> dict[str, Setting]:
        """As Admin.settings."""
        return await asyncio.to_thread(self._admin.settings, topic)

    async def change_settings(self, topic: str, settings: Mapping[str, object]) -> None:
        """As Admin.change_settings."""
        await asyncio.to_thread(self._admin.change_settings, topic, settings)

    async def offsets(self, topic: str, at: At = "latest") -> dict[int, int]:
        """As Admin.offsets."""
        return await asyncio.to_thread(self._admin.offsets, topic, at)

    async def find_offsets(
        self, at: Mapping[TopicPartition, At], *, isolation: Literal["read_committed", "read_uncommitted"] = "read_uncommitted"
    ) -> dict[TopicPartition, int | None]:
        """As Admin.find_offsets."""
        return await asyncio.to_thread(self._admin.find_offsets, at, isolation=isolation)

    async def groups(self) -> list[str]:
        """As Admin.groups."""
        return await asyncio.to_thread(self._admin.groups)

    async def group_listings(self) -> list[GroupListing]:
        """As Admin.group_listings."""
        return await asyncio.to_thread(self._admin.group_listings)

    async def group(self, name: str) -> GroupDescription:
        """As Admin.group."""
        return await asyncio.to_thread(self._admin.group, name)

    async def committed(self, group: str) -> dict[TopicPartition, int]:
        """As Admin.committed."""
        return await asyncio.to_thread(self._admin.committed, group)

    async def committed_notes(self, group: str, topic: str) -> dict[int, tuple[int, str | None]]:
        """As Admin.committed_notes."""
        return await asyncio.to_thread(self._admin.committed_notes, group, topic)

    async def lag(self, group: str) -> dict[TopicPartition, int]:
        """As Admin.lag."""
        return await asyncio.to_thread(self._admin.lag, group)

    async def set_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """As Admin.set_offsets."""
        await asyncio.to_thread(self._admin.set_offsets, group, offsets)

    async def reset_offsets(self, group: str, topic: str, to: At) -> dict[int, int]:
        """As Admin.reset_offsets."""
        return await asyncio.to_thread(self._admin.reset_offsets, group, topic, to)

    async def delete_group(self, name: str, *, missing_ok: bool = False) -> None:
        """As Admin.delete_group."""
        await asyncio.to_thread(self._admin.delete_group, name, missing_ok=missing_ok)

    async def cluster(self) -> ClusterDescription:
        """As Admin.cluster."""
        return await asyncio.to_thread(self._admin.cluster)

    async def close(self) -> None:
        """As Admin.close."""
        self._admin.close()

    async def __aenter__(self) -> Self:
        self._admin.__enter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._admin.close()

"""A producer and its transactions for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Unpack

from headrace.client.aio.arrivals import Arrivals, await_quietly, to_its_end
from headrace.client.arguments import Duration
from headrace.client.errors import BufferFull, InvalidArgument
from headrace.client.producer.outbox import outbox_of
from headrace.client.producer.producer import Producer
from headrace.client.producer.receipts import Deliveries
from headrace.client.producer.transaction import Transaction
from headrace.client.records.record import Delivery, HeadersGiven
from headrace.model.identity import TopicPartition

if TYPE_CHECKING:
    from headrace.client.aio.consumer import AsyncConsumer
    from headrace.client.options import ProducerOptions, SendOptions

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
        delay: float | timedelta | None = None,
        at: datetime | int | None = None,
    ) -> Delivery:
        """Send one record and wait until it is acknowledged."""
        options: SendOptions = {"key": key, "headers": headers, "partition": partition, "timestamp": timestamp, "ttl": ttl}
        options |= {"delay": delay, "at": at}
        return await await_quietly(await self.enqueue(topic, value, **options))

    async def cancel(self, topic: str, key: Any, *, partition: int | None = None) -> None:
        """As Producer.cancel; returns when it is decided."""
        await self._know_partitions(topic, partition)
        cancel = partial(self._producer.cancel, topic, key, partition=partition)
        await await_quietly(self._arrivals.follow(await self._when_there_is_room(cancel)))

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

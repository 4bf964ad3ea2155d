"""The catalog, kept in a compacted topic that any number of registries share.

A registry that wants to write makes itself the topic's only writer: it opens a transactional producer under a name that all of
them use, by which the brokers shut out the one before (KIP-98), and reads to the end.  What it then decides counts only if its
transaction commits, and it commits only if nobody has become the writer since.  So nobody holds a lock, whoever dies holds up
nobody, and two registries never give one id twice.  Always: a change is answered after it is committed and has been read back.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from headrace.client.errors import HeadraceError
from headrace.client.producer.producer import Producer
from headrace.registry.log.connection import Connection, ensure_topic
from headrace.registry.log.record_format import record_of
from headrace.registry.log.tail import Tail, log
from headrace.registry.rules.catalog import Catalog
from headrace.registry.rules.decision import Decision
from headrace.registry.rules.entries import Entry, IdsGiven
from headrace.registry.rules.errors import RegistryError, schema_too_large, store_timed_out

T = TypeVar("T")
OPEN_TIMEOUT_S = 60.0  # for reading everything there is
CHANGE_TIMEOUT_S = 30.0
RECORD_BYTES_MAX = 1_000_000  # what brokers and clients take if they are not told otherwise, less what goes around it
REHEARSALS = 8  # at once; those that take long take a thread each
BACKOFF_S = 0.02  # doubled with every attempt, up to this much
BACKOFF_MAX_S = 1.0


class SchemaLog:
    """Use it with `async with`; `catalog` is what is known, `change` the way to alter it."""

    def __init__(self, connection: Connection) -> None:
        self.catalog = Catalog()
        self._connection = connection
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="headrace-registry-writer")
        self._rehearsals = ThreadPoolExecutor(REHEARSALS, thread_name_prefix="headrace-registry-rehearsal")
        self._turn = asyncio.Lock()
        self._producer: Producer | None = None  # while we are the writer, as far as we know
        self._sure = True  # what we wrote last has been read back
        self._next_offset = 0  # behind all that the catalog knows
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []  # for what has this offset
        self._tail: Tail | None = None

    async def __aenter__(self) -> SchemaLog:
        await asyncio.to_thread(ensure_topic, self._connection)
        self._tail = Tail(self._connection, asyncio.get_running_loop(), self._arrived)
        self._tail.start()
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                await self._tail.to_end()
        except BaseException:
            self._tail.leave()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._tail is not None:
            await self._tail.stop()
        await self._in_thread(self._let_go)
        self._thread.shutdown()
        self._rehearsals.shutdown(wait=False, cancel_futures=True)

    async def catch_up(self) -> None:
        """Return when all that is committed at this moment is in the catalog."""
        assert self._tail is not None, "a log is entered before it is used"
        async with asyncio.timeout(CHANGE_TIMEOUT_S):
            await self._tail.to_end()

    async def change(self, decide: Callable[[Catalog], Decision[T]]) -> T:
        """Decide on the newest state, write what was decided, and answer.  `decide` may be called several times, in a thread.

        The first time is before this one's turn, for what it leaves behind: schemas that are read, and held against each other.
        Where that takes long, nobody else waits for it."""
        try:
            async with asyncio.timeout(CHANGE_TIMEOUT_S):
                await self._rehearsed(decide)
                async with self._turn:
                    return await self._changed(decide)
        except TimeoutError:
            raise store_timed_out(f"nothing was written within {CHANGE_TIMEOUT_S:g} s") from None

    async def _rehearsed(self, decide: Callable[[Catalog], Decision[T]]) -> None:
        with suppress(RegistryError):  # it is refused in its turn, if it still is
            await asyncio.get_running_loop().run_in_executor(self._rehearsals, decide, self.catalog)

    async def _changed(self, decide: Callable[[Catalog], Decision[T]]) -> T:
        attempt = 0
        while True:
            try:
                claimed = await self._become_writer()
                decision = await self._decided(decide, fresh=claimed)
                if decision.entries:
                    _check_size(decision.entries)
                    await self._write(decision.entries)
                return decision.answer
            except HeadraceError as error:
                log.info("another registry writes, or none can; trying again: %s", error)
                await self._in_thread(self._let_go)
                await asyncio.sleep(random.SystemRandom().random() * min(BACKOFF_S * 2**attempt, BACKOFF_MAX_S))
                attempt += 1

    async def _decided(self, decide: Callable[[Catalog], Decision[T]], *, fresh: bool) -> Decision[T]:
        """A refusal is final only on the newest state: a writer that was shut out does not know it before it writes."""
        try:
            return await asyncio.to_thread(decide, self.catalog)
        except RegistryError:
            if fresh:
                raise
        await self.catch_up()
        return await asyncio.to_thread(decide, self.catalog)

    async def _become_writer(self) -> bool:
        """Whether we were not the writer before, or cannot know what became of what we wrote last."""
        if self._producer is not None and self._sure:
            return False
        await self._in_thread(self._let_go)
        await self.catch_up()
        told = IdsGiven(largest=dict(self.catalog.largest_ids))
        self._producer = await self._in_thread(self._connection.producer)
        await self._write((told,))
        if dict(told.largest) != self.catalog.largest_ids:
            await self._write((IdsGiven(largest=dict(self.catalog.largest_ids)),))
        return True

    async def _write(self, entries: tuple[Entry, ...]) -> None:
        self._sure = False
        offset = await self._in_thread(self._commit, entries)
        if self._next_offset <= offset:
            read_back = asyncio.get_running_loop().create_future()
            self._waiting.append((offset, read_back))
            await read_back
        self._sure = True

    def _commit(self, entries: tuple[Entry, ...]) -> int:
        assert self._producer is not None
        with self._producer.transaction() as transaction:
            sent = [
                transaction.send(self._connection.topic, value, key=key, partition=0) for key, value in map(record_of, entries)
            ]
        return max(each.result(CHANGE_TIMEOUT_S).offset or 0 for each in sent)

    def _let_go(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            try:
                producer.close(1)
            except HeadraceError as error:
                log.debug("%s", error)

    def _arrived(self, entries: list[Entry], next_offset: int) -> None:
        self.catalog.apply(entries)
        self._next_offset = next_offset
        for each in [each for each in self._waiting if each[0] < next_offset]:
            self._waiting.remove(each)
            if not each[1].done():
                each[1].set_result(None)

    async def _in_thread(self, call: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)


def _check_size(entries: tuple[Entry, ...]) -> None:
    """What no broker takes is refused at once; trying again would hold up everybody else who wants to write."""
    largest = max(len(key) + len(value or b"") for key, value in map(record_of, entries))
    if largest > RECORD_BYTES_MAX:
        raise schema_too_large(largest, RECORD_BYTES_MAX)

"""Reading the topic of the schemas, for ever, in a thread of its own.

Always: entries come to the event loop in the order of the log, each once, and with the offset behind them; only committed ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable

from headrace.client.consumer.consumer import Consumer
from headrace.client.errors import HeadraceError
from headrace.client.records.record import Record
from headrace.registry.log.connection import Connection
from headrace.registry.log.record_format import Unreadable, read
from headrace.registry.rules.entries import Entry

CHUNK = 500
POLL_S = 0.1
RETRY_S = 1.0
STOP_S = 5.0  # who reads may be asking a cluster that is away; the thread ends with the process then
Arrived = Callable[[list[Entry], int], None]
log = logging.getLogger("headrace.registry")


class Tail:
    def __init__(self, connection: Connection, loop: asyncio.AbstractEventLoop, arrived: Arrived) -> None:
        self._connection = connection
        self._loop = loop
        self._arrived = arrived
        self._asked: deque[asyncio.Future[None]] = deque()  # who waits until everything is read
        self._stopping = threading.Event()
        self._next_offset = 0
        self._thread = threading.Thread(target=self._run, name="headrace-registry-tail", daemon=True)

    def start(self) -> None:
        self._thread.start()

    async def to_end(self) -> None:
        """Return when all that is committed at this moment has arrived."""
        done = self._loop.create_future()
        self._asked.append(done)
        await done

    def leave(self) -> None:
        """End without being waited for: who reads may be in the middle of asking a cluster that is away."""
        self._stopping.set()

    async def stop(self) -> None:
        self.leave()
        await asyncio.to_thread(self._thread.join, STOP_S)
        for each in self._asked:
            each.cancel()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with self._connection.consumer(start=self._next_offset or "earliest") as consumer:
                    self._follow(consumer)
            except HeadraceError as error:
                log.warning("the schemas could not be read, and are tried again: %s", error)
                self._stopping.wait(RETRY_S)

    def _follow(self, consumer: Consumer[bytes, bytes]) -> None:
        while not self._stopping.is_set():
            asked = list(self._asked)
            if asked:
                self._hand_over(consumer.to_end())
                for _ in asked:
                    self._tell(_resolve, self._asked.popleft())
            elif (record := consumer.poll(POLL_S)) is not None:
                self._hand_over([record, *consumer.batch(CHUNK, 0)])

    def _hand_over(self, records: Iterable[Record[bytes, bytes]]) -> None:
        entries: list[Entry] = []
        for record in records:
            self._next_offset = record.offset + 1
            try:
                entry = read(record.key, record.value)
            except Unreadable as error:
                log.warning("%s[0] offset %d is no record of a schema registry: %s", self._connection.topic, record.offset, error)
                continue
            if entry is not None:
                entries.append(entry)
        self._tell(self._arrived, entries, self._next_offset)

    def _tell(self, call: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            self._loop.call_soon_threadsafe(call, *arguments)


def _resolve(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)

"""The log that gateways share: a compacted topic of one partition, so that all see the same order.

What somebody reads here is what was acknowledged before the question: a read goes to the end of the log first.  Gateways that
have a key mark what they write, and heed only what is so marked: a right to write the topic does not make a gateway.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import orjson

from headrace.client.brokers.cluster import EARLIEST, LATEST
from headrace.client.errors import HeadraceError, TopicNotFound
from headrace.client.records.record import Delivery
from headrace.gateway.brokers.reader import Readers
from headrace.gateway.fleet.state import Key, State
from headrace.model.names import GATEWAY
from headrace.records.record import Record

if TYPE_CHECKING:
    from headrace.gateway.callers.caller import Caller

logger = logging.getLogger(__name__)

TOPIC: Final = GATEWAY
REPLICAS: Final = 3
SETTINGS: Final = {"cleanup.policy": "compact", "segment.ms": 3_600_000, "min.cleanable.dirty.ratio": 0.1}
RECORDS: Final = 1000
BYTES: Final = 1024 * 1024
WAIT_S: Final = 5.0
SYNC_S: Final = 10.0
STALE_AT_ONCE: Final = 100
MARK: Final = "headrace-mark"
Marking = Callable[[bytes, bytes | None], bytes | None]


class Journal:
    """Reads and writes as the gateway itself."""

    def __init__(self, caller: Caller, on_change: Callable[[], None], mark: Marking) -> None:
        """`on_change` hears of every entry that counts; it is called on the loop, and must not wait.  `mark` makes the mark of an
        entry, or None where there is no key."""
        self._caller = caller
        self._on_change = on_change
        self._mark = mark
        self._warned = False
        self.state = State()
        self.applied = -1  # the next offset to apply; -1 before the log was read to its end once
        self._moved = asyncio.Condition()

    async def run(self) -> None:
        """Apply the log from its beginning, and go on for ever."""
        await self._make_topic()
        cluster = self._caller.cluster
        self.state = State()
        end = (await cluster.offsets(TOPIC, LATEST))[0]
        readers = Readers(cluster, TOPIC, await cluster.offsets(TOPIC, EARLIEST), "read_uncommitted")
        try:
            while True:
                at = readers.positions[0]
                if at >= end:
                    await self._move_to(at)
                wait = WAIT_S if at >= end else 0.0
                for shown in await readers.read(records_max=RECORDS, bytes_max=BYTES, wait_s=wait):
                    if not self._is_a_gateways(shown.record):
                        continue
                    if self.state.apply(shown.record.key, shown.record.value) and self.applied >= 0:
                        self._on_change()
                if readers.positions[0] == at and at < end:
                    end = at  # what is left are markers
        finally:
            readers.close()
            self.applied = -1

    def _is_a_gateways(self, record: Record) -> bool:
        wanted = self._mark(record.key or b"", record.value)
        if wanted is None or hmac.compare_digest(dict(record.headers).get(MARK) or b"", wanted):
            return True
        if not self._warned:
            self._warned = True
            logger.warning("%s has entries that no gateway with this key has written; they are passed over", TOPIC)
        return False

    async def _move_to(self, offset: int) -> None:
        if offset != self.applied:
            self.applied = offset
            self._on_change()
            async with self._moved:
                self._moved.notify_all()

    async def _make_topic(self) -> None:
        try:
            await self._caller.cluster.leaders(TOPIC)
        except TopicNotFound:
            brokers = len((await self._caller.admin.cluster()).brokers)
            await self._caller.admin.create_topic(
                TOPIC, partitions=1, replication=min(REPLICAS, brokers), settings=SETTINGS, exist_ok=True
            )
            self._caller.cluster.forget(TOPIC)

    async def sync(self) -> State:
        """What was acknowledged before this call is in the state that comes back."""
        end = (await self._caller.cluster.offsets(TOPIC, LATEST))[0]
        return await self._wait_for(end)

    async def _wait_for(self, offset: int) -> State:
        async with asyncio.timeout(SYNC_S), self._moved:
            await self._moved.wait_for(lambda: self.applied >= offset)
        return self.state

    async def beat(self, name: str, document: dict[str, Any] | None) -> None:
        """Say that a gateway is there; None that it has gone."""
        written = await self._write(Key("gateway", name, 0, "-"), document)
        if document is not None:
            # Who has been away for long must know what others took before it says that anything is its own.
            await self._wait_for(written + 1)

    async def change(self, kind: str, name: str, seen: int, document: dict[str, Any]) -> bool:
        """Write what follows version `seen`; whether it counts, or somebody else was first."""
        key = Key(kind, name, seen + 1, secrets.token_hex(6))
        await self._wait_for(await self._write(key, document) + 1)
        kept = (self.state.things if kind == "thing" else self.state.claims).get(name)
        return kept is not None and kept.key == key

    async def _write(self, key: Key, document: dict[str, Any] | None) -> int:
        value = None if document is None else orjson.dumps(document)
        delivery = await self._send(key.encoded(), value)
        return -1 if delivery.offset is None else delivery.offset

    async def tidy(self) -> None:
        """Take out keys that say nothing any more."""
        for raw in list(self.state.stale)[:STALE_AT_ONCE]:
            try:
                await self._send(raw, None)
            except HeadraceError as error:
                logger.warning("stale entries stay in %s: %s", TOPIC, error)
                return

    async def _send(self, key: bytes, value: bytes | None) -> Delivery:
        mark = self._mark(key, value)
        headers = None if mark is None else [(MARK, mark)]
        return await self._caller.producer.send(TOPIC, value, key=key, headers=headers, partition=0)

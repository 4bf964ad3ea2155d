"""Looking for records: forwards from a place, or backwards from the end, until enough are found or enough was looked at.

Always: `next` goes on exactly where this answer ended, so that nothing is shown twice and nothing is passed over.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final

from headrace.client.admin.wire_admin import raise_for
from headrace.client.brokers.cluster import EARLIEST, LATEST, Isolation
from headrace.console.messages.decoding import Decoder
from headrace.console.messages.expression import Test, read_expression
from headrace.gateway.brokers.cluster import Cluster
from headrace.gateway.brokers.decoding import decoded
from headrace.gateway.brokers.reader import Readers
from headrace.gateway.brokers.tails import Shown
from headrace.model.identity import TopicPartition

LOOKED_AT_MAX: Final = 50_000
LOOKING_S_MAX: Final = 3.0
STEP_MIN: Final = 10
STEP_MAX: Final = 2_000
CHUNK: Final = 500
CHUNK_BYTES: Final = 4 * 1024 * 1024


@dataclass(slots=True)
class Found:
    """Records, the positions to go on from, how many records were looked at, and whether there is more in that direction."""

    records: list[dict[str, Any]]
    positions: dict[int, int]
    looked_at: int
    more: bool


class Filter:
    """`text` must be somewhere in key, value or headers; `where` is an expression."""

    def __init__(self, text: str | None, where: str | None) -> None:
        self._text = text.lower() if text else None
        self._where: Test | None = read_expression(where) if where else None

    def matches(self, document: dict[str, Any], raw: Shown) -> bool:
        if self._text is not None and not self._contains(document, raw):
            return False
        if self._where is None:
            return True
        headers = {each[0]: each[1] for each in document["headers"]}
        return self._where({**document, "header": headers})

    def _contains(self, document: dict[str, Any], raw: Shown) -> bool:
        """In what is shown, too: texts in Avro are not where bytes would be looked for, and what is hidden is not found."""
        assert self._text is not None
        shown = [document["key"], document["value"], document["headers"]]
        return any(self._text in str(each).lower() for each in shown)


class Search:
    """One look into a topic."""

    def __init__(self, cluster: Cluster, topic: str, decoder: Decoder, wanted: Filter, isolation: Isolation, raw: bool) -> None:
        self._cluster = cluster
        self._topic = topic
        self._decoder = decoder
        self._wanted = wanted
        self._isolation: Isolation = isolation
        self._raw = raw
        self._looked_at = 0
        self._until = time.monotonic() + LOOKING_S_MAX

    async def forwards(self, positions: dict[int, int], limit: int) -> Found:
        """The next records from positions on."""
        readers = Readers(self._cluster, self._topic, positions, self._isolation)
        found: list[dict[str, Any]] = []
        try:
            while len(found) < limit and not self._is_enough:
                some = await readers.read(records_max=min(CHUNK, limit - len(found)), bytes_max=CHUNK_BYTES, wait_s=0)
                if not some:
                    break
                found += await self._matching(some)
            following = readers.positions
        finally:
            readers.close()
        ends = await self._cluster.offsets(self._topic, LATEST, self._isolation, partitions=list(following))
        return Found(found, following, self._looked_at, any(following[each] < ends[each] for each in following))

    async def backwards(self, positions: dict[int, int], limit: int) -> Found:
        """The last records before positions, the newest first."""
        firsts = await self._cluster.offsets(self._topic, EARLIEST, partitions=list(positions))
        found: list[dict[str, Any]] = []
        step = max(STEP_MIN, -(-limit // max(1, len(positions))))
        while len(found) < limit and not self._is_enough and any(positions[each] > firsts[each] for each in positions):
            for partition, end in list(positions.items()):
                start = max(firsts[partition], end - step)
                if start < end:
                    found += await self._matching(await self._between(partition, start, end))
                    positions[partition] = start
            step = min(STEP_MAX, 2 * step)
        found.sort(key=lambda each: (each["timestamp"], each["offset"]), reverse=True)
        return Found(found, positions, self._looked_at, any(positions[each] > firsts[each] for each in positions))

    @property
    def _is_enough(self) -> bool:
        return self._looked_at >= LOOKED_AT_MAX or time.monotonic() >= self._until

    async def _between(self, partition: int, start: int, end: int) -> list[Shown]:
        place, offset = TopicPartition(self._topic, partition), start
        found: list[Shown] = []
        while offset < end:
            data = await self._cluster.fetch(place, offset, self._isolation, CHUNK_BYTES)
            raise_for(data.error_code, f"offset {offset} of partition {partition} of topic '{self._topic}'")
            some = decoded(data, offset, committed_only=self._isolation == "read_committed")
            found += [Shown(place, record) for record in some.records if record.offset < end]
            if some.next_offset <= offset:
                break
            offset = some.next_offset
        return found

    async def _matching(self, records: list[Shown]) -> list[dict[str, Any]]:
        self._looked_at += len(records)
        found = []
        for each in records:
            document = await self._decoder.document(each, raw=self._raw)
            if self._wanted.matches(document, each):
                found.append(document)
        return found

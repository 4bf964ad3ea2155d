"""Which schema ids are registered, as the registry's topic says it: for topics that take only records with one.

Known is what a replica of `_schemas` on this broker has, read on when an id comes that was not there.  A broker without a replica
of it cannot know, and lets every id pass.
"""

from typing import Final

import orjson

from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.replicas import Replicas
from headrace.log.cleaning.steps import Steps, finish
from headrace.model.identity import TopicPartition
from headrace.records.header import CONTROL_BIT, iterate_batches
from headrace.records.record import read_pairs

SCHEMAS: Final = TopicPartition("_schemas", 0)
READ_BYTES: Final = 65_536


class SchemaIds:
    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._partition: Partition | None = None
        self._next_offset = 0
        self._ids: set[int] = set()

    def has(self, id: int) -> bool:
        """Whether an id was ever given."""
        if id in self._ids:
            return True
        partition = self._replicas.get(SCHEMAS)
        if partition is None:
            return True
        finish(self.read_on())
        return id in self._ids or id in self._not_yet_settled(partition)

    def read_on(self) -> Steps[None]:
        """Learn what is new; the first time that is all there is."""
        partition = self._replicas.get(SCHEMAS)
        while partition is not None:
            if partition is not self._partition:
                self._partition, self._next_offset, self._ids = partition, 0, set()
            start = max(self._next_offset, partition.log.start_offset)
            ids, self._next_offset = _read(partition, start, partition.high_watermark)
            self._ids |= ids
            if self._next_offset <= start:
                return
            yield None
            partition = self._replicas.get(SCHEMAS)

    def _not_yet_settled(self, partition: Partition) -> set[int]:
        """A follower has a record before it hears that all others have it, too; whoever registered it may be here sooner."""
        return _read(partition, self._next_offset, partition.log.end_offset)[0]


def _read(partition: Partition, start: int, end: int) -> tuple[set[int], int]:
    """Ids in the next so many bytes, and where the rest begins."""
    if start >= end:
        return set(), start
    read = partition.log.read(start, max_bytes=READ_BYTES, up_to=end, at_least_one=True, as_stored=True)
    ids: set[int] = set()
    for header, batch in iterate_batches(read.data):
        if not header.attributes & CONTROL_BIT:
            ids |= _ids_in(batch)
    return ids, read.next_offset


def _ids_in(batch: memoryview) -> set[int]:
    found = set()
    for _, _, value in read_pairs(batch):
        try:
            told = orjson.loads(value or b"null")
        except orjson.JSONDecodeError:
            continue
        if isinstance(told, dict) and isinstance(told.get("id"), int):
            found.add(told["id"])
    return found

"""Which schema ids are registered, as the registry's topic says it: for topics that take only records with one.

Known is what a replica of `_schemas` on this broker has, read on when an id comes that was not there.  A broker without a replica
of it cannot know, and lets every id pass.
"""

from typing import Final

import orjson

from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.replicas import Replicas
from headrace.model.identity import TopicPartition
from headrace.records.header import CONTROL_BIT, iterate_batches
from headrace.records.record import read_pairs

SCHEMAS: Final = TopicPartition("_schemas", 0)
READ_BYTES: Final = 1_048_576


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
        if partition is not self._partition:
            self._partition, self._next_offset, self._ids = partition, partition.log.start_offset, set()
        self._read_on(partition)
        return id in self._ids

    def _read_on(self, partition: Partition) -> None:
        while self._next_offset < partition.high_watermark:
            read = partition.log.read(
                self._next_offset, max_bytes=READ_BYTES, up_to=partition.high_watermark, at_least_one=True, as_stored=True
            )
            if read.next_offset <= self._next_offset:
                break
            for header, batch in iterate_batches(read.data):
                if not header.attributes & CONTROL_BIT:
                    self._ids.update(_ids_in(batch))
            self._next_offset = read.next_offset


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

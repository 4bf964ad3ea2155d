"""Where this broker's logs are: a data directory, or memory.  Both offer the same, so nobody else need know which it is."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol
from uuid import UUID

from headrace.host.clock import Clock
from headrace.host.disk import Disk
from headrace.log.directory import LogDirectory
from headrace.log.interface import PartitionLog
from headrace.log.log import Log
from headrace.model.errors import StorageError
from headrace.model.identity import TopicPartition
from headrace.model.topic_settings import LogConfig

Wanted = tuple[str, UUID, int]
Opened = tuple[PartitionLog, StorageError | None]


class Storage(Protocol):
    """All logs of a broker.  Every call may block, except `name` and `high_watermark_checkpoint`."""

    name: str

    def adopt(self, cluster_id: str, broker_id: int) -> None:
        """Check that the logs belong to this cluster and broker, or write down that they do."""
        ...

    def open_many(self, wanted: list[Wanted], configs: Mapping[str, LogConfig]) -> list[Opened]:
        """Open, recover or create logs.  One that cannot be opened comes as an empty log with the reason."""
        ...

    def high_watermark_checkpoint(self, identity: TopicPartition) -> int: ...
    def remove(self, identity: TopicPartition, log: PartitionLog) -> None: ...
    def remove_unknown(self, known: Mapping[tuple[str, int], UUID]) -> None:
        """Finish what a crash interrupted: logs of topics that are gone."""
        ...

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int], logs: Mapping[TopicPartition, PartitionLog]) -> None: ...
    def space(self) -> tuple[int, int]:
        """Total and usable bytes; -1 where that has no meaning."""
        ...

    def close(self, high_watermarks: Mapping[TopicPartition, int], logs: Mapping[TopicPartition, PartitionLog]) -> None: ...


class MemoryStorage:
    """Logs that are gone with the process."""

    name = "memory"

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def adopt(self, cluster_id: str, broker_id: int) -> None:
        return

    def open_many(self, wanted: list[Wanted], configs: Mapping[str, LogConfig]) -> list[Opened]:
        return [(Log.in_memory(configs[name], clock=self._clock), None) for name, _, _ in wanted]

    def high_watermark_checkpoint(self, identity: TopicPartition) -> int:
        return 0

    def remove(self, identity: TopicPartition, log: PartitionLog) -> None:
        log.delete()

    def remove_unknown(self, known: Mapping[tuple[str, int], UUID]) -> None:
        return

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int], logs: Mapping[TopicPartition, PartitionLog]) -> None:
        return

    def space(self) -> tuple[int, int]:
        return -1, -1

    def close(self, high_watermarks: Mapping[TopicPartition, int], logs: Mapping[TopicPartition, PartitionLog]) -> None:
        return


class DiskStorage:
    """Logs in a data directory."""

    def __init__(self, path: Path, disk: Disk, clock: Clock) -> None:
        self.name = str(path.absolute())
        self._path = path
        self._disk = disk
        self._clock = clock
        self.directory = LogDirectory(path, disk, clock)

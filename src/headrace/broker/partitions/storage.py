"""Where this broker's logs are: a data directory, or memory.  Both offer the same, so nobody else need know which it is."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol
from uuid import UUID

from headrace.broker.health.reserve_file import ReserveFile
from headrace.controller.entries import Memory
from headrace.host.clock import Clock
from headrace.host.disk import Disk
from headrace.log.directory import LogDirectory
from headrace.log.durability.checkpoints import META_PROPERTIES
from headrace.log.interface import PartitionLog
from headrace.log.log import Log
from headrace.log.memory.memory_log import MemoryLog
from headrace.model.errors import StorageError
from headrace.model.identity import TopicPartition
from headrace.model.topic_settings import LogConfig

logger = logging.getLogger(__name__)

Wanted = tuple[str, UUID, int]
Opened = tuple[PartitionLog, StorageError | None]


class Storage(Protocol):
    """All logs of a broker.  Every call may block, except `name` and `high_watermark_checkpoint`."""

    name: str
    memory: Memory  # what is still there of the last time

    def adopt(self, cluster_id: str, broker_id: int) -> None:
        """Check that the logs belong to this cluster and broker, or write down that they do."""
        ...

    def open_many(self, wanted: Sequence[Wanted], configs: Mapping[str, LogConfig]) -> list[Opened]:
        """Open, recover or create logs.  One that cannot be opened comes as an empty log with the reason."""
        ...

    def high_watermark_checkpoint(self, identity: TopicPartition) -> int: ...
    def remove(self, identity: TopicPartition, log: PartitionLog) -> Callable[[], None] | None:
        """Let a partition go for good; what unlinks its files, where there are any."""
        ...

    def remove_unknown(self, known: Mapping[TopicPartition, UUID]) -> None:
        """Finish what a crash interrupted: logs of topics that are gone."""
        ...

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int], logs: Mapping[TopicPartition, PartitionLog]) -> None: ...
    def write_log_starts(self, logs: Mapping[TopicPartition, PartitionLog]) -> dict[TopicPartition, int]:
        """Make durable where logs begin; what was written of each.  Raises StorageError."""
        ...

    def missing(self) -> StorageError | None:
        """Why the logs are not there any more; None while they are."""
        ...

    def space(self) -> tuple[int, int]:
        """Total and usable bytes; -1 where that has no meaning.  Sees to the reserve, too.  Raises OSError."""
        ...

    def make_room(self) -> bool:
        """Something that must be written had no room: whether it is worth another try."""
        ...

    def close_many(self, logs: Mapping[TopicPartition, PartitionLog]) -> None:
        """Close some logs before the rest.  May run in several threads, for different logs."""
        ...

    def close(self, high_watermarks: Mapping[TopicPartition, int], logs: Mapping[TopicPartition, PartitionLog]) -> None: ...
    def give_up(self) -> None:
        """From any thread: whatever is being opened need not be opened any more.  Does not block."""
        ...

    def release(self) -> None:
        """Let go without writing anything down."""
        ...


class MemoryStorage:
    """Logs that are gone with the process."""

    name = "memory"
    memory = Memory.NOTHING

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def adopt(self, cluster_id: str, broker_id: int) -> None:
        return

    def open_many(self, wanted: Sequence[Wanted], configs: Mapping[str, LogConfig]) -> list[Opened]:
        return [(MemoryLog(configs[name], clock=self._clock), None) for name, _, _ in wanted]

    def high_watermark_checkpoint(self, identity: TopicPartition) -> int:
        return 0

    def remove(self, identity: TopicPartition, log: PartitionLog) -> Callable[[], None] | None:
        log.delete()
        return None

    def remove_unknown(self, known: Mapping[TopicPartition, UUID]) -> None:
        return

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int], logs: Mapping[TopicPartition, PartitionLog]) -> None:
        return

    def write_log_starts(self, logs: Mapping[TopicPartition, PartitionLog]) -> dict[TopicPartition, int]:
        return {identity: log.start_offset for identity, log in logs.items()}

    def missing(self) -> StorageError | None:
        return None

    def space(self) -> tuple[int, int]:
        return -1, -1

    def make_room(self) -> bool:
        return False

    def close_many(self, logs: Mapping[TopicPartition, PartitionLog]) -> None:
        return

    def close(self, high_watermarks: Mapping[TopicPartition, int], logs: Mapping[TopicPartition, PartitionLog]) -> None:
        return

    def give_up(self) -> None:
        return

    def release(self) -> None:
        return


class DiskStorage:
    """Logs in a data directory."""

    def __init__(self, path: Path, disk: Disk, clock: Clock) -> None:
        self.name = str(path.absolute())
        self._clock = clock
        self._disk = disk
        is_new = not disk.exists(path / META_PROPERTIES)
        self.directory = LogDirectory(path, disk, clock)
        self._reserve = ReserveFile(path, disk)
        if is_new:
            self.memory = Memory.NOTHING
        else:
            self.memory = Memory.ALL if self.directory.was_clean else Memory.FLUSHED
        try:
            self.space()
            self.directory.finish_deletions()
        except BaseException:
            self.directory.release()
            raise

    def adopt(self, cluster_id: str, broker_id: int) -> None:
        self.directory.adopt(cluster_id, broker_id)

    def open_many(self, wanted: Sequence[Wanted], configs: Mapping[str, LogConfig]) -> list[Opened]:
        return [self._open(TopicPartition(name, index), topic_id, configs[name]) for name, topic_id, index in wanted]

    def _open(self, identity: TopicPartition, topic_id: UUID, config: LogConfig) -> Opened:
        try:
            self._make_way(identity, topic_id)
            return self.directory.open_log(identity, topic_id, config), None
        except StorageError as error:
            return MemoryLog(config, clock=self._clock), error

    def _make_way(self, identity: TopicPartition, topic_id: UUID) -> None:
        """A topic of the same name was deleted while this broker was away: its log goes before the new one begins."""
        found = self.directory.topic_id_of(identity)
        if found is not None and found != topic_id:
            logger.info("%s belonged to a topic that was deleted; removing it", identity)
            self.directory.delete_log(identity)

    def high_watermark_checkpoint(self, identity: TopicPartition) -> int:
        return self.directory.high_watermark(identity)

    def remove(self, identity: TopicPartition, log: PartitionLog) -> Callable[[], None] | None:
        if isinstance(log, Log):
            log.release()
        put_aside = self.directory.put_aside(identity)
        return None if put_aside is None else partial(self.directory.remove_put_aside, put_aside)

    def remove_unknown(self, known: Mapping[TopicPartition, UUID]) -> None:
        for identity in self.directory.partitions():
            if (identity.topic, identity.partition) not in known:
                logger.info("%s is not in the cluster's metadata any more; removing it", identity)
                self.directory.delete_log(identity)

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int], logs: Mapping[TopicPartition, PartitionLog]) -> None:
        self.directory.checkpoint(logs, high_watermarks)

    def write_log_starts(self, logs: Mapping[TopicPartition, PartitionLog]) -> dict[TopicPartition, int]:
        return self.directory.write_log_starts(logs)

    def missing(self) -> StorageError | None:
        mark = self.directory.path / META_PROPERTIES
        # A disk that was unmounted leaves an empty directory behind, and one that fails may still list its names.
        try:
            if self._disk.exists(mark) and self._disk.read_bytes(mark):
                return None
            return StorageError(mark, "looking for the data directory")
        except OSError as error:
            return StorageError(mark, "looking for the data directory", error)

    def space(self) -> tuple[int, int]:
        return self._reserve.keep()

    def make_room(self) -> bool:
        return self._reserve.give_up()

    def close_many(self, logs: Mapping[TopicPartition, PartitionLog]) -> None:
        self.directory.close_logs(logs)

    def close(self, high_watermarks: Mapping[TopicPartition, int], logs: Mapping[TopicPartition, PartitionLog]) -> None:
        self.directory.close(logs, high_watermarks)

    def give_up(self) -> None:
        self.directory.give_up()

    def release(self) -> None:
        self.directory.release()

"""One data directory: the logs in it, whose it is, and what the next start needs to know.

Always: one process at a time (a lock); the clean-shutdown mark exists only while no log is open.  Names and forms of the files
are Kafka's; `checksums` beside them tells a flipped bit.
"""

import fcntl
import logging
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from uuid import NAMESPACE_URL, UUID, uuid5

from headrace.host.clock import Clock
from headrace.host.disk import Disk, File, is_full
from headrace.log.durability.checkpointed_offsets import CheckpointedOffsets
from headrace.log.durability.checkpoints import (
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    PARTITION_METADATA,
    decode_partition_metadata,
    decode_properties,
    encode_partition_metadata,
    encode_properties,
    encode_topic_id,
)
from headrace.log.durability.checksums import Checksums
from headrace.log.interface import PartitionLog
from headrace.log.log import Log
from headrace.log.segments.files import OPEN_FILES_MAX, FilePool
from headrace.model.errors import NoRoom, StorageError
from headrace.model.identity import TopicPartition
from headrace.model.topic_settings import LogConfig

logger = logging.getLogger(__name__)

LOCK_NAME: Final = ".lock"
DELETE_SUFFIX: Final = "-delete"
_FILE_NAME_MAX = 255


class DirectoryInUse(StorageError):
    """Another process serves this data directory."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "locking the data directory")
        self.args = (f"another broker is using the data directory {path}; stop that one, or choose another directory",)


class DirectoryMismatch(StorageError):
    """The data directory belongs to another cluster or broker."""


class LogDirectory:
    """A data directory, locked from construction to `close`.  Every call may block."""

    def __init__(self, path: Path, disk: Disk, clock: Clock, *, open_files_max: int = OPEN_FILES_MAX) -> None:
        self.path = path
        self.disk = disk
        self.clock = clock
        self.files = FilePool(disk, open_files_max)
        self._guard = threading.Lock()
        self._deletions = 0
        # What was opened since the start: the clean-shutdown mark no longer speaks of it.
        self._opened: set[TopicPartition] = set()
        # The log that is served under each name now: one of a topic that was deleted has no say any more.
        self._logs: dict[TopicPartition, Log] = {}
        self._closed: set[TopicPartition] = set()
        self._closes_clean = True
        self._has_mark = True
        self._lock: File | None = None
        try:
            self._make_durable_directory()
            self._lock = disk.open(path / LOCK_NAME, create=True)
            self._take_lock()
            self._checksums = Checksums(path, disk)
            was_marked = disk.exists(path / CLEAN_SHUTDOWN) and not self._checksums.is_broken
            self._offsets = CheckpointedOffsets(path, self._checksums, self._guard)
            self.was_clean = was_marked and self._offsets.are_believed
        except OSError as error:
            self._unlock()
            raise StorageError(path, "opening the data directory", error) from error
        except BaseException:
            self._unlock()
            raise

    def __repr__(self) -> str:
        return f"<data directory {self.path}: {len(self._logs)} logs>"

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _take_mark_away(self) -> None:
        """Before the first log is touched: from here on a crash is a crash."""
        with self._guard:
            if self._has_mark:
                self.disk.remove(self.path / CLEAN_SHUTDOWN)
                self.disk.sync_directory(self.path)
                self._has_mark = False

    def give_up(self) -> None:
        """Whoever opens logs in here, in other threads, stops with that: the start has failed."""
        self.files.giving_up.set()

    def _make_durable_directory(self) -> None:
        """A directory is durable once the one it lies in is synced; else a power failure takes it, with all that is in it."""
        created = [path for path in (self.path, *self.path.parents) if not self.disk.exists(path)]
        self.disk.make_directory(self.path)
        for path in created:
            self.disk.sync_directory(path.parent)

    def _take_lock(self) -> None:
        descriptor = None if self._lock is None else self._lock.descriptor()
        if descriptor is None:
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DirectoryInUse(self.path) from None

    # -- whose it is

    def adopt(self, cluster_id: str, broker_id: int) -> None:
        """Check that the directory belongs to this cluster and broker, or write down that it does now."""
        wanted = {"version": "1", "cluster.id": cluster_id, "node.id": str(broker_id)}
        try:
            text = self._checksums.read(META_PROPERTIES)
            found = decode_properties(text) if text is not None else {}
        except ValueError as error:
            raise DirectoryMismatch(self.path / META_PROPERTIES, f"reading it ({error})") from error
        for name in ("cluster.id", "node.id"):
            if name in found and found[name] != wanted[name]:
                mismatch = DirectoryMismatch(self.path, "using the data directory")
                mismatch.args = (
                    f"{self.path} belongs to {name} {found[name]}, but this broker's is {wanted[name]}; "
                    f"use {name}={found[name]} or another --data",
                )
                raise mismatch
        if not found:
            directory_id = encode_topic_id(uuid5(NAMESPACE_URL, f"{cluster_id}/{broker_id}/{self.path}/{self.clock.wall_ms()}"))
            self._write(META_PROPERTIES, encode_properties(wanted | {"directory.id": directory_id}))

    @property
    def properties(self) -> dict[str, str]:
        text = self._checksums.read(META_PROPERTIES)
        return decode_properties(text) if text is not None else {}

    def _write(self, name: str, data: bytes) -> None:
        try:
            with self._guard:
                self._checksums.write({name: data})
        except OSError as error:
            raise StorageError(self.path / name, "writing", error) from error

    # -- the logs in it

    def partitions(self) -> dict[TopicPartition, UUID | None]:
        """The partitions that have a directory, each with its topic's id (None when that cannot be read)."""
        found: dict[TopicPartition, UUID | None] = {}
        for name in self.disk.list_names(self.path):
            identity = parse_directory_name(name)
            if identity is not None:
                found[identity] = self.topic_id_of(identity)
        return found

    def topic_id_of(self, identity: TopicPartition) -> UUID | None:
        """The id of the topic that a partition's directory belongs to; None when there is none, or none that can be read."""
        try:
            # A power failure may take the checksums of a directory, never this file: it was synced with the first record.
            text = Checksums(self.directory_of(identity), self.disk).read(PARTITION_METADATA, unchecked=True)
            return decode_partition_metadata(text) if text is not None else None
        except ValueError as error:
            logger.warning("%s: %s", identity, error)
            return None

    def directory_of(self, identity: TopicPartition) -> Path:
        return self.path / str(identity)

    def open_log(self, identity: TopicPartition, topic_id: UUID | None, config: LogConfig) -> Log:
        """Open, recover or begin the log of a partition.  StorageError when it cannot be."""
        directory = self.directory_of(identity)
        if self.files.giving_up.is_set():
            raise StorageError(directory, "opening the log: the start was given up, and it")
        try:
            self._take_mark_away()
            is_new = not self.disk.exists(directory)
            if is_new:
                self._offsets.forget_namesake(identity)
            found = None if is_new else self.topic_id_of(identity)
            if found is not None and topic_id is not None and found != topic_id:
                raise StorageError(directory, f"opening the log: it belongs to a topic with id {encode_topic_id(found)}, and")
            log = Log.open(
                directory,
                config,
                disk=self.disk,
                clock=self.clock,
                clean=self.was_clean and identity in self._offsets.recovery_points and identity not in self._opened,
                recovery_point=self._offsets.recovery_points.get(identity, 0),
                start_offset=self._offsets.log_starts.get(identity),
                files=self.files,
                before_truncation=lambda offset: self._offsets.lower(identity, offset),
            )
            log.segments.clean_offset = max(log.start_offset, min(self._offsets.clean_offsets.get(identity, 0), log.end_offset))
            if found is None and topic_id is not None:
                log.write_partition_metadata(PARTITION_METADATA, encode_partition_metadata(topic_id))
            self._opened.add(identity)
            self._logs[identity] = log
            return log
        except OSError as error:
            raise (NoRoom if is_full(error) else StorageError)(directory, "opening the log", error) from error

    def delete_log(self, identity: TopicPartition) -> None:
        """Remove a partition and its files."""
        put_aside = self.put_aside(identity)
        if put_aside is not None:
            self.remove_put_aside(put_aside)

    def put_aside(self, identity: TopicPartition) -> Path | None:
        """Remove a partition; where its files are that are still to be removed.  From now on a crash cannot bring it back."""
        directory = self.directory_of(identity)
        renamed = None
        with self._guard:
            self._logs.pop(identity, None)
        try:
            if self.disk.exists(directory):
                self._take_mark_away()
                renamed = self.path / self._deleted_name(identity)
                self.disk.rename(directory, renamed)
                self.disk.sync_directory(self.path)
        except OSError as error:
            raise StorageError(directory, "deleting the log", error) from error
        self._offsets.forget(identity)
        return renamed

    def remove_put_aside(self, path: Path) -> None:
        """Remove the files of a partition that is gone."""
        try:
            self.disk.remove_tree(path)
        except OSError as error:
            raise StorageError(path, "deleting", error) from error

    def _deleted_name(self, identity: TopicPartition) -> str:
        with self._guard:
            self._deletions += 1
            unique = uuid5(NAMESPACE_URL, f"{identity}/{self.clock.wall_ms()}/{self._deletions}").hex
        suffix = f"-{identity.partition}.{unique}{DELETE_SUFFIX}"
        return identity.topic[: _FILE_NAME_MAX - len(suffix)] + suffix

    def finish_deletions(self) -> None:
        """Remove what a crash left half deleted, and what was put aside and waited for its delay to be over."""
        for name in self.disk.list_names(self.path):
            if name.endswith(DELETE_SUFFIX):
                self.remove_put_aside(self.path / name)

    # -- what the next start needs to know

    def high_watermark(self, identity: TopicPartition) -> int:
        """The high watermark written down last; 0 when there is none."""
        return self._offsets.high_watermarks.get(identity, 0)

    def checkpoint(
        self,
        logs: Mapping[TopicPartition, PartitionLog],
        high_watermarks: Mapping[TopicPartition, int],
        *,
        closed: bool = False,
    ) -> None:
        """Write down how far every log is.  Logs that are offline keep what was written before."""
        points: dict[TopicPartition, int] = {}
        for identity, log in logs.items():
            if isinstance(log, Log) and log.failure is None:
                try:
                    points[identity] = log.flushed_offset if closed else log.checkpoint()
                except StorageError as error:
                    # One that was deleted meanwhile has nothing left to write down.
                    if self.disk.exists(log.directory):
                        logger.error("%s: %s", identity, error)
        offsets = self._offsets
        with self._guard:
            offsets.high_watermarks.update(high_watermarks)
            for identity, log in logs.items():
                if not isinstance(log, Log) or log.failure is not None or self._logs.get(identity) is not log:
                    continue
                # A log that was cut meanwhile, or is about to be, has lowered its own point: that one counts.
                if identity in points:
                    offsets.recovery_points[identity] = min(points[identity], log.settled_end)
                offsets.log_starts[identity] = min(log.start_offset, log.settled_end)
                offsets.clean_offsets[identity] = log.segments.clean_offset
        offsets.write()

    def write_log_starts(self, logs: Mapping[TopicPartition, PartitionLog]) -> dict[TopicPartition, int]:
        """Write down where logs begin now, before anybody is promised that what lies below is gone; what was written of each."""
        with self._guard:
            starts = {
                identity: min(log.start_offset, log.settled_end)
                for identity, log in logs.items()
                if isinstance(log, Log) and self._logs.get(identity) is log
            }
            self._offsets.write_log_starts(starts)
        return starts

    def close_logs(self, logs: Mapping[TopicPartition, PartitionLog]) -> None:
        """Close some logs ahead of `close`; different ones may be closed in threads of their own."""
        for identity, log in logs.items():
            try:
                if log.failure is not None:
                    self._closes_clean = False
                log.close()
            except StorageError as error:
                logger.error("%s could not be closed: %s", identity, error)
                self._closes_clean = False
            self._closed.add(identity)

    def close(self, logs: Mapping[TopicPartition, PartitionLog], high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Close every log that is not closed yet, leave the clean-shutdown mark if all went well, and unlock."""
        self.close_logs({identity: log for identity, log in logs.items() if identity not in self._closed})
        try:
            self.checkpoint(logs, high_watermarks, closed=True)
            if self._closes_clean and self._knows_all():
                self.disk.write_atomically(self.path / CLEAN_SHUTDOWN, b'{"version":0,"brokerEpoch":-1}')
        except (StorageError, OSError) as error:
            logger.error("%s: the next start will read more than it need: %s", self.path, error)
        self.release()

    def _knows_all(self) -> bool:
        """Whether every log in here was closed well: this time, or the last time and not opened since."""
        if self._logs.keys() - self._closed:
            return False
        there = {identity for name in self.disk.list_names(self.path) if (identity := parse_directory_name(name)) is not None}
        return self.was_clean or there <= self._opened

    def release(self) -> None:
        """Unlock without leaving a mark, or taking away one that still holds."""
        self._unlock()


def parse_directory_name(name: str) -> TopicPartition | None:
    """The partition a directory's name stands for; None for every other name."""
    topic, dash, partition = name.rpartition("-")
    if not dash or not topic or not partition.isdecimal() or name.endswith(DELETE_SUFFIX):
        return None
    return TopicPartition(topic, int(partition))

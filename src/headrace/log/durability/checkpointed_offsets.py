"""What the next start needs to know of every log in a data directory, in four files of offsets, as Kafka has them.

Always: recovery points lie at or below what is durable, and neither they nor the log starts beyond where their log is about to
be cut.  Every call may block; what changes the maps holds `guard`, which is the directory's.
"""

import logging
import threading
from collections.abc import Mapping
from pathlib import Path

from headrace.host.disk import is_full
from headrace.log.durability.checkpoints import (
    CLEAN_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    decode_offsets,
    encode_offsets,
)
from headrace.log.durability.checksums import Checksums
from headrace.model.errors import NoRoom, StorageError
from headrace.model.identity import TopicPartition

logger = logging.getLogger(__name__)


class CheckpointedOffsets:
    """As they are in memory, and how they come to the files."""

    def __init__(self, path: Path, checksums: Checksums, guard: threading.Lock) -> None:
        self.guard = guard
        self._path = path
        self._checksums = checksums
        # Whether what the clean-shutdown mark says of logs can be believed.
        self.are_believed = True
        self.recovery_points = self._load(RECOVERY_POINTS)
        self.high_watermarks = self._load(HIGH_WATERMARKS)
        self.log_starts = self._load(LOG_STARTS)
        self.clean_offsets = self._load(CLEAN_OFFSETS)
        # Deleted partitions that the files still name.
        self._stale: set[TopicPartition] = set()

    def __repr__(self) -> str:
        return f"<checkpoints of {len(self.recovery_points)} logs>"

    def _load(self, name: str) -> dict[TopicPartition, int]:
        """A checkpoint that cannot be believed counts as empty: more is read than needed, nothing is lost."""
        try:
            text = self._checksums.read(name)
            return decode_offsets(text) if text is not None else {}
        except ValueError as error:
            logger.warning("%s is not believed: %s", name, error)
            if name == RECOVERY_POINTS:
                self.are_believed = False
            return {}

    def lower(self, identity: TopicPartition, offset: int) -> None:
        """Before a log is cut: a recovery point beyond its end would look like loss, and so would a log start, of what comes."""
        with self.guard:
            lowered = {}
            for name, offsets in ((RECOVERY_POINTS, self.recovery_points), (LOG_STARTS, self.log_starts)):
                if offsets.get(identity, 0) > offset:
                    offsets[identity] = offset
                    lowered[name] = encode_offsets(dict(offsets))
            if lowered:
                self._checksums.write(lowered)

    def forget(self, identity: TopicPartition) -> None:
        """A partition is gone; the files are written anew before another takes its name, or with the next checkpoint."""
        self._pop(identity)
        self._stale.add(identity)

    def forget_namesake(self, identity: TopicPartition) -> None:
        """A new partition must not inherit the recovery point or log start of a deleted one of the same name."""
        if self._pop(identity) or identity in self._stale:
            self.write()

    def _pop(self, identity: TopicPartition) -> bool:
        was_there = False
        for offsets in (self.recovery_points, self.high_watermarks, self.log_starts, self.clean_offsets):
            was_there |= offsets.pop(identity, None) is not None
        return was_there

    def write(self) -> None:
        written = set(self._stale)
        maps = {
            HIGH_WATERMARKS: self.high_watermarks,
            LOG_STARTS: self.log_starts,
            CLEAN_OFFSETS: self.clean_offsets,
            RECOVERY_POINTS: self.recovery_points,
        }
        try:
            with self.guard:
                self._checksums.write({name: encode_offsets(dict(offsets)) for name, offsets in maps.items()})
        except OSError as error:
            raise (NoRoom if is_full(error) else StorageError)(self._path, "writing checkpoints", error) from error
        self._stale -= written

    def write_log_starts(self, starts: Mapping[TopicPartition, int]) -> None:
        """Those alone; whoever calls holds `guard`."""
        self.log_starts.update(starts)
        try:
            self._checksums.write({LOG_STARTS: encode_offsets(dict(self.log_starts))})
        except OSError as error:
            kind = NoRoom if is_full(error) else StorageError
            raise kind(self._path / LOG_STARTS, "writing down where logs begin", error) from error

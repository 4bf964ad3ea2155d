"""A file that takes up room for nothing, so that there is some to give when others have filled the disk.

`log.dir.reserved.bytes` is kept free by this broker alone; any other process may take it.  Then even a deletion fails, for it is
written down before it happens.  This file is given up then: the metadata, the checkpoints and the deletions use its room until
there is enough to make it again.

Always: room that belongs to the file is not offered to anybody's records, whether the file is there or not.
"""

import logging
import random
import threading
from pathlib import Path

from headrace.host.disk import Disk

logger = logging.getLogger(__name__)

NAME = "reserve"
BYTES_MAX = 1024 * 1024
SHARE = 32  # of the file system at most, on small ones
LOW = 2  # given up when less than half of it is free


class ReserveFile:
    """May be used in any thread.  Every call may block."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        self._directory = directory
        self._path = directory / NAME
        self._disk = disk
        self._guard = threading.Lock()

    def keep(self) -> tuple[int, int]:
        """Make the file or give it up, as there is room; the disk's total bytes, and those free for others.  Raises OSError."""
        with self._guard:
            total, free = self._disk.total_bytes(self._directory), self._disk.free_bytes(self._directory)
            wanted, size = min(BYTES_MAX, total // SHARE), self._size()
            if size and (free < wanted // LOW or size > wanted):
                self._remove()
                free, size = self._disk.free_bytes(self._directory), 0
            if size < wanted and free >= 2 * wanted and self._make(wanted):
                free, size = self._disk.free_bytes(self._directory), wanted
            return total, max(0, free - max(0, wanted - size))

    def give_up(self) -> bool:
        """Something had no room; whether it has some now."""
        with self._guard:
            return self._size() > 0 and self._remove()

    def _size(self) -> int:
        return self._disk.size(self._path) if self._disk.exists(self._path) else 0

    def _remove(self) -> bool:
        try:
            self._disk.remove(self._path)
        except OSError as error:
            logger.warning("%s could not be given up: %s", self._path, error)
            return False
        return True

    def _make(self, size: int) -> bool:
        # Not zeros: a file system that compresses, or leaves holes, would reserve nothing for them.  It need not survive a
        # power failure, so nothing is synced.
        try:
            file = self._disk.open(self._path, create=True)
            try:
                file.truncate(0)
                file.append([random.Random(size).randbytes(size)])
            finally:
                file.close()
        except OSError:
            return not self._remove()
        return True

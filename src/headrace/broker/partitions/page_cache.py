"""Which parts of the logs are in memory, as far as one can tell: what was written last, by all partitions together.

The operating system keeps what was written until newer bytes want its room.  So what counts for a record is how many bytes were
written anywhere since.  Each partition remembers at a few of its offsets how many had been written in all when it got there.
"""

from bisect import bisect_right
from typing import Final, NamedTuple

# So finely it is known when something was written, in parts of the whole.
GRAINS: Final = 256


class PageCache:
    """How much there is room for, and how much was written, by all partitions together."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.grain = max(1, bytes_max // GRAINS)
        self.bytes_written = 0


class _Point(NamedTuple):
    """When the partition's end was at this offset, so many bytes had been written in all."""

    offset: int
    bytes_written: int


class WrittenLately:
    """One partition's part in it.  What is found at a start counts as written then, in the order of the partitions."""

    def __init__(self, cache: PageCache, start_offset: int, end_offset: int, size_bytes: int) -> None:
        self._cache = cache
        self._end_offset = end_offset
        self._size = size_bytes
        self._points = [_Point(start_offset, cache.bytes_written), _Point(end_offset, cache.bytes_written + size_bytes)]
        cache.bytes_written += size_bytes
        self._grown_at = cache.bytes_written
        # Once more than this was written in all, the next growth begins at a point of its own.
        self._point_at = self._points[-1].bytes_written + cache.grain

    def note(self, end_offset: int, size_bytes: int) -> None:
        """The partition has grown."""
        cache = self._cache
        if cache.bytes_written > self._point_at:
            # When it last grew, and from when it grows again: others may have written much between.
            self._points += (_Point(self._end_offset, self._grown_at), _Point(self._end_offset, cache.bytes_written))
            self._point_at = cache.bytes_written + cache.grain
            if len(self._points) > 4 * GRAINS:
                self._forget()
        if size_bytes > self._size:
            cache.bytes_written += size_bytes - self._size
        self._end_offset = end_offset
        self._size = size_bytes
        self._grown_at = cache.bytes_written

    def is_warm(self, offset: int) -> bool:
        """Whether what lies at an offset is likely to be in memory."""
        cache = self._cache
        return cache.bytes_written <= cache.bytes_max or cache.bytes_written - self._written_at(offset) <= cache.bytes_max

    def _written_at(self, offset: int) -> int:
        points = self._points
        index = bisect_right(points, offset, key=lambda point: point.offset)
        if index == 0:
            return points[0].bytes_written - self._cache.bytes_max
        if index == len(points):
            return points[-1].bytes_written
        before, after = points[index - 1], points[index]
        share = (offset - before.offset) / max(1, after.offset - before.offset)
        return before.bytes_written + int(share * (after.bytes_written - before.bytes_written))

    def _forget(self) -> None:
        """Points before which everything is out of memory anyway."""
        oldest = self._cache.bytes_written - self._cache.bytes_max
        keep = max(0, bisect_right(self._points, oldest, key=lambda point: point.bytes_written) - 1)
        del self._points[:keep]

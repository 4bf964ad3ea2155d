"""Whether the disk of the logs has room for more, and what is refused when it has not.

Below `log.dir.reserved.bytes` of free room, clients' records are refused: with KAFKA_STORAGE_ERROR, which every client takes for
a passing trouble of the disk, and tries again after a look at who leads.  The coordinators' own records and the markers of
transactions, which are small and keep groups and readers going, may use the reserve down to a quarter; what is left is for the
metadata and the checkpoints.  Reads, deletions, retention and compaction go on.  What another in-sync replica with room can
lead is handed to it.

Always: what is appended between two looks at the disk is counted, and what does not fit is not begun, so the reserve is not
overrun while nobody looks.  After a write that the disk refused all the same, somebody looks at once.
"""

from collections.abc import Callable, Iterable

from headrace.model.errors import DiskFull

GIB = 1024**3
RESERVED_SHARE = 100  # of the file system, if nobody says how much, and
RESERVED_BYTES_MAX = GIB
RESERVED_FOR_METADATA = 4  # a quarter of the reserve
# Room again is a little more than enough: else a broker at the limit is degraded, and not, with every segment.
ENOUGH_SHARE = 20
UNLIMITED = float("inf")
FULL = "disk is full"  # how a reason begins by which the others know it
# After a write that the disk refused, whatever it says about itself: twice as long each time, until it is well for a while.
PAUSE_S = 1.0
PAUSE_S_MAX = 8.0


def reserve_of(total: int, wanted: int) -> int:
    """How many bytes stay free; `wanted` is what was set, -1 for what suits the disk."""
    return wanted if wanted >= 0 else min(total // RESERVED_SHARE, RESERVED_BYTES_MAX)


class DiskSpace:
    """What is known of the room on the disk.  Belongs to the event loop's thread."""

    def __init__(self, name: str, wanted: Callable[[], int], now: Callable[[], float]) -> None:
        """`wanted` is `log.dir.reserved.bytes` as it is now."""
        self._name = name
        self._wanted = wanted
        self._now = now
        self.total = self.free = -1
        self._reserve = 0
        # How much clients may still write.  Whoever appends takes it off.
        self.left = UNLIMITED
        self._refused_until = float("-inf")
        self._was_refused = False
        self._pause_s = PAUSE_S
        # What is to fit, besides the reserve, before there is room again.
        self._needed = 0
        # Called when the disk is to be looked at now.
        self.on_refused: Callable[[], object] = lambda: None

    def measured(self, total: int, free: int) -> None:
        """Somebody looked at the disk; -1 where that has no meaning."""
        self.total, self.free = total, free
        if total < 0:
            return
        reserve = self._reserve = reserve_of(total, self._wanted())
        enough = reserve + reserve // ENOUGH_SHARE + min(self._needed, reserve) if self.is_short else reserve
        if free < enough or not self.may_try:
            self.left = min(0, free - reserve)
        else:
            self.left = free - reserve
            self._was_refused = False
            self._needed = 0

    def refused(self, size: int = 0) -> None:
        """The disk had no room for a write of some bytes, however much it seemed to have."""
        now = self._now()
        if now >= self._refused_until:
            is_again = now - self._refused_until < PAUSE_S_MAX
            self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX) if is_again else PAUSE_S
            self._refused_until = now + self._pause_s
        self._was_refused = True
        self._run_short(size)
        self.on_refused()

    def _run_short(self, size: int) -> None:
        self._needed = max(self._needed, size)
        self.left = min(self.left, 0)

    @property
    def may_try(self) -> bool:
        """Whether what the disk refused last may be tried again."""
        return self._now() >= self._refused_until

    @property
    def is_short(self) -> bool:
        return self.left <= 0

    def has_room(self, size: int = 1, *, for_clients: bool) -> bool:
        return self.left >= size or (
            not for_clients and self.may_try and self.left + self._reserve - self._reserve // RESERVED_FOR_METADATA >= size
        )

    def require_room(self, size: int = 1, *, for_clients: bool) -> None:
        """Raise DiskFull when so many bytes do not fit.  A disk that lacks little room for them is full for all."""
        if self.has_room(size, for_clients=for_clients):
            return
        if self.left < min(size, self._reserve):
            self._run_short(size)
        raise DiskFull(f"The {self.why_short()}.")

    def why_short(self) -> str:
        """In words for people."""
        if self._was_refused and self.free > self._reserve:
            return f"{FULL}: a write failed in {self._name} because the disk is full; it is tried again every few seconds"
        free = in_units(min(self.free, int(self.left) + self._reserve))
        return (
            f"{FULL}: {free} are free in {self._name} and {in_units(self._reserve)} are reserved "
            "(log.dir.reserved.bytes); writes are refused until there is room"
        )


def says_full(degraded: Iterable[str]) -> bool:
    """Whether these are the reasons of a broker whose disk is full."""
    return any(reason.startswith(FULL) for reason in degraded)


def in_units(size: int) -> str:
    """Bytes as people write them."""
    for factor, unit in ((GIB, "GiB"), (1024**2, "MiB"), (1024, "KiB")):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{max(0, size)} bytes"

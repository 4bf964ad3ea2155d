"""Deadlines by name.  Setting one again moves it; a deadline that was moved or cancelled never fires.

What always holds: `next_deadline` is the earliest deadline set and not cancelled, or None.
"""

from enum import Enum, auto
from heapq import heapify, heappop, heappush
from typing import NamedTuple


class Timer(Enum):
    """What a deadline is about."""

    SESSION = auto()  # a member has not been heard of
    JOIN = auto()  # a classic group waits for members to join; detail: the initial delay's state, or None
    SYNC = auto()  # a classic group waits for members to sync; detail: the generation
    REBALANCE = auto()  # a member of a consumer group must give up partitions; detail: its epoch
    CLASSIC_JOIN = auto()  # a classic member of a consumer group must join again
    CLASSIC_SYNC = auto()  # a classic member of a consumer group must sync
    DOWNGRADED = auto()  # a group has just become classic and its members must rebalance
    EXPIRY = auto()  # time to look for expired offsets


class TimerKey(NamedTuple):
    kind: Timer
    group_id: str = ""
    member_id: str = ""


class Due(NamedTuple):
    """A deadline that has passed."""

    key: TimerKey
    detail: object


class Timers:
    """A heap of deadlines in which cancelled ones stay until they surface or outnumber the live ones."""

    def __init__(self) -> None:
        self._live: dict[TimerKey, tuple[float, int, object]] = {}
        self._heap: list[tuple[float, int, TimerKey]] = []
        self._sequence = 0

    def set(self, key: TimerKey, deadline: float, detail: object = None) -> None:
        self._sequence += 1
        self._live[key] = (deadline, self._sequence, detail)
        heappush(self._heap, (deadline, self._sequence, key))
        if len(self._heap) > 64 + 4 * len(self._live):
            self._sweep()

    def set_if_absent(self, key: TimerKey, deadline: float, detail: object = None) -> None:
        if key not in self._live:
            self.set(key, deadline, detail)

    def cancel(self, key: TimerKey) -> None:
        self._live.pop(key, None)

    def cancel_member(self, group_id: str, member_id: str) -> None:
        for kind in (Timer.SESSION, Timer.REBALANCE, Timer.CLASSIC_JOIN, Timer.CLASSIC_SYNC):
            self.cancel(TimerKey(kind, group_id, member_id))

    def cancel_group(self, group_id: str) -> None:
        """Forget what concerns the group as a whole; members have theirs cancelled one by one."""
        for kind in (Timer.JOIN, Timer.SYNC, Timer.DOWNGRADED):
            self.cancel(TimerKey(kind, group_id))

    def next_deadline(self) -> float | None:
        while self._heap:
            deadline, sequence, key = self._heap[0]
            live = self._live.get(key)
            if live is not None and live[1] == sequence:
                return deadline
            heappop(self._heap)
        return None

    def pop_due(self, now: float) -> Due | None:
        """Take the earliest deadline that has passed."""
        deadline = self.next_deadline()
        if deadline is None or deadline > now:
            return None
        key = heappop(self._heap)[2]
        return Due(key, self._live.pop(key)[2])

    def _sweep(self) -> None:
        self._heap = [(deadline, sequence, key) for key, (deadline, sequence, _) in self._live.items()]
        heapify(self._heap)

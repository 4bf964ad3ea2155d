"""What happens often is told once in a while: the first at once, those like it together at the end of a window.

No more than so many kinds are held at a time, and no more than a part of them of one owner: what an owner does beyond that is one
kind more.  What there is no room for at all is counted, and the count is told.
"""

from collections import Counter
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from headrace.declaring import dataclass

WINDOW_MS: Final = 60_000
KINDS_MAX: Final = 1000
KINDS_OF_ONE_MAX: Final = 100  # whoever asks for a thousand names must not keep others from being told of

_OTHERS: Final = object()

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Batch(Generic[T]):
    """Some that are alike: one of them, how many, and when the first and the last were."""

    sample: T
    count: int
    first_ms: int
    last_ms: int


@dataclass(slots=True)
class _Collected(Generic[T]):
    """One kind, since it was last told of."""

    sample: T
    owner: Hashable
    first_ms: int
    last_ms: int
    count: int = 1
    window_ends_ms: int | None = None  # None: not told of yet


class Aggregator(Generic[T]):
    """Collects by kind.  Events of a kind share their key, such as (principal, operation, resource)."""

    def __init__(self, window_ms: int = WINDOW_MS, kinds_max: int = KINDS_MAX, kinds_of_one_max: int = KINDS_OF_ONE_MAX) -> None:
        self._window_ms = window_ms
        self._kinds_max = kinds_max
        self._kinds_of_one_max = kinds_of_one_max
        self._kinds: dict[Hashable, _Collected[T]] = {}
        self._kinds_of: Counter[Hashable] = Counter()
        self._dropped = 0
        self.dropped = 0  # for ever, for a metric

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to tell, now or when a window ends."""
        return not self._kinds and not self._dropped

    def add(self, key: Hashable, sample: T, now_ms: int, owner: Hashable = None) -> None:
        key = self._with_others(key, owner)
        kind = self._kinds.get(key)
        if kind is not None:
            if not kind.count:
                kind.first_ms = now_ms
            kind.count += 1
            kind.sample, kind.last_ms = sample, now_ms
        elif len(self._kinds) < self._kinds_max:
            self._kinds[key] = _Collected(sample, owner, now_ms, now_ms)
            self._kinds_of[owner] += 1
        else:
            self._dropped += 1
            self.dropped += 1

    def is_first(self, key: Hashable, sample: T, now_ms: int, owner: Hashable = None) -> bool:
        """Whether none of the kind was told within the window: then the caller tells of this one.  Else it is collected."""
        key = self._with_others(key, owner)
        if key in self._kinds:
            self.add(key, sample, now_ms, owner)
            return False
        if len(self._kinds) >= self._kinds_max:
            return True
        self._kinds[key] = _Collected(sample, owner, now_ms, now_ms, count=0, window_ends_ms=now_ms + self._window_ms)
        self._kinds_of[owner] += 1
        return True

    def _with_others(self, key: Hashable, owner: Hashable) -> Hashable:
        """The kind itself, or the one for all that its owner does beyond a part of the room."""
        if key in self._kinds or owner is None or self._kinds_of[owner] < self._kinds_of_one_max:
            return key
        return _OTHERS, owner

    def due(self, now_ms: int) -> list[Batch[T]]:
        """What is to be told now."""
        batches = []
        for key, kind in list(self._kinds.items()):
            if kind.window_ends_ms is not None and now_ms < kind.window_ends_ms:
                continue
            if kind.count:
                batches.append(Batch(kind.sample, kind.count, kind.first_ms, kind.last_ms))
                kind.count, kind.window_ends_ms = 0, now_ms + self._window_ms
            else:
                self._forget(key)
        return batches

    def _forget(self, key: Hashable) -> None:
        owner = self._kinds.pop(key).owner
        self._kinds_of[owner] -= 1
        if not self._kinds_of[owner]:
            del self._kinds_of[owner]

    def take_all(self) -> list[Batch[T]]:
        """All that was not told yet, at the end."""
        batches = [Batch(kind.sample, kind.count, kind.first_ms, kind.last_ms) for kind in self._kinds.values() if kind.count]
        self._kinds.clear()
        self._kinds_of.clear()
        return batches

    def take_dropped(self) -> int:
        """How many found no room since this was last asked."""
        dropped, self._dropped = self._dropped, 0
        return dropped

"""What a worker process keeps between its tasks, for as long as it is of use: producers with their threads and connections.

A worker may live for weeks and see the tasks of many queries.  Always: no more than `most` are kept, and after each use none that
nobody has asked for in `idle_seconds`.  Whatever is dropped is closed; whoever needs it later makes another.
"""

import threading
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    """Something that holds threads and connections until it is told to let go of them."""

    def close(self) -> None: ...


K = TypeVar("K")
V = TypeVar("V", bound=Closable)


class Pool(Generic[K, V]):
    """Closable things by key, the one used last at the end.  One in use is taken out, so that nobody else has it."""

    def __init__(self, *, most: int, idle_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.most = most
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._values: dict[K, tuple[V, float]] = {}
        self._lock = threading.Lock()

    def take(self, key: K) -> V | None:
        with self._lock:
            found = self._values.pop(key, None)
        self._drop()
        return None if found is None else found[0]

    def put(self, key: K, value: V) -> None:
        with self._lock:
            replaced = self._values.pop(key, None)
            self._values[key] = (value, self._clock())
        if replaced is not None and replaced[0] is not value:
            replaced[0].close()
        self._drop()

    def clear(self) -> None:
        with self._lock:
            dropped, self._values = self._values, {}
        for value, _ in dropped.values():
            value.close()

    def keys(self) -> list[K]:
        with self._lock:
            return list(self._values)

    def _drop(self) -> None:
        """Those that are idle, and the ones that have been so for longest where there are too many."""
        latest = self._clock() - self._idle_seconds
        with self._lock:
            keys = list(self._values)
            surplus = max(0, len(keys) - self.most)
            going = [key for at, key in enumerate(keys) if at < surplus or self._values[key][1] <= latest]
            dropped = [self._values.pop(key)[0] for key in going]
        for value in dropped:  # closing takes a moment
            value.close()

"""Who waits for what in a coordinator: a client for its reply, a request for markers, a write for its verification.

One registry for all of them.  Always: whoever enters leaves, however its wait ends; what was answered, refused or late is told
once; a deadline holds for those who wait when it is set, and costs nothing once they have left.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, NamedTuple

from headrace.model.errors import ErrorCode, RequestError

# Deadlines of those who have left are dropped when there are this many more of them than of those who wait.
STALE_DEADLINES_MAX = 100


class ReplyTo(NamedTuple):
    """A shard's reply to one request; the shard knows it as a token."""

    partition: int
    number: int


class MarkersOf(NamedTuple):
    """The markers of a decided transaction, all of them written."""

    partition: int
    transactional_id: str


class Waiting:
    """Futures by what they wait for."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, list[asyncio.Future[Any]]] = {}
        self._count = 0
        # When, a number that makes each different, who, and what it is told then; the soonest first.
        self._deadlines: list[tuple[float, int, asyncio.Future[Any], RequestError]] = []
        self._numbers = count()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    def __contains__(self, key: Hashable) -> bool:
        return key in self._waiting

    def __len__(self) -> int:
        return self._count

    def standing(self, key: Hashable) -> int:
        """How many wait for this."""
        return len(self._waiting.get(key, ()))

    # --- waiting ----------------------------------------------------------------------------------------------------------

    def enter(self, key: Hashable) -> "asyncio.Future[Any]":
        """Begin to wait.  Whoever calls this awaits the future, and then leaves."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, []).append(future)
        self._count += 1
        return future

    def leave(self, key: Hashable, future: "asyncio.Future[Any]") -> None:
        standing = self._waiting[key]
        standing.remove(future)
        self._count -= 1
        if not standing:
            del self._waiting[key]
        if not self._count:
            self._deadlines.clear()

    async def wait(self, key: Hashable, seconds: float | None = None) -> Any:
        """The answer.  Raises RequestError when it is refused, and REQUEST_TIMED_OUT when it does not come in time.

        Only whoever is sure to be told, since those who tell have a deadline, waits without one."""
        future = self.enter(key)
        try:
            if seconds is not None:
                self._set_deadline(future, seconds, RequestError(ErrorCode.REQUEST_TIMED_OUT))
            return await future
        finally:
            self.leave(key, future)

    @asynccontextmanager
    async def turn(self, key: Hashable) -> AsyncIterator[None]:
        """One after the other, in the order in which they came; whoever goes away lets the next one by."""
        mine = self.enter(key)
        line = self._waiting[key]
        try:
            while line[0] is not mine:
                await asyncio.wait([line[0]])
            yield
        finally:
            self.leave(key, mine)
            mine.cancel()

    # --- telling them -----------------------------------------------------------------------------------------------------

    def answer(self, key: Hashable, answer: Any) -> None:
        """Tell all who wait for this.  Whoever asked may have gone away meanwhile: then there is nobody to tell."""
        for future in self._waiting.get(key, ()):
            if not future.done():
                future.set_result(answer)

    def refuse(self, key: Hashable, error: RequestError) -> None:
        for future in self._waiting.get(key, ()):
            _fail(future, error)

    def refuse_where(self, is_over: Callable[[Hashable], bool], error: RequestError) -> None:
        """Nobody who waits for one of these will be answered."""
        for key in self._waiting:
            if is_over(key):
                self.refuse(key, error)

    # --- deadlines --------------------------------------------------------------------------------------------------------

    def limit(self, key: Hashable, seconds: float, error: RequestError) -> None:
        """Those who wait for this now are refused after so long."""
        for future in self._waiting.get(key, ()):
            self._set_deadline(future, seconds, error)

    def _set_deadline(self, future: "asyncio.Future[Any]", seconds: float, error: RequestError) -> None:
        at = asyncio.get_running_loop().time() + seconds
        if len(self._deadlines) > 2 * self._count + STALE_DEADLINES_MAX:
            self._deadlines = [each for each in self._deadlines if not each[2].done()]
            heapify(self._deadlines)
        heappush(self._deadlines, (at, next(self._numbers), future, error))
        # A timer that comes too early finds nobody late: cheaper than a new one for each who waits.
        if self._timer is None or at < self._timer_at:
            self._set_timer(at)

    def _set_timer(self, at: float) -> None:
        self.close()
        self._timer_at = at
        self._timer = asyncio.get_running_loop().call_at(at, self._on_deadline)

    def close(self) -> None:
        """No more deadlines: all who wait are refused by whoever closes."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_deadline(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._deadlines and self._deadlines[0][0] <= now:
            _, _, future, error = heappop(self._deadlines)
            _fail(future, error)
        if self._deadlines:
            self._set_timer(self._deadlines[0][0])


def _fail(future: "asyncio.Future[Any]", error: RequestError) -> None:
    if not future.done():
        # Each gets an error of its own: raising one adds to its traceback.
        future.set_exception(RequestError(error.code, error.message or ""))
        # Whoever asked may have gone; then nobody looks at it, and that is no fault.
        future.exception()

"""Threads that compute for those who sign in, in turns between addresses.

So many compute at a time; whoever comes meanwhile waits in the line of its own address, and each address has its turn: one that
sends a thousand passwords makes another wait for one of them, not for a thousand.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class FairThreads:
    """Used by the loop's thread only."""

    def __init__(self, loop: asyncio.AbstractEventLoop, count: int) -> None:
        self._loop = loop
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="sign-in")
        self._free = count
        # Those who wait, by address; the address whose turn is next comes first.
        self._lines: dict[str, deque[asyncio.Future[None]]] = {}

    async def run(self, address: str, call: Callable[[], T]) -> T:
        """What a call answers that is made in a thread, when it is the address's turn."""
        if self._free:
            self._free -= 1
        else:
            await self._turn(address)
        try:
            return await self._loop.run_in_executor(self._threads, call)
        finally:
            self._pass_on()

    async def _turn(self, address: str) -> None:
        turn = self._loop.create_future()
        self._lines.setdefault(address, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """To the first of the next address; those who are gone have no turn."""
        while self._lines:
            address = next(iter(self._lines))
            line = self._lines.pop(address)
            turn = line.popleft()
            if line:
                self._lines[address] = line
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

"""Writing to a TLS connection in slices.

What is handed to a TLS transport is encrypted at once, all of it and in memory, and the transport counts it as gone when the
socket has yet to take it.  So it is handed over in slices, each when the one before has left, and whoever writes is told to pause
until the last one is handed over.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any, Final, Protocol

from headrace.host.disk import Buffer

SLICE_BYTES: Final = 64 * 1024
# So much is encrypted before the others have their turn.
TURN_BYTES: Final = 1024 * 1024


class Writer(Protocol):
    """Whoever writes."""

    def on_pause(self) -> None: ...

    def on_resume(self) -> None: ...


class SlicedTransport(asyncio.Transport):
    """Takes all that is written, and says when to go on."""

    def __init__(self, below: asyncio.Transport, writer: Writer, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._below = below
        self._writer = writer
        self._loop = loop
        self._waiting: deque[memoryview] = deque()
        self._waiting_bytes = 0
        self._is_full = False  # what is below takes no more for now
        self._gives_way = False
        self._has_paused = False
        self._is_closing = False
        # Not 0: what is below would then pause when it holds nothing.
        below.set_write_buffer_limits(high=1, low=0)

    # -- what is below

    def fill(self) -> None:
        self._is_full = True

    def drain(self) -> None:
        self._is_full = False
        self._hand_over()

    # -- what is above

    def write(self, data: Buffer) -> None:
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        for data in list_of_data:
            if data:
                self._waiting.append(memoryview(data).cast("B"))
                self._waiting_bytes += len(data)
        self._hand_over()

    def _hand_over(self) -> None:
        turn = 0
        while self._waiting and not self._is_full and not self._gives_way:
            piece = self._next_slice()
            turn += len(piece)
            self._below.write(piece)
            if turn >= TURN_BYTES and self._waiting:
                self._gives_way = True
                self._loop.call_soon(self._gave_way)
        if self._waiting and not self._has_paused:
            self._has_paused = True
            self._writer.on_pause()
        elif not self._waiting and self._has_paused:
            self._has_paused = False
            if self._is_closing:
                self._below.close()
            self._writer.on_resume()

    def _next_slice(self) -> Buffer:
        """Small pieces are joined: each write is a record of its own on the wire."""
        taken: list[memoryview] = []
        room = SLICE_BYTES
        while self._waiting and room:
            piece = self._waiting.popleft()
            if len(piece) > room:
                self._waiting.appendleft(piece[room:])
                piece = piece[:room]
            room -= len(piece)
            taken.append(piece)
        self._waiting_bytes -= SLICE_BYTES - room
        return taken[0] if len(taken) == 1 else b"".join(taken)

    def _gave_way(self) -> None:
        self._gives_way = False
        if not self._below.is_closing() or self._is_closing:
            self._hand_over()

    def get_write_buffer_size(self) -> int:
        return self._waiting_bytes + self._below.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """It always pauses while anything waits."""

    def pause_reading(self) -> None:
        self._below.pause_reading()

    def resume_reading(self) -> None:
        self._below.resume_reading()

    def is_closing(self) -> bool:
        return self._is_closing or self._below.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._below.get_extra_info(name, default)

    def close(self) -> None:
        """After what was written is sent."""
        if not self._is_closing:
            self._is_closing = True
            if not self._waiting:
                self._below.close()

    def abort(self) -> None:
        self._waiting.clear()
        self._waiting_bytes = 0
        self._has_paused = False
        self._below.abort()

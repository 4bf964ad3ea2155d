"""Cuts a stream of bytes into frames, however the network delivers it.

What always holds: a length that is negative or above `frame_bytes_max` is refused as soon as its four bytes are there; memory
is taken for bytes that have arrived, never for bytes that were announced; every byte is copied a bounded number of times.

Two ways in, one for each kind of asyncio protocol:

- `feed(data, frames)` takes what `data_received` brings;
- `get_buffer()` and `buffer_updated(count, frames)` serve a `BufferedProtocol`: small frames pass through one scratch buffer that
  all connections of a thread share, and the body of a large frame is received straight into its final place.

Both add the frames that are complete to a list of the caller's: nothing is resumed and nothing made for each of them.
"""

import struct
import threading
from typing import Final

from headrace.wire.errors import WireError
from headrace.wire.schema import Buffer

_LENGTH: Final = struct.Struct(">i")
_PREFIX_BYTES: Final = 4
_VIEW_BYTES_MIN: Final = 4096  # below this a copy is cheaper than keeping a whole chunk alive through a view
_SCRATCH_BYTES: Final = 256 * 1024
_ROOM_BYTES_MIN: Final = 16 * 1024  # many connections may each begin a large frame and then fall silent


class Scratch(threading.local):
    """One receiving buffer per thread: bytes lie in it between a system call and its callback, and both run in one loop."""

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(_SCRATCH_BYTES))


_scratch = Scratch()


class FrameSplitter:
    """The bytes of one connection that do not yet make a frame."""

    __slots__ = ("_fill", "_frame_bytes_max", "_missing", "_prefix", "_view", "begun", "partial")

    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._prefix = b""  # a length of which fewer than four bytes are there
        self.partial: bytearray | None = None  # the frame under way; may be longer than what has arrived of it
        self._fill = 0  # how much of the frame under way has arrived
        self._missing = 0  # how much of it has not
        self._view: memoryview | None = None  # the last part of the frame under way that was lent out for receiving
        self.begun = 0  # how many frames did not arrive in one piece

    def allow(self, frame_bytes_max: int) -> None:
        """Take frames of this size from now on."""
        self._frame_bytes_max = frame_bytes_max

    @property
    def buffered_bytes(self) -> int:
        """How many bytes wait here for the rest of their frame."""
        return self._fill + len(self._prefix)

    @property
    def missing_bytes(self) -> int:
        """How many bytes of the frame under way have not arrived."""
        return self._missing

    @property
    def held_bytes(self) -> int:
        """The memory that the frame under way takes."""
        return len(self.partial) if self.partial is not None else 0

    @property
    def wanted_bytes(self) -> int:
        """The memory that it will take when the next bytes are received."""
        if self.partial is None:
            return 0
        return len(self.partial) + (self._growth() if self._missing >= _VIEW_BYTES_MIN else 0)

    def _growth(self) -> int:
        """Doubling keeps the copying linear, and what is taken within about twice what has arrived."""
        assert self.partial is not None
        return min(self._missing, max(self._fill, _ROOM_BYTES_MIN)) if len(self.partial) == self._fill else 0

    def feed(self, data: bytes, frames: list[Buffer]) -> None:
        """Add the frames that these bytes complete.  Raises WireError behind those that are sound."""
        position = 0
        if self.partial is not None:
            position = self._continue_partial(data)
            if self._missing:
                return
            frames.append(self._take_partial())
        if self._prefix:
            data = self._prefix + data[position:]
            position = 0
            self._prefix = b""
        size = len(data)
        while size - position >= _PREFIX_BYTES:
            (length,) = _LENGTH.unpack_from(data, position)
            if not 0 <= length <= self._frame_bytes_max:
                raise WireError(f"a frame of {length} bytes; at most {self._frame_bytes_max} are taken")
            position += _PREFIX_BYTES
            end = position + length
            if end > size:
                self.partial = bytearray(data[position:])
                self._fill = size - position
                self._missing = end - size
                self.begun += 1
                return
            frames.append(data[position:end] if length < _VIEW_BYTES_MIN else memoryview(data)[position:end])
            position = end
        self._prefix = data[position:]

    def _continue_partial(self, data: bytes) -> int:
        """Add to the frame under way; return how many bytes of the data it took."""
        assert self.partial is not None
        self._take_back_view()
        taken = min(self._missing, len(data))
        # `_fill` is where the frame ends so far: a buffered read may have left room behind it.
        self.partial[self._fill : self._fill + taken] = data if taken == len(data) else memoryview(data)[:taken]
        self._fill += taken
        self._missing -= taken
        return taken

    def _take_back_view(self) -> None:
        """What is lent out cannot be resized."""
        if self._view is not None:
            self._view.release()
            self._view = None

    def _take_partial(self) -> Buffer:
        assert self.partial is not None
        frame = memoryview(self.partial)[: self._fill]
        self.partial = self._view = None
        self._fill = 0
        return frame

    def get_buffer(self, _size_hint: int = -1) -> memoryview:
        """Where the next bytes go: into the large frame under way, else into the shared scratch buffer."""
        if self._missing < _VIEW_BYTES_MIN:
            return _scratch.buffer
        assert self.partial is not None
        room = len(self.partial) - self._fill
        if room == 0:
            room = self._growth()
            self._take_back_view()
            self.partial += bytes(room)
        self._view = memoryview(self.partial)[self._fill : self._fill + room]
        return self._view

    def buffer_updated(self, count: int, frames: list[Buffer]) -> None:
        """Add the frames that the `count` bytes put into the last buffer complete."""
        if self._missing < _VIEW_BYTES_MIN:
            self.feed(bytes(_scratch.buffer[:count]), frames)
            return
        self._fill += count
        self._missing -= count
        if not self._missing:
            frames.append(self._take_partial())

"""Writing to TLS in slices: everything in order, never more than what is below takes, and the end after the last byte."""

import asyncio
from collections.abc import Iterator

import pytest

from headrace.broker.tls.transport import SLICE_BYTES, TURN_BYTES, SlicedTransport
from headrace.host.disk import Buffer


class Below(asyncio.Transport):
    """A TLS transport that takes what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.is_closed = False

    def write(self, data: Buffer) -> None:
        self.written.append(bytes(data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    abort = close


class Writer:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def on_pause(self) -> None:
        self.told.append("pause")

    def on_resume(self) -> None:
        self.told.append("resume")


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


def one_turn(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_until_complete(asyncio.sleep(0))


def test_small_pieces_leave_as_one_and_nobody_pauses(loop: asyncio.AbstractEventLoop) -> None:
    below, writer = Below(), Writer()
    SlicedTransport(below, writer, loop).writelines([b"ab", b"", memoryview(b"cd"), bytearray(b"ef")])

    assert (below.written, writer.told) == ([b"abcdef"], [])


def test_what_is_below_gets_no_more_than_it_takes_and_the_writer_waits(loop: asyncio.AbstractEventLoop) -> None:
    below, writer = Below(), Writer()
    sliced = SlicedTransport(below, writer, loop)
    data = bytes(range(256)) * (3 * SLICE_BYTES // 256)
    sliced.fill()
    sliced.write(data)

    assert (below.written, writer.told, sliced.get_write_buffer_size()) == ([], ["pause"], len(data))
    sliced.drain()
    assert [len(piece) for piece in below.written] == [SLICE_BYTES] * 3
    assert (b"".join(below.written), writer.told) == (data, ["pause", "resume"])


def test_after_so_much_the_others_have_their_turn(loop: asyncio.AbstractEventLoop) -> None:
    below, writer = Below(), Writer()
    sliced = SlicedTransport(below, writer, loop)
    sliced.write(bytes(2 * TURN_BYTES + 1))

    assert sum(map(len, below.written)) == TURN_BYTES
    one_turn(loop)
    one_turn(loop)
    assert (sum(map(len, below.written)), writer.told) == (2 * TURN_BYTES + 1, ["pause", "resume"])


def test_it_closes_after_the_last_slice_and_ends_at_once_when_it_is_aborted(loop: asyncio.AbstractEventLoop) -> None:
    below = Below()
    sliced = SlicedTransport(below, Writer(), loop)
    sliced.fill()
    sliced.write(b"last words")
    sliced.close()
    assert not below.is_closed
    sliced.drain()
    assert (below.written, below.is_closed) == ([b"last words"], True)

    cut, writer = Below(), Writer()
    aborted = SlicedTransport(cut, writer, loop)
    aborted.fill()
    aborted.write(b"unsaid")
    aborted.abort()
    aborted.drain()
    assert (cut.written, cut.is_closed, writer.told) == ([], True, ["pause"])

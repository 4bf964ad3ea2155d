"""Frames come out whole however the bytes come in, and an announced length costs nothing."""

import asyncio
import struct
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.wire.errors import WireError
from headrace.wire.framing import FrameSplitter
from headrace.wire.schema import Buffer

MAX = 100 * 1024 * 1024

FRAMES = [b"", b"a", b"bc" * 10, bytes(range(256)) * 40, b"x" * 5000, b"end"]


def framed(*frames: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


def by_feeding(splitter: FrameSplitter, chunks: Iterable[bytes]) -> list[bytes]:
    frames: list[Buffer] = []
    for chunk in chunks:
        splitter.feed(chunk, frames)
    return [bytes(frame) for frame in frames]


def by_buffers(splitter: FrameSplitter, chunks: Iterable[bytes]) -> list[bytes]:
    """As a BufferedProtocol is driven: the loop fills at most the buffer that it is given."""
    frames: list[Buffer] = []
    for chunk in chunks:
        rest = chunk
        while rest:
            buffer = splitter.get_buffer(-1)
            count = min(len(buffer), len(rest))
            buffer[:count] = rest[:count]
            rest = rest[count:]
            splitter.buffer_updated(count, frames)
    return [bytes(frame) for frame in frames]


WAYS_IN = pytest.mark.parametrize("split", [by_feeding, by_buffers])
Split = Callable[[FrameSplitter, Iterable[bytes]], list[bytes]]


@WAYS_IN
def test_frames_fed_whole_or_byte_by_byte_come_out_the_same(split: Split) -> None:
    stream = framed(*FRAMES)

    assert split(FrameSplitter(MAX), [stream]) == FRAMES
    assert split(FrameSplitter(MAX), [stream[at : at + 1] for at in range(len(stream))]) == FRAMES


@WAYS_IN
def test_a_stream_may_be_cut_anywhere(split: Split) -> None:
    stream = framed(b"one", b"", b"three", b"y" * 9000)

    for cut in range(len(stream)):
        assert split(FrameSplitter(MAX), [stream[:cut], stream[cut:]]) == [b"one", b"", b"three", b"y" * 9000]


@given(st.lists(st.binary(max_size=20_000), max_size=5), st.lists(st.integers(1, 30_000), min_size=1, max_size=10), st.booleans())
@settings(max_examples=40)
def test_any_frames_in_any_chunks_come_out_as_they_went_in(frames: list[bytes], sizes: list[int], buffered: bool) -> None:
    stream = framed(*frames)
    chunks: list[Any] = []
    position = 0
    while position < len(stream):
        size = sizes[len(chunks) % len(sizes)]
        chunks.append(stream[position : position + size])
        position += size

    assert (by_buffers if buffered else by_feeding)(FrameSplitter(MAX), chunks) == frames


@WAYS_IN
@pytest.mark.parametrize("length", [-1, -(2**31), 1001, 2**31 - 1])
def test_a_bad_length_is_refused_as_soon_as_its_four_bytes_are_there(split: Split, length: int) -> None:
    prefix = struct.pack(">i", length)
    splitter = FrameSplitter(1000)

    assert split(splitter, [prefix[:3]]) == []
    with pytest.raises(WireError, match=f"a frame of {length} bytes"):
        split(splitter, [prefix[3:]])


def test_frames_before_a_bad_length_are_still_delivered() -> None:
    frames: list[Buffer] = []

    with pytest.raises(WireError):
        FrameSplitter(1000).feed(framed(b"good") + b"\xff\xff\xff\xff", frames)
    assert frames == [b"good"]


@WAYS_IN
def test_a_frame_of_exactly_the_largest_size_passes(split: Split) -> None:
    assert split(FrameSplitter(1000), [framed(bytes(1000))]) == [bytes(1000)]


def test_an_announced_length_without_bytes_costs_nothing() -> None:
    splitters = [FrameSplitter(MAX) for _ in range(100)]
    tracemalloc.start()
    try:
        for splitter in splitters:
            splitter.feed(struct.pack(">i", MAX) + b"some", [])
        fed, _ = tracemalloc.get_traced_memory()
        for splitter in splitters:
            splitter.get_buffer(-1)
        lent, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert fed < 50_000
    assert lent < 100 * 20_000  # one small receiving buffer each, and only once bytes of the frame are arriving


@WAYS_IN
def test_a_big_frame_takes_time_in_proportion_to_its_size(split: Split) -> None:
    def seconds(size: int) -> float:
        frame = bytes(size)
        chunks = [framed(frame)[at : at + 4096] for at in range(0, size + 4, 4096)] if size else []
        best = float("inf")
        for _ in range(5):
            started = time.process_time()
            assert split(FrameSplitter(MAX), chunks) == [frame]
            best = min(best, time.process_time() - started)
        return best

    small, large = seconds(1 << 18), seconds(1 << 22)

    # Sixteen times the bytes; a quadratic splitter would take about 256 times as long.
    assert large < 100 * small


def test_bytes_that_wait_are_counted() -> None:
    splitter = FrameSplitter(MAX)

    splitter.feed(b"\x00\x00", [])
    assert splitter.buffered_bytes == 2
    splitter.feed(b"\x00\x08abc", [])
    assert splitter.buffered_bytes == 3
    splitter.feed(b"defgh", [])
    assert splitter.buffered_bytes == 0


def test_loops_in_two_threads_do_not_share_a_receiving_buffer() -> None:
    here = FrameSplitter(MAX).get_buffer()
    there: list[memoryview] = []
    thread = threading.Thread(target=lambda: there.append(FrameSplitter(MAX).get_buffer()))
    thread.start()
    thread.join()

    assert there[0] is not here


def test_frames_stay_as_they_are_while_later_bytes_arrive() -> None:
    splitter = FrameSplitter(MAX)
    kept: list[Buffer] = []
    for number in range(5):
        splitter.feed(framed(bytes([number]) * 6000)[:3000], kept)
        splitter.feed(framed(bytes([number]) * 6000)[3000:], kept)

    assert [bytes(frame) for frame in kept] == [bytes([number]) * 6000 for number in range(5)]


class _Collector(asyncio.BufferedProtocol):
    def __init__(self, expected: int) -> None:
        self.splitter = FrameSplitter(MAX)
        self.frames: list[Buffer] = []
        self.expected = expected
        self.done = asyncio.get_running_loop().create_future()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.splitter.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        self.splitter.buffer_updated(nbytes, self.frames)
        if len(self.frames) == self.expected:
            self.done.set_result(None)


@pytest.mark.parametrize("loop_kind", ["asyncio", "uvloop"])
def test_a_real_connection_feeds_it_through_buffers(loop_kind: str) -> None:
    frames = [b"small", bytes(3_000_000), b"", b"z" * 70_000, b"last"]

    async def main() -> list[bytes]:
        loop = asyncio.get_running_loop()
        collectors: list[_Collector] = []

        def make() -> _Collector:
            collectors.append(_Collector(len(frames)))
            return collectors[-1]

        server = await loop.create_server(make, "127.0.0.1", 0)
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(framed(*frames))
        while not collectors:
            await asyncio.sleep(0)
        await asyncio.wait_for(collectors[0].done, 20)
        writer.close()
        server.close()
        return [bytes(frame) for frame in collectors[0].frames]

    if loop_kind == "uvloop":
        uvloop = pytest.importorskip("uvloop")
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            received = runner.run(main())
    else:
        received = asyncio.run(main())

    assert received == frames


@pytest.mark.parametrize("last", [1, 100, 4095, 4096, 5000])
def test_the_last_bytes_of_a_large_frame_may_come_through_the_shared_buffer(last: int) -> None:
    splitter = FrameSplitter(10_000_000)
    body = bytes(range(256)) * 400
    stream = len(body).to_bytes(4, "big") + body
    frames: list[Any] = []
    position = 0
    for end in (5000, 21_000, len(stream) - last, len(stream)):
        while position < end:
            buffer = splitter.get_buffer()
            size = min(len(buffer), end - position)
            buffer[:size] = stream[position : position + size]
            position += size
            splitter.buffer_updated(size, frames)

    assert [bytes(frame) for frame in frames] == [body]

"""What reads from an object store hold in memory is bounded, however many want something else from it."""

import asyncio
from typing import Any

import pytest
from crc32c import crc32c

from headrace.broker.tiering import reading
from headrace.broker.tiering.reading import RemoteReader
from headrace.objects.store import Stored
from headrace.records.batch import build_batch
from headrace.records.record import Record
from headrace.tier.companions import OFFSETS, encode_companions
from headrace.tier.manifest import Manifest, RemoteSegment
from tests.support.faulty_objects import MemoryObjects

REST = encode_companions({OFFSETS: b"x" * 800})


class SlowObjects(MemoryObjects):
    """Others have their turn before it answers."""

    async def get(self, key: str) -> Stored:
        await asyncio.sleep(0)
        return await super().get(key)


class SlowRanges:
    """A cache of one segment, which notes how many read it at once."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.under_way = self.most = 0

    async def read(self, key: str, start: int, end: int) -> bytes:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0.001)
        self.under_way -= 1
        return self.data[start:end]

    def read_ahead(self, key: str, start: int, end: int) -> None:
        pass


def segment(number: int, data: bytes, offsets: int, rest: bytes = REST) -> RemoteSegment:
    return RemoteSegment(
        base_offset=0,
        start_offset=0,
        end_offset=offsets,
        file_end=offsets,
        size=len(data),
        data=f"{number}.log",
        data_checksum=crc32c(data),
        rest=f"{number}.rest",
        rest_size=len(rest),
        rest_checksum=crc32c(rest),
        max_timestamp=1,
        max_timestamp_offset=0,
        aborted=0,
        epochs=((0, 0),),
    )


@pytest.mark.parametrize(("size", "most"), [(1, 32), (8 << 20, 3), (1 << 30, 3)])
def test_so_many_bytes_are_on_their_way_at_most_and_all_come_in_the_end(size: int, most: int) -> None:
    async def story() -> None:
        data = b"".join(build_batch([Record(0, 1, None, b"v", ())], base_offset=offset) for offset in range(50))
        store, ranges = SlowObjects(), SlowRanges(data)
        rest = encode_companions({})
        store.objects["1.rest"] = rest, 1
        cache: Any = ranges
        reader = RemoteReader(store, cache, asyncio.get_running_loop())
        manifest = Manifest(topic="t", partition=0, segments=(segment(1, data, 50, rest),))

        brought = await asyncio.gather(*(reader.bring(manifest, offset, size) for offset in range(50)))

        assert [each and each.first_offset for each in brought] == list(range(50))
        assert ranges.most == most

    asyncio.run(story())


def test_what_is_kept_of_segments_is_counted_as_it_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where several read the same at once: a count that drifts would leave room for nothing in the end."""
    monkeypatch.setattr(reading, "RESTS_BYTES_MAX", 3_000)

    async def story() -> None:
        store = SlowObjects()
        cache: Any = SlowRanges(b"")
        reader = RemoteReader(store, cache, asyncio.get_running_loop())
        for number in range(100):
            store.objects[f"{number}.rest"] = REST, 1
            await asyncio.gather(*(reader.companions_of(segment(number, b"", 1)) for _ in range(3)))

        assert len(reader._rests) == 3

    asyncio.run(story())

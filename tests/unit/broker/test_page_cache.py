"""What is taken to be in memory: what was written last, by all partitions together."""

from pathlib import Path

import pytest

from headrace.broker.partitions.page_cache import PageCache, WrittenLately
from headrace.host.memory import WITHOUT_KNOWING, page_cache_bytes

MEBIBYTE = 1 << 20


class Growing:
    """A partition of records of a kilobyte each."""

    def __init__(self, cache: PageCache, records: int = 0) -> None:
        self.records = records
        self.lately = WrittenLately(cache, 0, records, records * 1024)

    def grow(self, records: int) -> None:
        for _ in range(records):
            self.records += 1
            self.lately.note(self.records, self.records * 1024)


def test_what_was_written_last_is_warm_and_the_rest_is_not() -> None:
    partition = Growing(PageCache(10 * MEBIBYTE))
    partition.grow(30 * 1024)

    assert partition.lately.is_warm(30 * 1024)
    assert partition.lately.is_warm(21 * 1024)
    assert not partition.lately.is_warm(19 * 1024)
    assert not partition.lately.is_warm(0)


def test_the_bound_is_one_for_all_partitions() -> None:
    cache = PageCache(10 * MEBIBYTE)
    quiet, busy = Growing(cache), Growing(cache)
    quiet.grow(1024)
    busy.grow(8 * 1024)
    assert quiet.lately.is_warm(0)
    busy.grow(8 * 1024)
    assert not quiet.lately.is_warm(0)
    assert not quiet.lately.is_warm(1000)
    quiet.grow(1)
    # What a quiet partition has just got is warm all the same.
    assert quiet.lately.is_warm(1024)
    assert not quiet.lately.is_warm(1000)


def test_what_a_start_finds_is_warm_as_far_as_all_of_it_fits() -> None:
    cache = PageCache(10 * MEBIBYTE)
    first = Growing(cache, 8 * 1024)
    assert first.lately.is_warm(0)
    second = Growing(cache, 8 * 1024)

    assert not first.lately.is_warm(0)
    assert first.lately.is_warm(7 * 1024)
    assert second.lately.is_warm(0)


def test_what_is_remembered_of_a_partition_is_bounded() -> None:
    cache = PageCache(100_000)
    partition = Growing(cache)
    partition.grow(20_000)

    assert len(partition.lately._points) <= 4 * 256 + 2
    assert partition.lately.is_warm(20_000)
    assert not partition.lately.is_warm(19_000)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"proc/meminfo": "MemTotal: 9 kB\nMemAvailable: 4000 kB\n"}, 1000 * 1024),
        ({"proc/meminfo": "MemAvailable: 4000 kB\n", "sys/fs/cgroup/memory.max": "400000\n"}, 100_000),
        ({"proc/meminfo": "MemAvailable: 4000 kB\n", "sys/fs/cgroup/memory.max": "max\n"}, 1000 * 1024),
    ],
)
def test_the_bound_is_a_quarter_of_what_there_is(tmp_path: Path, files: dict[str, str], expected: int) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    assert page_cache_bytes(tmp_path) == expected
    assert WITHOUT_KNOWING > 0

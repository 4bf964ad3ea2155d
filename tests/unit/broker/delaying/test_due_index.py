"""What waits, in order of time, on a disk."""

import tracemalloc
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from headrace.broker.delaying.index import SqliteIndex, open_database
from headrace.coordination.delay.entries import Staged, Target

ONE, OTHER = Target(UUID(int=1), 0), Target(UUID(int=1), 1)


@pytest.fixture(params=["disk", "memory"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> SqliteIndex:
    return SqliteIndex(open_database(tmp_path if request.param == "disk" else None))


def staged(uid: int, due: int, target: Target = ONE, key_hash: int | None = None) -> Staged:
    return Staged(uid, due, target, key_hash, b"record %d" % uid)


def test_what_is_due_comes_by_time_and_then_by_offset(index: SqliteIndex) -> None:
    for offset, due in enumerate((30, 10, 20, 10, 40)):
        index.add(staged(100 + offset, due), offset)
    index.add(staged(99, 5, OTHER), 9)

    assert [(row.due_ms, row.offset) for row in index.first(ONE, 30, 10)] == [(10, 1), (10, 3), (20, 2), (30, 0)]
    assert [row.offset for row in index.first(ONE, 30, 2)] == [1, 3]
    assert (index.first_due(ONE), index.first_due(OTHER), index.first_due(Target(UUID(int=2), 0))) == (10, 5, None)


def test_what_is_removed_is_gone_and_tells_where_it_was(index: SqliteIndex) -> None:
    index.add(staged(1, 10), 0)
    index.add(staged(2, 20, OTHER), 1)

    assert index.remove(2) == (OTHER, 1)
    assert index.remove(2) is None
    assert [row.uid for row in index.at((0, 1))] == [1]


def test_payloads_come_in_the_order_that_was_asked_for(index: SqliteIndex) -> None:
    for offset in range(1200):
        index.add(staged(offset, 10), offset)
    offsets = list(range(1199, -1, -1))

    assert index.payloads(offsets) == [b"record %d" % offset for offset in offsets]


def test_a_key_finds_all_that_waits_under_it_for_a_target(index: SqliteIndex) -> None:
    index.add(staged(1, 10, ONE, -5), 0)
    index.add(staged(2, 10, OTHER, -5), 1)
    index.add(staged(3, 10, ONE, None), 2)
    index.add(staged(4, 10, ONE, -5), 3)

    assert [row.uid for row in index.with_key(ONE, -5)] == [1, 4]


def test_no_file_is_left_of_it(tmp_path: Path) -> None:
    index = SqliteIndex(open_database(tmp_path))
    for offset in range(5000):
        index.add(Staged(offset, offset, ONE, None, bytes(1000)), offset)

    assert index.first_due(ONE) == 0
    assert list(tmp_path.iterdir()) == []


def test_many_that_wait_take_no_memory(tmp_path: Path) -> None:
    index = SqliteIndex(open_database(tmp_path))
    random = Random(7)
    tracemalloc.start()
    try:
        for offset in range(20_000):
            index.add(staged(offset, random.randrange(10**9), key_hash=offset), offset)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 2_000_000
    assert len(index.first(ONE, 10**9, 500)) == 500

"""How much of a disk may be used, by whom."""

import pytest

from headrace.broker.health.disk_space import GIB, DiskSpace, reserve_of
from headrace.model.errors import ErrorCode, RequestError


class Moment:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def space(reserved: int = 1000) -> tuple[DiskSpace, Moment]:
    moment = Moment()
    return DiskSpace("/data", lambda: reserved, moment), moment


@pytest.mark.parametrize(
    ("total", "wanted", "reserve"),
    [(50 * GIB, -1, GIB // 2), (500 * GIB, -1, GIB), (100, -1, 1), (100, 0, 0), (100, 70, 70)],
)
def test_what_is_reserved_is_what_was_set_or_a_hundredth_and_a_gibibyte_at_most(total: int, wanted: int, reserve: int) -> None:
    assert reserve_of(total, wanted) == reserve


def test_clients_get_what_lies_above_the_reserve_and_coordinators_most_of_the_reserve() -> None:
    disk, _ = space()
    for free, clients, coordinators in ((1001, True, True), (1000, False, True), (251, False, True), (250, False, False)):
        disk, _ = space()
        disk.measured(100_000, free)

        assert (disk.has_room(for_clients=True), disk.has_room(for_clients=False)) == (clients, coordinators)


def test_what_is_written_between_two_looks_counts() -> None:
    disk, _ = space()
    disk.measured(100_000, 1500)
    disk.left -= 600

    with pytest.raises(RequestError, match="900 bytes are free in /data and 1000 bytes are reserved") as refusal:
        disk.require_room(for_clients=True)
    assert refusal.value.code == ErrorCode.KAFKA_STORAGE_ERROR


def test_room_again_is_a_little_more_than_enough() -> None:
    disk, _ = space()
    disk.measured(100_000, 900)
    disk.measured(100_000, 1020)
    assert disk.is_short

    disk.measured(100_000, 1050)
    assert not disk.is_short


def test_a_disk_that_refused_a_write_is_believed_again_after_a_moment() -> None:
    disk, moment = space()
    disk.measured(100_000, 90_000)
    disk.refused()
    disk.measured(100_000, 90_000)

    assert not disk.has_room(for_clients=False)
    assert "a write failed in /data because the disk is full" in disk.why_short()
    moment.now = 1.0
    disk.measured(100_000, 90_000)
    assert disk.has_room(for_clients=True)


def test_where_space_has_no_meaning_there_is_always_room() -> None:
    disk, _ = space()
    disk.measured(-1, -1)

    assert disk.has_room(for_clients=True)


def test_what_does_not_fit_above_the_reserve_is_refused_and_the_disk_is_full_until_it_would_fit() -> None:
    disk, _ = space()
    disk.measured(100_000, 1300)

    disk.require_room(300, for_clients=True)
    assert not disk.is_short
    with pytest.raises(RequestError, match="disk is full"):
        disk.require_room(301, for_clients=True)
    assert disk.is_short
    disk.measured(100_000, 1300)
    assert disk.is_short
    disk.measured(100_000, 1351)
    assert not disk.is_short


def test_a_record_larger_than_all_there_is_keeps_nobody_else_from_writing() -> None:
    disk, _ = space()
    disk.measured(100_000, 50_000)

    with pytest.raises(RequestError):
        disk.require_room(60_000, for_clients=True)
    assert disk.has_room(500, for_clients=True)


def test_a_write_that_the_disk_refused_has_it_looked_at_at_once_and_more_room_wanted() -> None:
    disk, moment = space()
    looks: list[None] = []
    disk.on_refused = lambda: looks.append(None)
    disk.measured(100_000, 1300)
    disk.refused(250)
    moment.now = 1.0
    disk.measured(100_000, 1290)

    assert len(looks) == 1
    assert disk.is_short
    disk.measured(100_000, 1300)
    assert not disk.is_short


def test_a_disk_that_refuses_again_and_again_is_believed_less_and_less() -> None:
    disk, moment = space()
    pauses = []
    for _ in range(5):
        begun = moment.now
        disk.refused()
        while not disk.may_try:
            moment.now += 0.5
        pauses.append(moment.now - begun)
    moment.now += 100
    disk.refused()

    assert pauses == [1.0, 2.0, 4.0, 8.0, 8.0]
    moment.now += 1.0
    assert disk.may_try

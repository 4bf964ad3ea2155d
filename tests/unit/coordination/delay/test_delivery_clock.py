"""A clock that jumps delivers nothing early."""

from headrace.coordination.delay.clock import DeliveryClock

HOUR_MS = 3_600_000
NOON = 1_000_000_000


def clock(confirmed_after_ms: int = 300_000) -> DeliveryClock:
    return DeliveryClock(NOON, 0.0, confirmed_after_ms)


def test_time_goes_by() -> None:
    assert clock().read(NOON + 5000, 5.0).wall_ms == NOON + 5000


def test_a_clock_that_is_set_ahead_is_not_believed() -> None:
    reading = clock()

    assert reading.read(NOON + HOUR_MS + 1000, 1.0).wall_ms == NOON + 1000
    assert reading.read(NOON + HOUR_MS + 2000, 2.0).wall_ms == NOON + 2000


def test_a_clock_that_was_wrong_for_a_while_did_no_harm() -> None:
    reading = clock()
    reading.read(NOON + HOUR_MS + 1000, 1.0)

    assert reading.read(NOON + 2000, 2.0).wall_ms == NOON + 2000
    assert reading.read(NOON + HOUR_MS + 299_000, 299.0).wall_ms == NOON + 299_000, "it jumped anew, and waits anew"


def test_a_clock_that_stays_ahead_is_believed_in_the_end() -> None:
    reading = clock()
    reading.read(NOON + HOUR_MS + 1000, 1.0)

    assert reading.read(NOON + HOUR_MS + 300_000, 300.0).wall_ms == NOON + 300_000
    assert reading.read(NOON + HOUR_MS + 301_000, 301.0).wall_ms == NOON + HOUR_MS + 301_000


def test_one_that_jumps_again_meanwhile_is_believed_later() -> None:
    reading = clock()
    reading.read(NOON + HOUR_MS, 0.0)
    reading.read(NOON + 2 * HOUR_MS + 200_000, 200.0)

    assert reading.read(NOON + 2 * HOUR_MS + 400_000, 400.0).wall_ms == NOON + 400_000
    assert reading.read(NOON + 2 * HOUR_MS + 500_000, 500.0).wall_ms == NOON + 2 * HOUR_MS + 500_000


def test_a_clock_that_is_set_back_is_believed_at_once() -> None:
    reading = clock()

    assert reading.read(NOON - HOUR_MS, 1.0).wall_ms == NOON - HOUR_MS
    assert reading.read(NOON + 2000, 2.0).wall_ms == NOON - HOUR_MS + 1000, "and then one that goes ahead is not"


def test_small_corrections_are_believed_as_they_come() -> None:
    reading = clock()

    assert reading.read(NOON + 60_050, 60.0).wall_ms == NOON + 60_050
    assert reading.read(NOON + 60_051 + 100, 60.001).wall_ms == NOON + 60_051


def test_without_a_time_to_confirm_every_clock_is_believed() -> None:
    assert clock(0).read(NOON + HOUR_MS, 0.0).wall_ms == NOON + HOUR_MS

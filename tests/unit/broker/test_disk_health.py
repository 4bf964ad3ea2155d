"""When a disk counts as slow."""

from headrace.broker.health.disk_health import FLUSHES_MIN, slow_disk


def test_a_disk_whose_flushes_are_quick_is_not_slow() -> None:
    assert slow_disk([0.01] * 100, 0.02, slow_s=0.5) is None


def test_a_disk_is_slow_when_one_flush_in_ten_is() -> None:
    reason = slow_disk([0.01] * 89 + [0.8] * 11, 0.0, slow_s=0.5)

    assert reason is not None
    assert "800 ms" in reason


def test_a_single_slow_flush_says_nothing() -> None:
    assert slow_disk([0.01] * 99 + [3.0], 0.0, slow_s=0.5) is None
    assert slow_disk([3.0] * (FLUSHES_MIN - 1), 0.0, slow_s=0.5) is None


def test_a_flush_that_does_not_end_says_much() -> None:
    reason = slow_disk([], 6.0, slow_s=0.5)

    assert reason is not None
    assert "6.0 s" in reason

"""When delivery to a share group pauses, and when it goes on."""

from headrace.coordination.share.breaker import Breaker, BreakerLimits

LIMITS = BreakerLimits(percent=50, records=10, pause_ms=1_000)


def note(breaker: Breaker, outcomes: str, now_ms: int = 1, limits: BreakerLimits = LIMITS) -> list[bool]:
    """`x` is a record that is given up, `.` one that is accepted."""
    return [breaker.note(1, given_up=each == "x", limits=limits, now_ms=now_ms) for each in outcomes]


def test_delivery_pauses_when_more_than_the_set_share_is_given_up() -> None:
    breaker = Breaker()

    assert not any(note(breaker, "xxxxx....."))  # half is not more than half
    assert note(breaker, "xxxxxx")[-1]
    assert breaker.is_open(LIMITS, 1)
    assert (breaker.given_up, breaker.looked_at) == (6, 10)


def test_a_few_records_decide_nothing() -> None:
    assert not any(note(Breaker(), "xxxxxxxxx"))


def test_only_the_last_records_are_looked_at() -> None:
    breaker = Breaker()
    note(breaker, "." * 1000)

    assert note(breaker, "xxxxxx")[-1]


def test_after_the_pause_a_tenth_as_many_decide() -> None:
    breaker = Breaker()
    note(breaker, "x" * 10)
    assert breaker.is_open(LIMITS, 1_000)

    assert not breaker.is_open(LIMITS, 1_001)
    assert note(breaker, "x", now_ms=1_002) == [True]
    assert not breaker.is_open(LIMITS, 2_002)
    assert not any(note(breaker, ".xxxxxxxx", now_ms=2_003))


def test_somebody_who_has_looked_ends_the_pause_and_it_begins_as_new() -> None:
    breaker = Breaker()
    note(breaker, "x" * 10, now_ms=500)
    resumed = BreakerLimits(percent=50, records=10, pause_ms=1_000, resumed_ms=600)

    assert not breaker.is_open(resumed, 601)
    assert not any(note(breaker, "x" * 9, now_ms=602, limits=resumed))
    assert note(breaker, "x", now_ms=603, limits=resumed) == [True]


def test_without_a_percentage_nothing_is_looked_at_and_a_pause_is_over() -> None:
    breaker = Breaker()
    note(breaker, "x" * 10)

    assert not breaker.is_open(BreakerLimits(), 1)
    assert not any(note(breaker, "x" * 1000, limits=BreakerLimits()))


def test_many_at_once_count_as_many() -> None:
    breaker = Breaker()

    assert breaker.note(10, given_up=True, limits=LIMITS, now_ms=1)
    assert not breaker.note(10, given_up=True, limits=LIMITS, now_ms=2), "nothing is noted while it pauses"

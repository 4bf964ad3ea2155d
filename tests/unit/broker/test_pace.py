"""Who is too slow: judged over a whole window, and afresh with every new thing."""

from headrace.broker.network.pace import Pace


def test_what_moves_too_little_for_a_whole_window_is_below_the_rate() -> None:
    pace = Pace()

    assert not pace.is_below(10, 5, thing=1, moved=0, now=100)
    assert not pace.is_below(10, 5, thing=1, moved=20, now=104.9)
    assert pace.is_below(10, 5, thing=1, moved=49, now=105)


def test_what_was_fast_enough_is_looked_at_afresh() -> None:
    pace = Pace()
    pace.is_below(10, 5, thing=1, moved=0, now=100)

    assert not pace.is_below(10, 5, thing=1, moved=1000, now=105)
    assert pace.is_below(10, 5, thing=1, moved=1010, now=110)


def test_a_new_thing_has_a_window_of_its_own() -> None:
    pace = Pace()
    pace.is_below(10, 5, thing=1, moved=0, now=100)

    assert not pace.is_below(10, 5, thing=2, moved=1, now=200)
    assert not pace.is_below(10, 5, thing=2, moved=1, now=204)
    assert pace.is_below(10, 5, thing=2, moved=1, now=205)

"""Lines that say the same again and again are left out after a while, and counted."""

import logging

from headrace.metrics import log_lines
from headrace.metrics.log_lines import LimitedRepetition, LogFigures


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def record(message: str, *values: object, level: int = logging.ERROR) -> logging.LogRecord:
    return logging.LogRecord("headrace.broker", level, "file", 1, message, values, None)


def test_after_so_many_a_minute_lines_that_say_the_same_are_left_out() -> None:
    figures, clock = LogFigures(), Clock()
    limit = LimitedRepetition(2, figures, clock)

    assert [limit.filter(record("lost %s", n)) for n in range(5)] == [True, True, False, False, False]
    assert limit.filter(record("found %s", 1))
    assert figures.left_out == 3
    assert figures.lines == {"ERROR": 6}


def test_the_first_of_the_next_minute_says_how_many_were_left_out() -> None:
    clock = Clock()
    limit = LimitedRepetition(1, LogFigures(), clock)
    for _ in range(4):
        limit.filter(record("lost"))
    clock.now = 60.0
    again, then = record("lost"), record("lost")

    assert limit.filter(again)
    assert again.__dict__["left_out"] == 3
    assert not limit.filter(then)


def test_what_is_only_told_is_never_left_out() -> None:
    limit = LimitedRepetition(1, LogFigures(), Clock())

    assert all(limit.filter(record("started", level=logging.INFO)) for _ in range(5))


def test_without_a_limit_nothing_is_left_out() -> None:
    limit = LimitedRepetition(0, LogFigures(), Clock())

    assert all(limit.filter(record("lost")) for _ in range(5))


def test_only_so_many_kinds_of_lines_are_remembered() -> None:
    limit = LimitedRepetition(1, LogFigures(), Clock())
    for number in range(log_lines.KINDS_MAX + 1):
        limit.filter(record(f"kind {number}"))

    assert limit.filter(record("kind 0"))
    assert not limit.filter(record(f"kind {log_lines.KINDS_MAX}"))

"""librdkafka's lines: those that say the same are counted, not repeated."""

import logging

from headrace.client.logs import Repeats, librdkafka_log


def line(text: str) -> logging.LogRecord:
    return logging.LogRecord("headrace.client.librdkafka", logging.ERROR, "", 0, text, (), None)


def failure(client: int, milliseconds: int) -> str:
    where = f"[rdkafka#producer-{client}] [thrd:127.0.0.1:1/bootstrap]: 127.0.0.1:1/bootstrap"
    return f"FAIL {where}: Connect to ipv4#127.0.0.1:1 failed: Connection refused (after {milliseconds}ms in state CONNECT)"


def test_lines_that_say_the_same_are_counted_and_not_repeated() -> None:
    now = [100.0]
    repeats = Repeats(lambda: now[0])
    shown = [repeats.filter(line(failure(1, number))) for number in range(40)]
    another = repeats.filter(line(failure(2, 0)))
    now[0] += Repeats.AGAIN_S
    again = line(failure(1, 7))

    assert shown == [True] + [False] * 39
    assert another
    assert repeats.filter(again)
    assert again.getMessage() == failure(1, 7) + " (39 more like it were left out)"


def test_every_reset_of_an_offset_is_told() -> None:
    repeats = Repeats(lambda: 0.0)
    reset = "OFFSET [rdkafka#consumer-1] [thrd:main]: t [0]: offset reset (at offset 9 (epoch 1)) to offset BEGINNING"

    assert repeats.filter(line(reset))
    assert repeats.filter(line(reset))


def test_the_sdk_writes_its_lines_through_it() -> None:
    assert any(isinstance(each, Repeats) for each in librdkafka_log.filters)

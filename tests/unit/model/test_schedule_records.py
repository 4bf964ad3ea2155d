"""What clients may write of schedules: what is not one is refused in words, whatever it is."""

import pytest

from headrace.model.delay.schedules import read_schedule

HALF = r"\ud800"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "it is not JSON"),
        (b"\xff", "it is not JSON"),
        (b"9" * 5000, "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b'{"headers": ' * 100_000, "it is not JSON"),
        (b"[]", "it is not a JSON object"),
        (b'{"when": 1}', "'when' is not a part of a schedule"),
        (b'{"run": 1}', "'run' is not a name"),
        (b'{"run": "%s"}' % HALF.encode(), "half of a character"),
        (b'{"cron": "* * * * *"}', "'topic' is not a text"),
        (b'{"cron": "* * * * *", "topic": "t", "missed": "often"}', "'missed' is not one of"),
        (b'{"cron": "* * * * *", "topic": "t", "paused": 1}', "'paused' is neither"),
        (b'{"cron": "* * * * *", "topic": "t", "headers": {"a": 1}}', "'headers' are not"),
        (b'{"cron": "* * * * *", "topic": "t", "value": "%s"}' % HALF.encode(), "half of a character"),
    ],
    ids=range(14),
)
def test_what_is_no_schedule_is_refused_in_words(value: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_schedule(value)

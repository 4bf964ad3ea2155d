"""When a record is due, by its headers."""

import pytest

from headrace.model.delay.headers import DUE_MS_MAX, due_of, headers_when_delivered, is_cancellation

NOW = 1000


def test_a_record_without_such_headers_is_not_delayed() -> None:
    assert due_of([("trace", b"7"), ("headrace-ttl-ms", b"5")], NOW) is None


def test_a_time_is_a_time_and_a_delay_counts_from_now() -> None:
    assert due_of([("headrace-deliver-at", b"5000")], NOW) == 5000
    assert due_of([("headrace-delay-ms", b"5000")], NOW) == 6000


def test_of_several_headers_the_last_one_counts() -> None:
    assert due_of([("headrace-deliver-at", b"5000"), ("headrace-delay-ms", b"1")], NOW) == 1001


def test_a_year_is_fine_and_no_delay_is_too_long() -> None:
    assert due_of([("headrace-delay-ms", b"31536000000")], NOW) == NOW + 31_536_000_000
    assert due_of([("headrace-delay-ms", str(DUE_MS_MAX).encode())], NOW) == DUE_MS_MAX


@pytest.mark.parametrize("value", [None, b"", b"soon", b"-1", b"1.5", b"99999999999999999", "٣".encode()])
def test_what_is_no_number_of_milliseconds_is_refused(value: bytes | None) -> None:
    with pytest.raises(ValueError, match="not a number of milliseconds"):
        due_of([("headrace-delay-ms", value)], NOW)


def test_a_delivered_record_says_when_it_was_due_and_is_delayed_nowhere_again() -> None:
    headers = headers_when_delivered([("a", b"1"), ("headrace-delay-ms", b"50"), ("a", None)], 1050)

    assert headers == (("a", b"1"), ("a", None), ("headrace-deliver-at", b"1050"))


def test_a_cancellation_is_told_by_its_header() -> None:
    assert is_cancellation([("headrace-cancel", None)])
    assert not is_cancellation([("cancel", b"")])

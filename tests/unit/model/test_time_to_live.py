"""The time to live of a record, as every reader of ours counts it."""

import pytest

from headrace.model.time_to_live import TTL_HEADER, expires_at, is_expired


def test_a_record_expires_so_many_milliseconds_after_its_timestamp() -> None:
    headers = [("trace", b"1"), (TTL_HEADER, b"500")]

    assert expires_at(headers, 1000) == 1500
    assert not is_expired(headers, 1000, now_ms=1500)
    assert is_expired(headers, 1000, now_ms=1501)


def test_a_record_without_the_header_stays() -> None:
    assert expires_at([("trace", b"1")], 1000) is None
    assert not is_expired([], 0, now_ms=2**62)


@pytest.mark.parametrize("value", [None, b"", b"-1", b"1.5", b" 5", b"soon", b"9" * 19, "٣".encode()])
def test_a_header_that_is_no_number_of_milliseconds_lets_nothing_expire(value: bytes | None) -> None:
    assert not is_expired([(TTL_HEADER, value)], 0, now_ms=2**62)


def test_of_several_headers_the_last_one_counts() -> None:
    assert expires_at([(TTL_HEADER, b"1"), (TTL_HEADER, b"9")], 0) == 9

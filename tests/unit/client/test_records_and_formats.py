"""Records, formats, headers, time to live."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import DecodeFailed, EncodeFailed, InvalidArgument, Record
from headrace.client.records.record import decoded, expired, headers_for_sending, message_of
from headrace.client.records.serialization import BYTES, JSON, STR, codec, encoded

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(json_values.filter(lambda value: value is not None))
def test_json_comes_back_as_it_went(value: Any) -> None:
    assert JSON.decode(JSON.encode(value)) == value


@given(st.text())
def test_text_comes_back_as_it_went(value: str) -> None:
    assert STR.decode(STR.encode(value)) == value


@pytest.mark.parametrize(
    ("given_format", "expected"), [(bytes, BYTES), ("bytes", BYTES), (str, STR), ("str", STR), ("json", JSON)]
)
def test_formats_have_names_and_types(given_format: object, expected: object) -> None:
    assert codec("values", given_format) is expected


def test_a_pair_of_callables_is_a_format() -> None:
    numbers = codec("values", (lambda number: b"%d" % number, int))

    assert numbers.decode(numbers.encode(12)) == 12


@pytest.mark.parametrize("each", [BYTES, STR, JSON])
def test_nothing_stays_nothing_in_every_format(each: Any) -> None:
    assert encoded(each, "value", None, "t") is None


@pytest.mark.parametrize(
    ("given_format", "value", "said"),
    [
        (BYTES, {"a": 1}, "values='json'"),
        (STR, b"bytes", "not a str"),
        (JSON, object(), "not JSON serializable"),
        (codec("values", (lambda value: "text", bytes)), "x", "returned str, not bytes"),
    ],
)
def test_what_does_not_encode_says_what_and_where(given_format: Any, value: object, said: str) -> None:
    with pytest.raises(EncodeFailed, match="the value of a record for topic 'orders'") as caught:
        encoded(given_format, "value", value, "orders")

    assert said in str(caught.value)


def test_what_does_not_decode_comes_with_its_bytes_and_its_place() -> None:
    message = message_of(Record.of("orders", b"{broken", key=b"k", partition=3, offset=9))

    with pytest.raises(DecodeFailed, match=r"the value of the record orders\[3\]@9 could not be read as json") as caught:
        decoded(message, BYTES, JSON)

    assert caught.value.record.raw_value == b"{broken"
    assert caught.value.record.key == b"k"


def test_a_record_made_by_hand_has_everything_a_handler_looks_at() -> None:
    record = Record.of("orders", {"id": 1}, key="k", partition=2, offset=5, timestamp=1500, headers={"trace": "abc"})

    assert (record.topic, record.partition, record.offset, record.timestamp) == ("orders", 2, 5, 1500)
    assert record.value == {"id": 1}
    assert record.headers == [("trace", b"abc")]
    assert record.header("trace") == b"abc"
    assert record.header("none") is None
    assert record.time.isoformat() == "1970-01-01T00:00:01.500000+00:00"
    assert record == Record.of("orders", {"id": 1}, key="k", partition=2, offset=5, timestamp=1500, headers=[("trace", b"abc")])
    assert "orders[2]@5" in repr(record)


def test_the_last_of_several_headers_of_one_name_is_the_one() -> None:
    assert Record.of("t", b"", headers=[("a", b"1"), ("a", b"2")]).header("a") == b"2"


@pytest.mark.parametrize(("ttl", "header"), [(1, b"1000"), (0.25, b"250"), (timedelta(minutes=1), b"60000")])
def test_a_time_to_live_travels_in_a_header_in_milliseconds(ttl: Any, header: bytes) -> None:
    assert headers_for_sending({"a": "b"}, ttl) == [("a", b"b"), ("headrace-ttl-ms", header)]


@pytest.mark.parametrize("headers", [{"a": 1}, [("a",)], [(b"a", b"b")], ["ab"]])
def test_headers_of_other_kinds_are_refused(headers: Any) -> None:
    with pytest.raises(InvalidArgument, match="headers holds"):
        headers_for_sending(headers, None)


@pytest.mark.parametrize("ttl", [0, -1, "soon"])
def test_a_time_to_live_is_a_duration_above_zero(ttl: Any) -> None:
    with pytest.raises(InvalidArgument, match="ttl="):
        headers_for_sending(None, ttl)


@pytest.mark.parametrize(("now", "gone"), [(1999, False), (2000, False), (2001, True), (9999, True)])
def test_a_record_is_expired_from_its_timestamp_plus_its_time_to_live(now: int, gone: bool) -> None:
    message = message_of(Record.of("t", b"v", timestamp=1000, headers={"headrace-ttl-ms": b"1000"}))

    assert expired(message, now) is gone


@pytest.mark.parametrize("text", [b"", b"soon", b"-5", b"1.5"])
def test_a_header_that_is_no_number_is_no_time_to_live(text: bytes) -> None:
    assert not expired(message_of(Record.of("t", b"v", timestamp=0, headers={"headrace-ttl-ms": text})), 10**15)


def test_a_key_that_is_no_bytes_is_told_of_the_keys_format() -> None:
    with pytest.raises(EncodeFailed, match=r"the key of a record .* such as keys='json'"):
        encoded(BYTES, "key", 3, "orders")

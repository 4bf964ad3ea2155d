"""Whatever the bytes are, a reader answers with a message or with WireError, and takes no more memory than they justify."""

import random
import tracemalloc
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from headrace.wire.codec import ITEMS_MAX, WireError, decode, decode_at, encode
from headrace.wire.messages.create_topics import CreateTopicsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest
from headrace.wire.messages.heartbeat import HeartbeatRequest
from headrace.wire.messages.metadata import MetadataRequest
from headrace.wire.messages.produce import ProduceRequest
from tests.unit.wire.wire_strategies import ALL_MESSAGES, kept_by, messages, versions_of

QUICK = settings(
    max_examples=3,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)

HUGE_COUNTS = [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\x80\x00\x00\x00", b"\xff\xff\xff\xfe"]


@pytest.mark.parametrize("message", ALL_MESSAGES, ids=lambda message: message.__name__)
def test_a_message_cut_at_any_byte_is_refused(message: type[Any]) -> None:
    @QUICK
    @given(messages(message))
    def check(value: Any) -> None:
        for version in versions_of(message):
            data = encode(kept_by(value, version), version)
            for end in range(len(data)):
                with pytest.raises(WireError):
                    decode_at(message, data[:end], version)

    check()


@pytest.mark.parametrize("message", ALL_MESSAGES, ids=lambda message: message.__name__)
def test_random_bytes_never_raise_anything_but_wire_error(message: type[Any]) -> None:
    chance = random.Random(message.__name__)
    for version in versions_of(message):
        for _ in range(20):
            read_or_refuse(message, chance.randbytes(chance.randrange(60)), version)
        for fill in (0, 1, 2, 0x7F, 0x80, 0xFF):
            read_or_refuse(message, bytes([fill]) * 40, version)


@pytest.mark.parametrize("message", ALL_MESSAGES, ids=lambda message: message.__name__)
def test_a_huge_length_anywhere_is_refused_or_means_something_small(message: type[Any]) -> None:
    @QUICK
    @given(messages(message))
    def check(value: Any) -> None:
        for version in versions_of(message):
            data = encode(kept_by(value, version), version)
            for position in range(min(len(data), 40)):
                for huge in HUGE_COUNTS:
                    read_or_refuse(message, data[:position] + huge + data[position + 1 :], version)

    check()


def read_or_refuse(message: type[Any], data: bytes, version: int) -> None:
    try:
        decode_at(message, data, version)
    except WireError:
        return


@pytest.mark.parametrize(("version", "count"), [(3, (999_999).to_bytes(4, "big")), (6, b"\xc0\x84\x3d")])
def test_an_announced_array_costs_nothing_before_its_bytes_are_there(version: int, count: bytes) -> None:
    decode(DeleteTopicsRequest, encode(DeleteTopicsRequest(timeout_ms=1), version), version)  # compile it outside the measurement
    tracemalloc.start()
    try:
        with pytest.raises(WireError, match="counts more items than there are bytes"):
            decode(DeleteTopicsRequest, count + bytes(100), version)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 20_000


def test_the_items_of_one_message_are_bounded_even_if_the_frame_has_room() -> None:
    count = ITEMS_MAX + 1
    topics = count.to_bytes(4, "big") + b"\x00\x00" * count

    with pytest.raises(WireError, match="exceeds the number of items"):
        decode(MetadataRequest, topics, 0)


def test_many_small_arrays_count_together() -> None:
    # Each partition announces as many broker ids as its room allows; together they exceed the bound long before memory does.
    inner = ITEMS_MAX // 4
    assignment = (0).to_bytes(4, "big") + inner.to_bytes(4, "big") + bytes(4 * inner)
    topic = b"\x00\x01t" + (1).to_bytes(4, "big") + (1).to_bytes(2, "big") + (5).to_bytes(4, "big") + assignment * 5
    request = (1).to_bytes(4, "big") + topic + (0).to_bytes(4, "big") + (0).to_bytes(4, "big")

    with pytest.raises(WireError, match="exceeds the number of items"):
        decode(CreateTopicsRequest, request, 0)


@pytest.mark.parametrize("version", [0, 4])
def test_strings_must_be_utf8(version: int) -> None:
    data = encode(HeartbeatRequest(group_id="ab", generation_id=1, member_id="m"), version).replace(b"ab", b"\xff\xfe")

    with pytest.raises(WireError, match="not UTF-8"):
        decode(HeartbeatRequest, data, version)


@pytest.mark.parametrize("version", [3, 9])
def test_strings_must_be_utf8_beside_records_too(version: int) -> None:
    data = encode(ProduceRequest(transactional_id="ab", acks=1, timeout_ms=1, topic_data=()), version).replace(b"ab", b"\xff\xfe")

    with pytest.raises(WireError, match="not UTF-8"):
        decode(ProduceRequest, data, version)


def test_a_compact_string_keeps_to_the_limit_of_the_old_ones() -> None:
    too_long = b"\x81\x80\x02" + b"x" * 32768

    with pytest.raises(WireError, match="longer than 32767"):
        decode(HeartbeatRequest, too_long + bytes(10), 4)


def test_a_negative_length_below_null_is_refused() -> None:
    with pytest.raises(WireError, match="negative length"):
        decode(HeartbeatRequest, b"\x00\x01g" + bytes(4) + b"\x00\x01m" + b"\xff\xfe", 3)


def test_an_unknown_tagged_field_cut_at_any_byte_is_refused() -> None:
    body = encode(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)[:-1]
    section = b"\x02" + b"\x05\x03abc" + b"\x81\x01\x02de"

    assert decode_at(HeartbeatRequest, body + section, 4)[1] == len(body + section)
    for end in range(len(section)):
        with pytest.raises(WireError):
            decode_at(HeartbeatRequest, body + section[:end], 4)


@given(st.binary(max_size=12).map(lambda tail: b"\x01" + tail))
@settings(max_examples=100)
def test_broken_tagged_sections_are_refused_or_skipped(section: bytes) -> None:
    body = encode(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)[:-1]

    read_or_refuse(HeartbeatRequest, body + section, 4)

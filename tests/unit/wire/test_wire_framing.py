"""Headers of requests and replies, and which APIs have which."""

import struct

import pytest
from kafka.protocol.metadata import ApiVersionsResponse as TheirApiVersionsResponse

from headrace.wire.apis import FLEXIBLE_FROM, ApiKey, declared_keys, is_flexible, messages_of
from headrace.wire.codec import encode
from headrace.wire.errors import WireError
from headrace.wire.framing import (
    RequestHeader,
    read_request_header,
    read_response_header,
    request_frame,
    response_frame,
    response_header,
)
from headrace.wire.messages.api_versions import ApiVersion, ApiVersionsResponse

# The first flexible version of each API as Apache Kafka 4.4.0 has it; APIs that are not listed have none.
KAFKA_FLEXIBLE_FROM = {
    0: 9, 1: 12, 2: 6, 3: 9, 8: 8, 9: 6, 10: 3, 11: 6, 12: 4, 13: 4, 14: 4, 15: 5, 16: 3, 18: 3, 19: 5, 20: 4, 21: 2, 22: 2,
    23: 4, 24: 3, 25: 3, 26: 3, 27: 1, 28: 3, 29: 2, 30: 2, 31: 2, 32: 4, 33: 2, 34: 2, 35: 2, 36: 2, 37: 2, 38: 2, 39: 2,
    40: 2, 41: 2, 42: 2, 43: 2, 44: 1, 45: 0, 46: 0, 48: 1, 49: 1, 50: 0, 51: 0, 55: 0, 56: 0, 57: 0, 60: 0, 61: 0, 64: 0,
    65: 0, 66: 0, 68: 0, 69: 0, 71: 0, 72: 0, 74: 0, 75: 0, 76: 0, 77: 0, 78: 0, 79: 0, 83: 0, 84: 0, 85: 0, 86: 0,
    87: 0, 90: 0, 91: 0, 92: 0,
}  # fmt: skip


def test_every_api_turns_flexible_at_kafkas_version() -> None:
    assert FLEXIBLE_FROM == KAFKA_FLEXIBLE_FROM


def test_the_table_of_flexible_versions_agrees_with_the_declarations() -> None:
    for key in declared_keys():
        pair = messages_of(key)

        assert pair.request.api == pair.response.api
        assert pair.api.key == key
        assert pair.api.flexible_from == FLEXIBLE_FROM.get(key)


def test_an_api_that_is_not_declared_is_refused_by_name() -> None:
    with pytest.raises(LookupError, match="LEADER_AND_ISR"):
        messages_of(ApiKey.LEADER_AND_ISR)


@pytest.mark.parametrize("client_id", [None, "", "rdkafka", "é"])
def test_a_request_header_reads_back_in_every_version(client_id: str | None) -> None:
    for key in sorted(declared_keys()):
        for version in messages_of(key).api.versions:
            header = RequestHeader(key, version, 7, client_id)
            frame = b"".join(request_frame(header, [b"body"]))

            assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
            read, position = read_request_header(frame[4:])
            assert read == header
            assert frame[4:][position:] == b"body"
            assert read_request_header(memoryview(frame)[4:]) == (header, position)


def test_a_request_header_cut_anywhere_is_refused() -> None:
    for version in (0, 12):
        frame = b"".join(request_frame(RequestHeader(ApiKey.METADATA, version, 7, "client"), []))[4:]
        for end in range(len(frame)):
            with pytest.raises(WireError):
                read_request_header(frame[:end])


def test_tagged_fields_in_a_request_header_are_skipped() -> None:
    frame = struct.pack(">hhih", ApiKey.METADATA, 12, 7, -1) + b"\x02\x00\x01a\x05\x00" + b"body"

    header, position = read_request_header(frame)

    assert header == RequestHeader(ApiKey.METADATA, 12, 7, None)
    assert frame[position:] == b"body"


@pytest.mark.parametrize("broken", [b"\xff\xfe", b"\x00\x02\xff\xfe", b"\x7f\xffx", b"\xff\xff\x01\x00\xff\xff\xff\xff\x0f"])
def test_a_broken_request_header_is_refused(broken: bytes) -> None:
    with pytest.raises(WireError):
        read_request_header(struct.pack(">hhi", ApiKey.METADATA, 12, 7) + broken)


def test_the_header_of_an_unknown_api_or_version_is_read_as_far_as_it_is_known() -> None:
    unknown_api, _ = read_request_header(struct.pack(">hhih", 999, 3, 7, -1))
    too_new, position = read_request_header(struct.pack(">hhih", ApiKey.API_VERSIONS, 99, 8, -1) + b"\x00rest")

    assert unknown_api == RequestHeader(999, 3, 7, None)
    assert too_new == RequestHeader(ApiKey.API_VERSIONS, 99, 8, None)
    assert position == 11


def test_a_response_header_has_tagged_fields_from_the_first_flexible_version_on() -> None:
    assert response_header(ApiKey.METADATA, 8, 7) == b"\x00\x00\x00\x07"
    assert response_header(ApiKey.METADATA, 9, 7) == b"\x00\x00\x00\x07\x00"


def test_the_response_header_of_api_versions_never_has_tagged_fields() -> None:
    for version in range(6):
        assert response_header(ApiKey.API_VERSIONS, version, 7) == b"\x00\x00\x00\x07"
        assert read_response_header(b"\x00\x00\x00\x07rest", ApiKey.API_VERSIONS, version) == (7, 4)


def test_a_response_frame_is_its_length_its_header_and_the_given_pieces() -> None:
    large = memoryview(bytes(100))

    for key, version in ((ApiKey.FETCH, 11), (ApiKey.FETCH, 12)):
        pieces = response_frame(key, version, 7, [b"ab", large])

        assert pieces[2] is large
        frame = b"".join(pieces)
        assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
        correlation_id, position = read_response_header(frame[4:], key, version)
        assert correlation_id == 7
        assert frame[4:][position:] == b"ab" + bytes(100)
        assert is_flexible(key, version) == (position == 5)


def test_a_response_header_cut_anywhere_is_refused() -> None:
    for end in range(5):
        with pytest.raises(WireError):
            read_response_header(response_header(ApiKey.FETCH, 12, 7)[:end], ApiKey.FETCH, 12)


def test_a_whole_reply_is_read_by_another_client() -> None:
    body = encode(ApiVersionsResponse(error_code=0, api_keys=(ApiVersion(api_key=18, min_version=0, max_version=4),)), 3)
    frame = b"".join(response_frame(ApiKey.API_VERSIONS, 3, 7, [body]))

    theirs = TheirApiVersionsResponse.decode(frame, version=3, header=True, framed=True)

    assert theirs.header.correlation_id == 7
    assert [(api.api_key, api.min_version, api.max_version) for api in theirs.api_keys] == [(18, 0, 4)]

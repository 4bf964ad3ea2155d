"""What is written is read back, in every version of every message; and what does not fit is our own mistake, named."""

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.wire.codec import WireError, decode, decode_at, encode, encode_versioned, read_version
from headrace.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData, ReplicaState
from headrace.wire.messages.heartbeat import HeartbeatRequest
from headrace.wire.messages.metadata import MetadataRequest
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.wire.pieces import pieces_of
from headrace.wire.schema import Layout, Since, Tagged, array, int32, string
from tests.unit.wire.wire_strategies import ALL_MESSAGES, kept_by, messages, versions_of

QUICK = settings(max_examples=6, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("message", ALL_MESSAGES, ids=lambda message: message.__name__)
def test_every_version_of_a_message_reads_back_what_it_wrote(message: type[Any]) -> None:
    @QUICK
    @given(messages(message))
    def check(value: Any) -> None:
        for version in versions_of(message):
            kept = kept_by(value, version)

            data = encode(kept, version)

            assert decode(message, data, version) == kept
            assert decode(message, memoryview(data), version) == kept

    check()


def test_fields_that_a_version_lacks_are_left_out_whatever_they_hold() -> None:
    old = HeartbeatRequest(group_id="g", generation_id=1, member_id="m", group_instance_id="static")

    assert encode(old, 2) == encode(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 2)
    assert decode(HeartbeatRequest, encode(old, 2), 2).group_instance_id is None


def test_null_and_empty_arrays_stay_apart() -> None:
    everything = MetadataRequest(topics=None)
    nothing = MetadataRequest(topics=())

    for version in range(1, 14):
        assert decode(MetadataRequest, encode(everything, version), version).topics is None
        assert decode(MetadataRequest, encode(nothing, version), version).topics == ()


def test_null_where_the_version_forbids_it_is_refused_on_both_sides() -> None:
    with pytest.raises(ValueError, match="MetadataRequest does not fit version 0"):
        encode(MetadataRequest(topics=None), 0)
    with pytest.raises(WireError, match="must not be null"):
        decode(MetadataRequest, b"\xff\xff\xff\xff", 0)


def test_a_version_that_is_not_declared_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="HeartbeatRequest has versions 0 to 4, not 5"):
        encode(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 5)
    with pytest.raises(ValueError, match="not -1"):
        decode(HeartbeatRequest, b"", -1)


@pytest.mark.parametrize("version", [0, 4])
def test_a_value_that_does_not_fit_its_field_is_refused(version: int) -> None:
    for wrong in (
        {"generation_id": 2**31},
        {"generation_id": "1"},
        {"member_id": "m" * 32768},
        {"member_id": None},
        {"group_id": 7},
    ):
        fields: dict[str, Any] = {"group_id": "g", "generation_id": 1, "member_id": "m", **wrong}
        with pytest.raises(ValueError, match="HeartbeatRequest does not fit"):
            encode(HeartbeatRequest(**fields), version)


def test_bytes_left_over_are_refused_unless_they_may_be_there() -> None:
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    data = encode(request, 0) + b"??"

    with pytest.raises(WireError, match="2 bytes are left over"):
        decode(HeartbeatRequest, data, 0)
    assert decode(HeartbeatRequest, data, 0, exact=False) == request
    assert decode_at(HeartbeatRequest, data, 0) == (request, len(data) - 2)


def test_unknown_tagged_fields_are_skipped() -> None:
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    data = encode(request, 4)
    assert data[-1] == 0

    tagged = data[:-1] + b"\x02" + b"\x05\x03abc" + b"\x81\x01\x00"

    assert decode(HeartbeatRequest, tagged, 4) == request


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    number: Annotated[int, int32] = 7
    words: Annotated[tuple[str, ...], array(string), Since(1)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    layout: ClassVar[Layout] = Layout(versions=range(3), flexible_from=1)
    first: Annotated[Inner | None, Inner, Since(1), Tagged(0)] = None
    rest: Annotated[tuple[Inner, ...], array(Inner), Since(1), Tagged(130)] = ()
    plain: Annotated[Inner | None, Inner, Since(2)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaHolder:
    layout: ClassVar[Layout] = Layout(versions=range(1), flexible_from=0)
    state: Annotated[ReplicaState, ReplicaState, Tagged(0)] = field(default_factory=ReplicaState)


@QUICK
@given(messages(Outer), st.integers(0, 2))
def test_structs_may_be_null_nested_and_tagged(value: Outer, version: int) -> None:
    kept = kept_by(value, version)

    assert decode(Outer, encode(kept, version), version) == kept


def test_tagged_fields_with_their_default_take_no_room() -> None:
    assert encode(Outer(), 1) == b"\x00"
    assert encode(ReplicaHolder(state=ReplicaState(replica_id=-1, replica_epoch=-1)), 0) == b"\x00"
    assert encode(Outer(rest=(Inner(number=1),)), 1) == b"\x01" + b"\x82\x01" + b"\x07" + b"\x02\x00\x00\x00\x01\x01\x00"


def test_a_known_tagged_field_must_fill_the_size_that_it_announces() -> None:
    with pytest.raises(WireError, match="does not fill"):
        decode(Outer, b"\x01" + b"\x82\x01" + b"\x08" + b"\x02\x00\x00\x00\x01\x01\x00\x00", 1)


def test_records_come_out_of_a_frame_without_being_copied() -> None:
    request = ProduceRequest(
        acks=1,
        timeout_ms=1,
        topic_data=(TopicProduceData(name="t", partition_data=(PartitionProduceData(index=0, records=b"batch"),)),),
    )
    frame = bytearray(encode(request, 9))

    records = decode(ProduceRequest, memoryview(frame), 9).topic_data[0].partition_data[0].records

    assert isinstance(records, memoryview)
    assert records.obj is frame


def test_large_records_leave_as_the_very_buffers_that_were_handed_over() -> None:
    large, small = memoryview(bytes(10_000)), b"small"
    partitions = (
        PartitionData(partition_index=0, error_code=0, records=large),
        PartitionData(partition_index=1, error_code=0, records=[small, large]),
    )
    response = FetchResponse(responses=(FetchableTopicResponse(topic="t", partitions=partitions),))

    for version in versions_of(FetchResponse):
        pieces = pieces_of(response, version)

        assert [piece for piece in pieces if piece is large] == [large, large]
        assert len(pieces) <= 5
        read = decode(FetchResponse, b"".join(pieces), version).responses[0].partitions
        assert [part.records for part in read] == [bytes(large), small + bytes(large)]


def test_an_entry_of_a_coordinators_log_carries_its_version() -> None:
    entry = Outer(rest=(Inner(number=1),))
    data = encode_versioned(entry, 1)

    version, position = read_version(data)

    assert (version, position) == (1, 2)
    assert decode(Outer, data, version, position) == entry
    with pytest.raises(WireError, match="before its version"):
        read_version(data[:1])

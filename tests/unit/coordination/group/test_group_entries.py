"""Entries of the group coordinator are, byte for byte, the records that Kafka writes into `__consumer_offsets`."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.coordinators.groups.entries import GroupEntryCodec, declared_offset_bytes, declared_offset_entry
from headrace.broker.coordinators.placement import java_hash, partition_for
from headrace.coordination.group.entries import (
    AssignmentEntry,
    AssignmentValue,
    ClassicGroupEntry,
    ClassicGroupValue,
    ClassicMemberValue,
    ClassicProtocols,
    CommittedOffset,
    Entry,
    GroupEpochEntry,
    GroupEpochValue,
    LegacyTopicsEntry,
    MemberEntry,
    MemberState,
    MemberValue,
    OffsetEntry,
    RegexEntry,
    RegexValue,
    TargetEntry,
    TargetEpochEntry,
    TargetEpochValue,
)
from headrace.wire.entries import group as wire
from headrace.wire.errors import WireError

CODEC = GroupEntryCodec()
TOPIC = UUID(int=(1 << 64) + 2)
SAMPLES = {
    name: (bytes.fromhex(key), None if value == "-" else bytes.fromhex(value))
    for name, key, value in (
        line.split() for line in (Path(__file__).parent / "entries_by_kafka.txt").read_text().splitlines() if line[0] != "#"
    )
}
COMMITTED: dict[str, Any] = {"offset": 42, "metadata": "note", "commit_timestamp_ms": 1000}
CLASSIC = ClassicGroupValue(
    protocol_type="consumer",
    generation=3,
    protocol="range",
    leader="m1",
    state_timestamp_ms=1000,
    members=(
        ClassicMemberValue(
            member_id="m1",
            instance_id="i1",
            client_id="c1",
            client_host="/h",
            rebalance_timeout_ms=300,
            session_timeout_ms=100,
            subscription=b"\1\2",
            assignment=b"\3",
        ),
        ClassicMemberValue(
            member_id="m2", client_id="c2", client_host="/h", rebalance_timeout_ms=300, session_timeout_ms=100, subscription=b"\1"
        ),
    ),
)
ENTRIES: dict[str, Entry] = {
    "offset-v1": OffsetEntry("group", "topic", 7, CommittedOffset(**COMMITTED, expire_timestamp_ms=2000)),
    "offset-v3": OffsetEntry("group", "topic", 7, CommittedOffset(**COMMITTED, leader_epoch=5)),
    "offset-v4": OffsetEntry("group", "topic", 7, CommittedOffset(**COMMITTED, leader_epoch=5, topic_id=TOPIC)),
    "offset-gone": OffsetEntry("group", "topic", 7, None),
    "classic-v3": ClassicGroupEntry("group", CLASSIC),
    "classic-empty-v3": ClassicGroupEntry(
        "group", ClassicGroupValue(protocol_type="consumer", generation=4, state_timestamp_ms=2000)
    ),
    "classic-gone": ClassicGroupEntry("group", None),
    "group-epoch": GroupEpochEntry("group", GroupEpochValue(9, -5)),
    "group-epoch-plain": GroupEpochEntry("group", GroupEpochValue(9)),
    "group-epoch-gone": GroupEpochEntry("group", None),
    "legacy-topics-gone": LegacyTopicsEntry("group", False),
    "member": MemberEntry(
        "group",
        "m1",
        MemberValue(
            instance_id="i1",
            rack_id="r",
            client_id="c1",
            client_host="/h",
            topic_names=frozenset({"a", "b"}),
            topic_regex="t.*",
            rebalance_timeout_ms=300,
            server_assignor="range",
        ),
    ),
    "member-classic": MemberEntry(
        "group",
        "m1",
        MemberValue(
            client_id="c1",
            client_host="/h",
            topic_names=frozenset({"a"}),
            topic_regex="",
            rebalance_timeout_ms=300,
            classic=ClassicProtocols(100, (("range", b"\7\10"),)),
        ),
    ),
    "member-gone": MemberEntry("group", "m1", None),
    "target-epoch": TargetEpochEntry("group", TargetEpochValue(9, 1000)),
    "target": TargetEntry("group", "m1", {TOPIC: frozenset({0, 1, 2})}),
    "assignment": AssignmentEntry(
        "group",
        "m1",
        AssignmentValue(
            epoch=9,
            previous_epoch=8,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned={TOPIC: {0: 7, 1: 9}},
            revoking={TOPIC: {2: 3}},
        ),
    ),
    "regex": RegexEntry("group", "t.*", RegexValue(frozenset({"t1", "t2"}), 11, 1000)),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_is_written_as_kafka_writes_it(name: str) -> None:
    assert CODEC.encode(ENTRIES[name]) == SAMPLES[name]


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_is_read_as_kafka_wrote_it(name: str) -> None:
    assert CODEC.decode(*SAMPLES[name]) == ENTRIES[name]


def test_offsets_of_the_oldest_kind_are_read() -> None:
    assert CODEC.decode(*SAMPLES["legacy-offset"]) == OffsetEntry("group", "topic", 7, CommittedOffset(**COMMITTED))


def test_partitions_without_epochs_count_from_their_members_own() -> None:
    entry = CODEC.decode(*SAMPLES["assignment-without-epochs"])

    assert isinstance(entry, AssignmentEntry)
    assert entry.value is not None
    assert entry.value.assigned == {TOPIC: {0: 9, 1: 9}}


def test_a_kind_of_record_that_we_do_not_know_is_passed_over() -> None:
    assert CODEC.decode(b"\x00\x63whatever", b"\x00\x00") is None


def test_a_value_of_a_version_that_we_do_not_know_is_an_error_not_a_guess() -> None:
    key, _ = SAMPLES["group-epoch"]

    with pytest.raises(WireError):
        CODEC.decode(key, b"\x00\x07\x00")


@pytest.mark.parametrize(
    ("group", "partition"),
    # As Java computes them for fifty partitions; the third hashes to the smallest number there is.
    [("", 0), ("group", 47), ("polygenelubricants", 0), ("grüße-鍵", 35), ("🌊", 34)],
)
def test_a_group_falls_on_the_partition_that_kafka_would_choose(group: str, partition: int) -> None:
    assert partition_for(group, 50) == partition


def test_the_hash_is_javas() -> None:
    assert java_hash("polygenelubricants") == -(2**31)
    assert java_hash("group") == 98629247


NAMES = st.text(max_size=8).filter(lambda name: "\x00" not in name)
OFFSETS = st.builds(
    CommittedOffset,
    offset=st.integers(-1, 2**63 - 1),
    leader_epoch=st.integers(-1, 2**31 - 1),
    metadata=st.text(max_size=150),
    commit_timestamp_ms=st.integers(-1, 2**60),
    expire_timestamp_ms=st.just(-1),
    topic_id=st.just(UUID(int=0)) | st.uuids(),
)


@given(NAMES, NAMES, st.integers(0, 2**31 - 1), st.none() | OFFSETS)
def test_offsets_by_hand_are_those_of_the_declared_layout(
    group: str, topic: str, partition: int, value: CommittedOffset | None
) -> None:
    entry = OffsetEntry(group, topic, partition, value)

    key, data = CODEC.encode(entry)

    assert key == wire.encode_key(wire.OFFSET_COMMIT, wire.OffsetCommitKey(group=group, topic=topic, partition=partition))
    assert data == (None if value is None else declared_offset_bytes(value))
    assert CODEC.decode(key, data) == entry
    read = wire.read_entry(key, data)
    assert read is not None
    kind, read_key, read_value = read
    assert declared_offset_entry(read_key, read_value) == entry
    assert kind == wire.OFFSET_COMMIT


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_offsets_that_are_cut_or_damaged_are_refused_not_guessed(cut: bytes, tail: bytes) -> None:
    for key, value in (
        (b"\x00\x01" + cut, tail),
        (SAMPLES["offset-v4"][0], b"\x00\x04" + cut),
        (SAMPLES["offset-v3"][0], b"\x00\x03" + cut),
    ):
        try:
            expected = wire.read_entry(key, value)
        except WireError:
            with pytest.raises(WireError):
                CODEC.decode(key, value)
        else:
            assert expected is not None
            assert CODEC.decode(key, value) == declared_offset_entry(*expected[1:])

"""Records of `__share_group_state` are those that Kafka writes."""

from pathlib import Path
from uuid import UUID

import pytest

from headrace.broker.coordinators.share_state.entries import ShareEntryCodec
from headrace.coordination.share.delivery import RecordState, StateBatch
from headrace.coordination.share.entries import Entry, ShareKey, ShareState, ShareUpdate, SnapshotEntry, UpdateEntry
from headrace.wire.errors import WireError

SAMPLES = {
    name: (bytes.fromhex(key), bytes.fromhex(value))
    for name, key, value in (
        line.split() for line in (Path(__file__).parent / "entries_by_kafka.txt").read_text().splitlines() if line[0] != "#"
    )
}
KEY = ShareKey("wörkers", UUID("00112233-4455-6677-8899-aabbccddeeff"), 3)
BATCHES = (
    StateBatch(5, 9, RecordState.ACKNOWLEDGED, 1),
    StateBatch(9, 10, RecordState.AVAILABLE, 2),
    StateBatch(12, 13, RecordState.ARCHIVED, 5),
)
ENTRIES: dict[str, Entry] = {
    "snapshot": SnapshotEntry(
        KEY,
        ShareState(
            snapshot_epoch=2,
            state_epoch=4,
            leader_epoch=6,
            start_offset=5,
            done=5,
            created_ms=1_700_000_000_000,
            written_ms=1_700_000_001_000,
            batches=BATCHES,
        ),
    ),
    "update": UpdateEntry(KEY, ShareUpdate(snapshot_epoch=2, leader_epoch=6, batches=BATCHES[:1])),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_an_entry_is_written_and_read_as_kafka_does(name: str) -> None:
    assert ShareEntryCodec().encode(ENTRIES[name]) == SAMPLES[name]
    assert ShareEntryCodec().decode(*SAMPLES[name]) == ENTRIES[name]


def test_a_snapshot_without_a_value_is_the_end_of_it() -> None:
    key, _ = SAMPLES["snapshot"]

    assert ShareEntryCodec().encode(SnapshotEntry(KEY, None)) == (key, None)
    assert ShareEntryCodec().decode(key, None) == SnapshotEntry(KEY, None)


def test_a_kind_of_record_that_only_newer_brokers_know_is_passed_over() -> None:
    assert ShareEntryCodec().decode(b"\0\x09", b"") is None


def test_a_version_that_only_newer_brokers_know_is_refused() -> None:
    key, value = SAMPLES["update"]

    with pytest.raises(WireError):
        ShareEntryCodec().decode(key, b"\0\x01" + value[2:])

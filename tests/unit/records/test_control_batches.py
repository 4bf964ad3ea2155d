"""Markers say how a transaction ended, in the form other clients read."""

import pytest
from aiokafka.record.control_record import ABORT_MARKER, COMMIT_MARKER, ControlRecord
from kafka.record.default_records import DefaultRecordBatch

from headrace.records.batch import BatchError, build_batch, check_crc, read_header, rebuild_batch
from headrace.records.control import Marker, build_end_marker, read_marker
from headrace.records.record import Record, read_records


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_is_read_again(committed: bool) -> None:
    batch = build_end_marker(17, 3, committed, 5, 1_700_000_000_000)

    check_crc(batch)
    assert read_marker(batch) == Marker(committed, 5)
    header = read_header(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (17, 3, -1)
    assert header.is_control
    assert header.is_transactional


@pytest.mark.parametrize("committed", [True, False])
def test_other_clients_know_our_markers(committed: bool) -> None:
    batch = build_end_marker(17, 3, committed, 5, 1_700_000_000_000)

    theirs = DefaultRecordBatch(bytearray(batch))
    assert theirs.is_control_batch
    key = read_records(batch)[0].key
    assert key is not None
    assert ControlRecord.parse(key) == (COMMIT_MARKER if committed else ABORT_MARKER)


def test_a_control_record_of_another_kind_is_no_marker() -> None:
    assert read_marker(build_batch([Record(0, 0, b"\x00\x00\x00\x02", b"")], control=True)) is None


def test_an_emptied_control_batch_is_no_marker() -> None:
    assert read_marker(rebuild_batch(read_header(build_end_marker(1, 1, True, 1, 1)), [])) is None


@pytest.mark.parametrize(
    ("key", "value"), [(None, b""), (b"\x00", b""), (b"\x00\x00\x00\x01", None), (b"\x00\x00\x00\x01", b"\x00")]
)
def test_a_broken_marker_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(BatchError):
        read_marker(build_batch([Record(0, 0, key, value)], control=True))

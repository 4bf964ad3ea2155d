"""Reading a range directly: a reply without records never stands for records that are not there."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from headrace.model.identity import TopicPartition
from headrace.records.batch import build_batch, stamp
from headrace.records.checksum import crc32c
from headrace.records.header import LOW_ATTRIBUTES_POSITION
from headrace.records.record import Record
from headrace.spark.source.fetching import direct
from headrace.spark.source.plan import OffsetRange
from headrace.spark.source.range_read import DirectFetchFailed, RangeRead
from headrace.wire.messages.fetch import PartitionData

END = 4
EMPTY = b""


def batch_at(offset: int) -> bytes:
    batch = bytearray(build_batch([Record(0, 1_700_000_000_000, None, b"%d" % offset, ())]))
    stamp(batch, offset, 0)
    return bytes(batch)


def rows_and_failure(monkeypatch: pytest.MonkeyPatch, *replies: bytes) -> tuple[list[int], DirectFetchFailed | None]:
    """The offsets that come of a leader's replies, all of which say that the log goes on to the range's end; how it failed."""
    answers = iter(replies)

    def receive(fetcher: object) -> PartitionData:
        return PartitionData(
            partition_index=0,
            error_code=0,
            high_watermark=END,
            last_stable_offset=END,
            records=next(answers),
            aborted_transactions=(),
        )

    monkeypatch.setattr(direct._Fetcher, "_open", lambda fetcher, position: None)
    monkeypatch.setattr(direct._Fetcher, "_send", lambda fetcher, position: None)
    monkeypatch.setattr(direct._Fetcher, "_receive", receive)
    read = RangeRead(
        range=OffsetRange(partition=TopicPartition("t", 0), start=0, end=END),
        schema=pa.schema([("offset", pa.int64())]),
        client={},
        leader="127.0.0.1:1",
        now_ms=0,
        fail_on_data_loss=True,
        timeout_ms=60_000,
        group_id_prefix="test",
        fetch_with="direct",
    )
    offsets: list[int] = []
    try:
        for rows in given(read):
            offsets += rows.column("offset").to_pylist()
    except DirectFetchFailed as failure:
        return offsets, failure
    return offsets, None


def given(read: RangeRead) -> Iterator[pa.RecordBatch]:
    return direct.read_directly(read)


def test_replies_without_records_end_no_range_but_have_librdkafka_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    offsets, failure = rows_and_failure(monkeypatch, batch_at(0), EMPTY, EMPTY, EMPTY)

    assert offsets == [0]
    assert failure is not None
    assert failure.position == 1


def test_a_broker_that_is_short_of_memory_now_and_then_costs_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    replies = [reply for offset in range(END) for reply in (EMPTY, EMPTY, batch_at(offset))]

    offsets, failure = rows_and_failure(monkeypatch, *replies)

    assert (offsets, failure) == ([0, 1, 2, 3], None)


def test_a_batch_that_cannot_be_unpacked_has_librdkafka_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = bytearray(batch_at(1))
    damaged[LOW_ATTRIBUTES_POSITION] |= 1  # gzip, which its records are not
    damaged[17:21] = crc32c(damaged[21:]).to_bytes(4, "big")

    offsets, failure = rows_and_failure(monkeypatch, batch_at(0), bytes(damaged))

    assert offsets == [0]
    assert failure is not None
    assert failure.position == 1
    assert "gzip data is broken" in failure.reason

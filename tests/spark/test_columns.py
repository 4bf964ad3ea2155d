"""Record batches decoded to Arrow columns give what the plain record reader gives."""

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.identity import TopicPartition
from headrace.records.batch import build_batch, read_header, rebuild_batch
from headrace.records.control import build_end_marker
from headrace.records.header import HEADER_BYTES, assemble, stamp
from headrace.records.record import Record
from headrace.spark.errors import HeadraceSparkError
from headrace.spark.source.fetching.batch_decoder import FetchedRecords
from headrace.spark.source.plan import OffsetRange
from headrace.spark.source.range_read import RangeRead
from headrace.spark.source.rows import arrow_schema, source_schema
from headrace.wire.messages.fetch import AbortedTransaction, PartitionData

PARTITION = TopicPartition("t", 3)
READ = RangeRead(
    range=OffsetRange(partition=PARTITION, start=0, end=10**9),
    schema=arrow_schema(source_schema(include_headers=True)),
    client={"isolation.level": "read_uncommitted"},
    leader=None,
    now_ms=1_000_000,
    fail_on_data_loss=True,
    timeout_ms=1000,
    group_id_prefix="x",
    fetch_with="auto",
)
COMMITTED = replace(READ, client={"isolation.level": "read_committed"})


def placed(batch: bytes, base_offset: int) -> bytes:
    """The batch as a log has it, at an offset."""
    stamped = bytearray(batch)
    stamp(stamped, base_offset, 0)
    return bytes(stamped)


def reply(*batches: bytes, aborted: tuple[tuple[int, int], ...] = ()) -> FetchedRecords:
    transactions = tuple(AbortedTransaction(producer_id=producer, first_offset=first) for producer, first in aborted)
    records = memoryview(bytearray(b"".join(batches)))
    return FetchedRecords(PartitionData(partition_index=3, error_code=0, aborted_transactions=transactions, records=records))


def rows(answer: FetchedRecords, read: RangeRead = READ) -> list[dict[str, object]]:
    return [row for batch in answer.rows(read) for row in batch.to_pylist()]


def values(answer: FetchedRecords, read: RangeRead = READ) -> list[object]:
    return [row["value"] for row in rows(answer, read)]


def simple(*contents: bytes, **settings: object) -> bytes:
    return build_batch([Record(0, 1000 + index, None, content, ()) for index, content in enumerate(contents)], **settings)  # type: ignore[arg-type]


headers = st.lists(st.tuples(st.text(max_size=9), st.one_of(st.none(), st.binary(max_size=9))), max_size=4).map(tuple)
records = st.lists(
    st.builds(
        Record,
        offset=st.just(0),
        timestamp=st.integers(0, 2**45),
        key=st.one_of(st.none(), st.binary(max_size=200)),
        value=st.one_of(st.none(), st.binary(max_size=300)),
        headers=headers,
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=60)
@given(st.lists(records, min_size=1, max_size=4), st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"]))
def test_every_field_of_every_record_arrives(batches: list[list[Record]], codec: str) -> None:
    base, packed, expected = 5, [], []
    for batch in batches:
        packed.append(placed(build_batch(batch, compression=codec), base))
        expected += [(base + index, *record[1:]) for index, record in enumerate(batch)]
        base += len(batch) + 2  # a gap, as compaction leaves

    found = rows(reply(*packed))

    assert [
        (
            row["offset"],
            round(row["timestamp"].timestamp() * 1000),  # type: ignore[attr-defined]
            row["key"],
            row["value"],
            tuple((one["key"], one["value"]) for one in row["headers"] or []),  # type: ignore[attr-defined]
        )
        for row in found
    ] == expected
    assert {(row["topic"], row["partition"], row["timestampType"]) for row in found} == {("t", 3, 0)}


def test_plain_and_packed_batches_in_one_reply_keep_their_order() -> None:
    packed = [
        placed(simple(b"%d" % at, compression=codec), at) for at, codec in enumerate(["none", "lz4", "lz4", "none", "zstd"])
    ]

    assert values(reply(*packed)) == [b"0", b"1", b"2", b"3", b"4"]


def test_only_offsets_of_the_range_are_shown() -> None:
    read = replace(READ, range=OffsetRange(partition=PARTITION, start=2, end=5))
    answer = reply(placed(simple(b"0", b"1", b"2", b"3"), 0), placed(simple(b"4", b"5"), 4))

    assert values(answer, read) == [b"2", b"3", b"4"]


def test_a_batch_that_is_cut_off_is_left_for_the_next_reply() -> None:
    whole, torn = placed(simple(b"a", b"b"), 0), placed(simple(b"c"), 2)
    answer = reply(whole, torn[:-1])

    assert values(answer) == [b"a", b"b"]
    assert answer.next_offset(0) == 2


def test_markers_are_passed_over_but_counted_in_the_position() -> None:
    answer = reply(placed(simple(b"a", producer_id=7, transactional=True), 0), placed(build_end_marker(7, 0, True, 0, 1), 1))

    assert values(answer, COMMITTED) == [b"a"]
    assert answer.next_offset(0) == 2


def test_aborted_transactions_are_hidden_from_readers_of_committed_records_only() -> None:
    def of(producer: int, content: bytes, at: int) -> bytes:
        return placed(simple(content, producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True), at)

    batches = [
        of(7, b"aborted", 0),
        of(8, b"committed", 1),
        placed(build_end_marker(7, 0, False, 0, 1), 2),
        of(7, b"after the abort", 3),
        placed(build_end_marker(8, 0, True, 0, 1), 4),
    ]
    answer = reply(*batches, aborted=((7, 0),))

    assert values(answer, COMMITTED) == [b"committed", b"after the abort"]
    assert values(answer) == [b"aborted", b"committed", b"after the abort"]


def test_a_batch_emptied_by_compaction_moves_the_position_without_a_row() -> None:
    full = placed(simple(b"a", b"b"), 0)
    answer = reply(rebuild_batch(read_header(full), []), placed(simple(b"c"), 2))

    assert values(answer) == [b"c"]
    assert answer.next_offset(0) == 3


def test_the_brokers_time_counts_where_the_broker_stamps() -> None:
    batch = build_batch([Record(0, 5, None, b"a", ()), Record(0, 9, None, b"b", ())], timestamp_type="LogAppendTime")

    found = rows(reply(batch))

    assert [row["timestampType"] for row in found] == [1, 1]
    assert len({row["timestamp"] for row in found}) == 1


def test_a_record_whose_time_to_live_has_ended_is_not_shown() -> None:
    ttl = "headrace-ttl-ms"
    batch = build_batch(
        [
            Record(0, 999_000, None, b"expired", ((ttl, b"500"),)),
            Record(0, 999_900, None, b"alive", (("other", b"x"), (ttl, b"500"))),
            Record(0, 1, None, b"no number", ((ttl, b"soon"),)),
            Record(0, 1, None, b"none", ()),
        ]
    )
    without_headers = replace(READ, schema=arrow_schema(source_schema(include_headers=False)))

    assert values(reply(batch)) == [b"alive", b"no number", b"none"]
    assert values(reply(batch), without_headers) == [b"alive", b"no number", b"none"]


def test_a_corrupt_batch_is_refused_with_its_offset() -> None:
    broken = bytearray(placed(simple(b"abcdef"), 12))
    broken[-3] ^= 1

    with pytest.raises(HeadraceSparkError, match="the batch at offset 12 of t-3 is corrupt"):
        rows(reply(bytes(broken)))


def test_a_record_count_that_does_not_fit_the_bytes_is_refused() -> None:
    read = replace(READ, schema=pa.schema([pa.field("offset", pa.int64())]))
    whole = simple(b"a", b"b")
    header = read_header(whole)
    fewer = assemble(header._replace(record_count=1), whole[HEADER_BYTES:])

    with pytest.raises(ValueError, match="1 records end at byte"):
        rows(reply(fewer), read)

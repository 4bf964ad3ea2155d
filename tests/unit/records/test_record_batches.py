"""Batches round-trip through every codec, and other people's builders and readers agree with ours."""

import struct

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as PythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as PythonBuilder

from headrace.model.errors import ErrorCode, RequestError
from headrace.records.batch import (
    HEADER_BYTES,
    BatchError,
    build_batch,
    check_crc,
    crc_matches,
    iterate_batches,
    read_header,
    rebuild_batch,
    stamp,
    with_log_append_time,
)
from headrace.records.compression import CODEC_IDS, CODEC_NAMES
from headrace.records.header import iterate_fetched_batches
from headrace.records.record import Record, read_pairs, read_records, read_varint, varint

TIME = 1_700_000_000_000
# The codecs kafka-python has without further libraries; aiokafka has them all.
STANDARD_CODECS = ("none", "gzip")

nullable = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=10), nullable), max_size=3).map(tuple)
timestamps = st.integers(min_value=0, max_value=2**41)
record_lists = st.lists(
    st.builds(Record, offset=st.just(0), timestamp=timestamps, key=nullable, value=nullable, headers=headers),
    min_size=1,
    max_size=20,
)


@given(records=record_lists, codec=st.sampled_from(CODEC_NAMES), base_offset=st.integers(min_value=0, max_value=2**40))
def test_what_is_built_is_read_again(records: list[Record], codec: str, base_offset: int) -> None:
    batch = build_batch(records, base_offset=base_offset, compression=codec, leader_epoch=4)

    check_crc(batch)
    assert read_records(batch) == [record._replace(offset=base_offset + index) for index, record in enumerate(records)]
    header = read_header(batch)
    assert header.size == len(batch)
    assert header.record_count == len(records)
    assert header.last_offset == base_offset + len(records) - 1
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert header.compression == codec


@settings(max_examples=60)
@given(records=record_lists, codec=st.sampled_from(CODEC_NAMES), base_offset=st.integers(min_value=0, max_value=2**40))
def test_pairs_are_the_offsets_keys_and_values_of_the_records(records: list[Record], codec: str, base_offset: int) -> None:
    batch = build_batch(records, base_offset=base_offset, compression=codec)

    assert read_pairs(batch) == [(record.offset, record.key, record.value) for record in read_records(batch)]


@given(records=record_lists, data=st.data())
@pytest.mark.parametrize(
    ("referee", "codecs"), [(PythonBatch, STANDARD_CODECS), (AioBatch, CODEC_NAMES)], ids=["kafka-python", "aiokafka"]
)
def test_other_readers_read_what_we_build(
    referee: type, codecs: tuple[str, ...], records: list[Record], data: st.DataObject
) -> None:
    codec = data.draw(st.sampled_from(codecs))
    batch = build_batch(records, compression=codec, producer_id=7, producer_epoch=1, base_sequence=3)

    theirs = referee(bytearray(batch))
    assert theirs.validate_crc()
    assert [
        (record.offset, record.timestamp, record.key, record.value, tuple((name, value) for name, value in record.headers))
        for record in theirs
    ] == [(index, record.timestamp, record.key, record.value, record.headers) for index, record in enumerate(records)]


@settings(max_examples=60)
@given(records=record_lists, codec=st.sampled_from(STANDARD_CODECS))
def test_we_read_what_kafka_python_builds(records: list[Record], codec: str) -> None:
    builder = PythonBuilder(
        magic=2,
        compression_type=CODEC_IDS[codec],
        is_transactional=True,
        producer_id=5,
        producer_epoch=2,
        base_sequence=9,
        batch_size=2**20,
    )
    for index, record in enumerate(records):
        assert builder.append(index, record.timestamp, record.key, record.value, list(record.headers))
    batch = bytes(builder.build())

    check_crc(batch)
    assert read_records(batch) == [record._replace(offset=index) for index, record in enumerate(records)]
    header = read_header(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 2, 9)
    assert header.is_transactional
    assert not header.is_control


@settings(max_examples=60)
@given(records=record_lists, codec=st.sampled_from(CODEC_NAMES))
def test_we_read_what_aiokafka_builds(records: list[Record], codec: str) -> None:
    builder = AioBuilder(
        magic=2,
        compression_type=CODEC_IDS[codec],
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=2**20,
    )
    for index, record in enumerate(records):
        assert builder.append(index, record.timestamp, record.key, record.value, list(record.headers))
    batch = bytes(builder.build())

    check_crc(batch)
    assert read_records(batch) == [record._replace(offset=index) for index, record in enumerate(records)]


@given(st.integers(min_value=-(2**63), max_value=2**63 - 1))
def test_a_number_of_up_to_64_bits_survives_its_varint(number: int) -> None:
    encoded = varint(number)

    assert read_varint(encoded, 0) == (number, len(encoded))


def test_stamping_keeps_the_crc() -> None:
    batch = bytearray(build_batch([Record(0, TIME, b"k", b"v")]))
    stamp(batch, 12_345, 8)

    check_crc(batch)
    header = read_header(batch)
    assert (header.base_offset, header.leader_epoch) == (12_345, 8)
    assert read_records(batch)[0].offset == 12_345


def test_the_brokers_time_changes_the_header_only() -> None:
    batch = build_batch([Record(0, TIME, b"k", b"a"), Record(0, TIME + 5, b"k", b"b")], compression="lz4")
    changed = with_log_append_time(batch, TIME + 99)

    check_crc(changed)
    assert changed[HEADER_BYTES:] == batch[HEADER_BYTES:]
    assert [record.timestamp for record in read_records(changed)] == [TIME + 99, TIME + 99]
    assert read_header(changed).timestamp_type == "LogAppendTime"


def test_a_batch_can_lose_records_and_keep_its_place() -> None:
    batch = build_batch(
        [Record(0, TIME + i, b"%d" % i, b"v") for i in range(5)],
        base_offset=100,
        producer_id=1,
        producer_epoch=0,
        base_sequence=40,
    )
    kept = [record for record in read_records(batch) if record.offset in (101, 103)]
    smaller = rebuild_batch(read_header(batch), kept)

    check_crc(smaller)
    assert read_records(smaller) == kept
    header = read_header(smaller)
    assert (header.base_offset, header.last_offset, header.last_sequence, header.record_count) == (100, 104, 44, 2)


def test_a_batch_without_records_still_tells_offset_and_sequence() -> None:
    header = read_header(
        build_batch([Record(0, TIME, b"k", b"v")] * 3, base_offset=7, producer_id=1, producer_epoch=0, base_sequence=5)
    )
    empty = rebuild_batch(header, [])

    check_crc(empty)
    assert len(empty) == HEADER_BYTES
    assert read_records(empty) == []
    assert (read_header(empty).last_offset, read_header(empty).last_sequence) == (9, 7)


def test_a_delete_horizon_leaves_the_records_timestamps_alone() -> None:
    batch = build_batch([Record(0, TIME, b"k", None), Record(0, TIME + 7, b"l", b"v")])
    marked = rebuild_batch(read_header(batch), read_records(batch), delete_horizon_ms=TIME + 86_400_000)

    check_crc(marked)
    assert read_header(marked).delete_horizon_ms == TIME + 86_400_000
    assert [record.timestamp for record in read_records(marked)] == [TIME, TIME + 7]


def test_sequences_wrap_to_zero() -> None:
    batch = build_batch([Record(0, TIME, None, b"v")] * 3, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)

    assert read_header(batch).last_sequence == 0


def test_batches_in_a_row_are_told_apart() -> None:
    batches = [build_batch([Record(0, TIME, None, b"v" * size)], base_offset=size) for size in (1, 50, 300)]

    found = list(iterate_batches(b"".join(batches)))

    assert [bytes(data) for _, data in found] == batches
    assert [header.base_offset for header, _ in found] == [1, 50, 300]


def test_a_cut_batch_is_refused_wherever_it_is_cut() -> None:
    batch = build_batch([Record(0, TIME, b"key", b"value", (("h", b"x"),))])
    for size in range(1, len(batch)):
        with pytest.raises(BatchError):
            list(iterate_batches(batch[:size]))


def test_a_batch_that_a_fetch_cut_off_is_left_out_wherever_it_is_cut() -> None:
    whole, cut = (build_batch([Record(0, TIME, b"key", b"value" * size)], base_offset=size) for size in (1, 2))
    for size in range(len(cut)):
        assert [(header.base_offset, at) for header, at in iterate_fetched_batches(whole + cut[:size])] == [(1, 0)]

    assert [at for _, at in iterate_fetched_batches(whole + cut)] == [0, len(whole)]


@pytest.mark.parametrize("length", [-1, 0, HEADER_BYTES - 12 - 1])
def test_a_fetched_batch_that_is_too_small_to_be_one_is_refused(length: int) -> None:
    batch = bytearray(build_batch([Record(0, TIME, b"key", b"value")]))
    struct.pack_into(">i", batch, 8, length)

    with pytest.raises(BatchError, match="too small"):
        list(iterate_fetched_batches(batch))


def test_every_flipped_bit_after_the_crc_is_noticed() -> None:
    batch = bytearray(build_batch([Record(0, TIME, b"key", b"value")]))
    for position in range(17, len(batch)):
        for bit in range(8):
            batch[position] ^= 1 << bit
            assert not crc_matches(batch), (position, bit)
            batch[position] ^= 1 << bit


@pytest.mark.parametrize("count", [-1, 2, 2**31 - 1])
def test_a_wrong_record_count_is_refused_without_allocating_for_it(count: int) -> None:
    batch = bytearray(build_batch([Record(0, TIME, b"key", b"value")]))
    struct.pack_into(">i", batch, 57, count)

    with pytest.raises(RequestError) as refused:
        read_records(batch)
    assert refused.value.code is ErrorCode.INVALID_RECORD


@given(st.binary(max_size=200), st.integers(min_value=0, max_value=20))
def test_random_records_are_read_or_refused(noise: bytes, count: int) -> None:
    batch = bytearray(build_batch([Record(0, TIME)]))[:HEADER_BYTES] + noise
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">i", batch, 57, count)
    try:
        found = len(read_records(batch))
    except RequestError:
        # Any other exception would be a way to crash a reader.
        found = count
    assert found == count

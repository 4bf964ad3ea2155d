"""The record batch, format v2: made by the producer, stored and passed on unchanged, opened only by those who must.

This is the door to the format: the header's parts are defined in `header.py`, single records in `record.py`.
"""

from collections.abc import Iterable, Sequence

from headrace.records.compression import CODEC_IDS, NONE, compress
from headrace.records.header import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    CREATE_TIME,
    DELETE_HORIZON_BIT,
    FRAME_BYTES,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchError,
    BatchHeader,
    Buffer,
    assemble,
    check_crc,
    crc_matches,
    iterate_batches,
    read_header,
    stamp,
    stamped_prefix,
    with_log_append_time,
)
from headrace.records.record import Record, write_record

__all__ = [
    "CREATE_TIME",
    "FRAME_BYTES",
    "HEADER_BYTES",
    "LOG_APPEND_TIME",
    "MAGIC",
    "BatchError",
    "BatchHeader",
    "Buffer",
    "assemble",
    "build_batch",
    "check_crc",
    "crc_matches",
    "iterate_batches",
    "read_header",
    "rebuild_batch",
    "rebuilt_header",
    "stamp",
    "stamped_prefix",
    "with_log_append_time",
    "write_body",
]


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    compression: str = NONE,
    transactional: bool = False,
    control: bool = False,
    timestamp_type: str = CREATE_TIME,
) -> bytes:
    """A batch as a producer makes it: offsets run on from the base, whatever the records' own say."""
    items = [record._replace(offset=base_offset + index) for index, record in enumerate(records)]
    if not items:
        raise ValueError("a new batch holds at least one record")
    attributes = CODEC_IDS[compression]
    attributes |= TIMESTAMP_TYPE_BIT if timestamp_type == LOG_APPEND_TIME else 0
    attributes |= TRANSACTIONAL_BIT if transactional else 0
    attributes |= CONTROL_BIT if control else 0
    template = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        leader_epoch=leader_epoch,
        magic=2,
        crc=0,
        attributes=attributes,
        last_offset_delta=len(items) - 1,
        base_timestamp=items[0].timestamp,
        max_timestamp=max(record.timestamp for record in items),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(items),
    )
    return _pack(template, items)


def rebuild_batch(header: BatchHeader, records: Sequence[Record], *, delete_horizon_ms: int | None = None) -> bytes:
    """A batch with the same identity and offsets but perhaps fewer records; none at all is allowed.

    Base offset, last offset and sequences stay, so that the log keeps its offsets and a producer its last sequence.
    The delete horizon, when given, is kept in the place of the base timestamp (KIP-534).
    """
    return _pack(rebuilt_header(header, records, delete_horizon_ms), records)


def rebuilt_header(header: BatchHeader, records: Sequence[Record], delete_horizon_ms: int | None = None) -> BatchHeader:
    """The header of the batch that is left with these records; its length and CRC come with its bytes."""
    attributes = header.attributes & ~DELETE_HORIZON_BIT
    base_timestamp = records[0].timestamp if records else header.base_timestamp
    if header.attributes & TIMESTAMP_TYPE_BIT or not records:
        max_timestamp = header.max_timestamp
    else:
        max_timestamp = max(record.timestamp for record in records)
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON_BIT
        base_timestamp = delete_horizon_ms
    return header._replace(
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        record_count=len(records),
    )


def write_body(template: BatchHeader, records: Sequence[Record]) -> bytes:
    """Records as they lie in the unpacked body of a batch."""
    base_offset, base_timestamp = template.base_offset, template.base_timestamp
    return b"".join([write_record(record, record.offset - base_offset, record.timestamp - base_timestamp) for record in records])


def _pack(template: BatchHeader, records: Sequence[Record]) -> bytes:
    body = write_body(template, records)
    codec = template.compression
    # An empty batch has nothing to pack, and a codec's empty frame would only be bytes.
    if records and template.attributes & COMPRESSION_MASK:
        body = compress(codec, body)
    return assemble(template, body)

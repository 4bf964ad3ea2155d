"""The header of a record batch, format v2: 61 bytes in front of the records.

A batch travels unchanged from producer to log to consumer.  The broker may set base offset and leader epoch, which lie outside
the CRC; everything from the attributes on is covered by it.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from headrace.model.errors import ErrorCode, RequestError
from headrace.records.checksum import crc32c
from headrace.records.compression import codec_name

Buffer = bytes | bytearray | memoryview

HEADER_BYTES: Final = 61
MAGIC: Final = 2
# Base offset and batch length: what is needed to find the next batch.
FRAME_BYTES: Final = 12
ATTRIBUTES_POSITION: Final = 21
# Of the two bytes of attributes the low one, which has all the bits that are in use.
LOW_ATTRIBUTES_POSITION: Final = 22
MAGIC_POSITION: Final = 16
SEQUENCE_MAX: Final = 2**31 - 1

CREATE_TIME: Final = "CreateTime"
LOG_APPEND_TIME: Final = "LogAppendTime"

COMPRESSION_MASK: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
FRAME: Final = struct.Struct(">qi")
# What the broker stamps: base offset, batch length (unchanged), leader epoch.
STAMP: Final = struct.Struct(">qii")
STAMP_BYTES: Final = STAMP.size
_CRC = struct.Struct(">I")
_CRC_POSITION = 17
_EPOCH = struct.Struct(">i")
_EPOCH_POSITION = 12
_OFFSET = struct.Struct(">q")
_COVERED = struct.Struct(">hiqqqhii")
_LAST_OFFSET_DELTA = struct.Struct(">i")
_LAST_OFFSET_DELTA_POSITION = 23
_PRODUCER = struct.Struct(">qhi")
_PRODUCER_POSITION = 43

_unpack_header = HEADER.unpack_from
_unpack_frame = FRAME.unpack_from
_unpack_crc = _CRC.unpack_from
_unpack_last_offset_delta = _LAST_OFFSET_DELTA.unpack_from
_unpack_producer = _PRODUCER.unpack_from


class BatchError(RequestError):
    """The bytes are not a sound batch."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.CORRUPT_MESSAGE) -> None:
        super().__init__(code, message)


class BatchHeader(NamedTuple):
    """The 61 bytes in front of the records."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def size(self) -> int:
        return FRAME_BYTES + self.batch_length

    @property
    def compression(self) -> str:
        return codec_name(self.attributes & COMPRESSION_MASK)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def timestamp_type(self) -> str:
        return LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_BIT else CREATE_TIME

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones and markers in this batch may go.  The cleaner keeps it where the base timestamp was."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; after 2^31 - 1 comes 0."""
        if self.base_sequence < 0:
            return self.base_sequence
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MAX


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at a position, checked only for being there whole."""
    try:
        # Past the functions of a named tuple, which take the fields one by one: a header is made of every batch that passes.
        return tuple.__new__(BatchHeader, _unpack_header(buffer, position))
    except struct.error:
        raise BatchError(f"a batch header needs {HEADER_BYTES} bytes, {len(buffer) - position} are there") from None


# Single fields, for those who need no more of a header that is known to be there whole.


def base_offset_of(buffer: Buffer, position: int = 0) -> int:
    base_offset: int = _unpack_frame(buffer, position)[0]
    return base_offset


def batch_bytes(buffer: Buffer, position: int = 0) -> int:
    """How many bytes the batch at a position says that it has."""
    length: int = _unpack_frame(buffer, position)[1]
    return FRAME_BYTES + length


def next_offset_of(buffer: Buffer, position: int = 0) -> int:
    """The offset after the last of the batch at a position."""
    delta: int = _unpack_last_offset_delta(buffer, position + _LAST_OFFSET_DELTA_POSITION)[0]
    return base_offset_of(buffer, position) + delta + 1


def producer_of(buffer: Buffer, position: int = 0) -> tuple[int, int, int]:
    """Producer id, epoch and first sequence of the batch at a position."""
    producer_id, epoch, sequence = _unpack_producer(buffer, position + _PRODUCER_POSITION)
    return producer_id, epoch, sequence


def check_crc(buffer: Buffer) -> None:
    """Raise BatchError unless the CRC of this one batch is right.  The buffer is exactly the batch."""
    if not crc_matches(buffer):
        raise BatchError("the batch's CRC does not match its bytes")


def crc_matches(buffer: Buffer) -> bool:
    """Whether the stored CRC is that of the bytes from the attributes to the end."""
    (stored,) = _unpack_crc(buffer, _CRC_POSITION)
    return bool(crc32c(memoryview(buffer)[ATTRIBUTES_POSITION:]) == stored)


def iterate_batches(buffer: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Each whole batch with its bytes.  Raises BatchError on a length that cannot be, and on bytes left over."""
    view = memoryview(buffer)
    position, end = 0, len(view)
    while position < end:
        header = read_header(view, position)
        batch_end = position + FRAME_BYTES + header.batch_length
        if batch_end < position + HEADER_BYTES or batch_end > end:
            raise BatchError(f"a batch claims {header.batch_length} bytes where {end - position - FRAME_BYTES} are left")
        yield header, view[position:batch_end]
        position = batch_end


def iterate_fetched_batches(buffer: Buffer) -> Iterator[tuple[BatchHeader, int]]:
    """Each whole batch of a Fetch reply with its position.  The last one may be cut off: it is for the next reply.

    Raises BatchError on a length that cannot be.
    """
    position, end = 0, len(buffer)
    while position + HEADER_BYTES <= end:
        header = read_header(buffer, position)
        batch_end = position + FRAME_BYTES + header.batch_length
        if batch_end < position + HEADER_BYTES:
            raise BatchError(f"a batch of {header.size} bytes is too small to be one")
        if batch_end > end:
            return
        yield header, position
        position = batch_end


def stamp(batch: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Set what the broker assigns, in place.  The CRC does not cover it."""
    _OFFSET.pack_into(batch, 0, base_offset)
    _EPOCH.pack_into(batch, _EPOCH_POSITION, leader_epoch)


def stamped_prefix(header: BatchHeader, base_offset: int, leader_epoch: int) -> bytes:
    """The first 16 bytes as stored: for writing in front of the untouched rest without copying it."""
    return STAMP.pack(base_offset, header.batch_length, leader_epoch)


def with_log_append_time(batch: Buffer, timestamp: int) -> bytearray:
    """A copy whose records all carry the broker's time: only the header changes, and with it the CRC."""
    changed = bytearray(batch)
    header = read_header(changed)
    _write_covered(changed, header._replace(attributes=header.attributes | TIMESTAMP_TYPE_BIT, max_timestamp=timestamp))
    write_crc(changed)
    return changed


def _write_covered(batch: bytearray, header: BatchHeader) -> None:
    _COVERED.pack_into(batch, ATTRIBUTES_POSITION, *header[5:])


def write_crc(batch: bytearray) -> None:
    """Compute and store the CRC of a whole batch in place."""
    _CRC.pack_into(batch, _CRC_POSITION, crc32c(memoryview(batch)[ATTRIBUTES_POSITION:]))


def assemble(header: BatchHeader, body: Buffer) -> bytes:
    """A batch from its header and its (already packed) records; length, magic and CRC are filled in."""
    batch = bytearray(HEADER_BYTES + len(body))
    complete = header._replace(batch_length=HEADER_BYTES - FRAME_BYTES + len(body), magic=MAGIC, crc=0)
    HEADER.pack_into(batch, 0, *complete)
    batch[HEADER_BYTES:] = body
    write_crc(batch)
    return bytes(batch)

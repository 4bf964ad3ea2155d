"""From the records of a Fetch reply to Arrow batches: whole batches in, exactly the rows of the range out.

Left out are offsets outside the range, transaction markers, aborted transactions (when reading committed) and records whose
time to live has ended.  A batch whose CRC is wrong is never shown.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from headrace.records.compression import decompress
from headrace.records.control import read_marker
from headrace.records.header import HEADER_BYTES, MAGIC, BatchHeader, crc_matches, iterate_fetched_batches
from headrace.spark.errors import HeadraceSparkError
from headrace.spark.source.fetching.columns import Section, decode, select, to_arrow, unexpired
from headrace.spark.source.range_read import RangeRead
from headrace.wire.messages.fetch import AbortedTransaction, PartitionData

CHUNK_BYTES = 16 * 1024 * 1024  # decompressed batches are shown together up to this size


class FetchedRecords:
    """The whole batches of one reply."""

    def __init__(self, data: PartitionData) -> None:
        assert not isinstance(data.records, list), "only replies that are written are in pieces"
        self.buffer = memoryview(data.records or b"")
        self.aborted: Sequence[AbortedTransaction] = data.aborted_transactions or ()
        self.batches = list(iterate_fetched_batches(self.buffer))

    def next_offset(self, position: int) -> int:
        """The offset after the last batch, `position` when there is none."""
        return max(position, self.batches[-1][0].next_offset) if self.batches else position

    def rows(self, read: RangeRead) -> Iterator[pa.RecordBatch]:
        """The rows to show.  Neighbouring plain batches become one Arrow batch over the reply's own buffer."""
        plain: list[Section] = []
        packed: list[tuple[BatchHeader, bytes]] = []
        packed_bytes = 0
        for header, at in self._visible(read):
            if header.compression == "none":
                if packed:
                    yield from _unpacked_rows(packed, read)
                    packed, packed_bytes = [], 0
                plain.append(_section(header, at + HEADER_BYTES, at + header.size))
                continue
            if plain:
                yield from _rows(self.buffer, plain, read)
                plain = []
            body = decompress(header.compression, self.buffer[at + HEADER_BYTES : at + header.size])
            packed.append((header, body))
            packed_bytes += len(body)
            if packed_bytes >= CHUNK_BYTES:
                yield from _unpacked_rows(packed, read)
                packed, packed_bytes = [], 0
        if packed:
            yield from _unpacked_rows(packed, read)
        if plain:
            yield from _rows(self.buffer, plain, read)

    def _visible(self, read: RangeRead) -> Iterator[tuple[BatchHeader, int]]:
        """Batches with records to show, by position.  The reply names the aborted transactions that reach into it (KIP-98)."""
        pending = sorted(self.aborted, key=lambda one: one.first_offset, reverse=True) if read.read_committed else []
        aborted: set[int] = set()
        for header, at in self.batches:
            batch = self.buffer[at : at + header.size]
            if header.magic != MAGIC:
                raise ValueError(f"a batch of format {header.magic} is older than this reader")
            if not crc_matches(batch):
                raise HeadraceSparkError(
                    f"the batch at offset {header.base_offset} of {read.range.partition} is corrupt: its CRC does not match"
                )
            while pending and pending[-1].first_offset <= header.last_offset:
                aborted.add(pending.pop().producer_id)
            if header.is_control:
                if header.producer_id in aborted and (marker := read_marker(batch)) and not marker.committed:
                    aborted.discard(header.producer_id)
                continue
            hidden = header.is_transactional and header.producer_id in aborted
            within = header.base_offset < read.range.end and header.last_offset >= read.range.start
            if within and not hidden and header.record_count > 0:
                yield header, at


def _section(header: BatchHeader, position: int, end: int) -> Section:
    append_time = header.max_timestamp if header.timestamp_type == "LogAppendTime" else None
    return Section(position, end, header.record_count, header.base_offset, header.base_timestamp, append_time)


def _unpacked_rows(packed: list[tuple[BatchHeader, bytes]], read: RangeRead) -> Iterator[pa.RecordBatch]:
    sections, position = [], 0
    for header, body in packed:
        sections.append(_section(header, position, position + len(body)))
        position += len(body)
    joined = packed[0][1] if len(packed) == 1 else b"".join(body for _, body in packed)
    yield from _rows(memoryview(joined), sections, read)


def _rows(buffer: memoryview, sections: list[Section], read: RangeRead) -> Iterator[pa.RecordBatch]:
    columns = decode(buffer, sections, with_headers=read.with_headers)
    chosen = (columns.offsets >= read.range.start) & (columns.offsets < read.range.end)
    if columns.may_expire:
        chosen &= unexpired(columns, read.now_ms)
    columns = select(columns, chosen)
    if len(columns.offsets):
        yield to_arrow(columns, topic=read.range.partition.topic, partition=read.range.partition.partition, schema=read.schema)

"""One closed segment on its way to the store: its batches as one object, all else as another.

Every batch is compared with its checksum on the way: what is broken here is mended from a replica, never kept in the store.
Names are new for each attempt.  Only once both objects are there, in full length, does the manifest hear of them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from crc32c import crc32c

from headrace.broker.tiering.throttle import UploadThrottle
from headrace.declaring import dataclass
from headrace.host.disk import Disk, File
from headrace.log.log import Log
from headrace.log.results import CorruptBatch
from headrace.log.segments.segment import (
    ABORTED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    Segment,
    segment_path,
)
from headrace.objects.store import ObjectStore, StoreAway
from headrace.records.header import HEADER_BYTES, crc_matches, read_header
from headrace.tier.companions import ABORTED, EPOCHS, OFFSETS, PRODUCERS, TIMES, encode_companions
from headrace.tier.manifest import RemoteSegment
from headrace.tier.naming import DATA_SUFFIX, REST_SUFFIX, object_name
from headrace.tier.plan import epochs_within

CHUNK_BYTES = 1024 * 1024
# An upload has the time of one answer for each so many bytes.
BYTES_PER_TIMEOUT = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploading:
    """What it takes to upload."""

    store: ObjectStore
    disk: Disk
    loop: asyncio.AbstractEventLoop
    throttle: UploadThrottle
    new_name: Callable[[], str]
    timeout_s: float


async def upload(
    uploading: Uploading, folder: str, log: Log, segment: Segment, start: int, end: int, epoch: int
) -> RemoteSegment:
    """Both objects, and what the manifest will say of them.  Raises StoreError, CorruptBatch, OSError."""
    unique = uploading.new_name()
    data = folder + object_name(segment.base_offset, epoch, unique, DATA_SUFFIX)
    rest = folder + object_name(segment.base_offset, epoch, unique, REST_SUFFIX)
    epochs = epochs_within(log.epochs, start, end)
    timestamp, timestamp_offset = log.segments.largest_timestamp(segment), segment.max_timestamp_offset
    aborted = len(log.segments.aborted_of(segment, 0))
    checkpoint = log.epochs.encode()
    reading = _SegmentChunks(uploading, segment)
    await uploading.store.upload(data, reading.chunks(), segment.size, _seconds(uploading, segment.size))
    sections = await uploading.loop.run_in_executor(None, _sections, uploading.disk, log.directory, segment.base_offset, end)
    body = encode_companions(sections | {EPOCHS: checkpoint})
    await uploading.store.upload(rest, _once(body), len(body), _seconds(uploading, len(body)))
    for key, size in ((data, segment.size), (rest, len(body))):
        if (found := await uploading.store.size(key)) != size:
            raise StoreAway(f"{key} has {found} bytes in the store, and not {size}")
    return RemoteSegment(
        base_offset=segment.base_offset,
        start_offset=start,
        end_offset=end,
        file_end=end,
        size=segment.size,
        data=data,
        data_checksum=reading.checksum,
        rest=rest,
        rest_size=len(body),
        rest_checksum=crc32c(body),
        max_timestamp=timestamp,
        max_timestamp_offset=timestamp_offset,
        aborted=aborted,
        epochs=epochs,
    )


def _seconds(uploading: Uploading, size: int) -> float:
    answers = 1 + size // BYTES_PER_TIMEOUT
    return answers * uploading.timeout_s + 2 * size / uploading.throttle.bytes_per_second


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


def _sections(disk: Disk, directory: Path, base_offset: int, end_offset: int) -> dict[str, bytes]:
    """In a thread: the files beside the log's.  One that is not there is left out."""
    paths = {
        OFFSETS: segment_path(directory, base_offset, INDEX_SUFFIX),
        TIMES: segment_path(directory, base_offset, TIME_INDEX_SUFFIX),
        ABORTED: segment_path(directory, base_offset, ABORTED_SUFFIX),
        PRODUCERS: segment_path(directory, end_offset, SNAPSHOT_SUFFIX),
    }
    return {name: disk.read_bytes(path) for name, path in paths.items() if disk.exists(path)}


class _SegmentChunks:
    """The bytes of a segment, batch by batch as to their checksums, in chunks of whole batches."""

    def __init__(self, uploading: Uploading, segment: Segment) -> None:
        self._uploading = uploading
        self._path = segment_path(segment.directory, segment.base_offset, LOG_SUFFIX)
        self._size = segment.size
        self.checksum = 0

    async def chunks(self) -> AsyncIterator[bytes]:
        loop, disk = self._uploading.loop, self._uploading.disk
        file = await loop.run_in_executor(None, disk.open, self._path)
        try:
            position = 0
            while position < self._size:
                chunk = await loop.run_in_executor(None, self._read, file, position)
                await self._uploading.throttle.take(len(chunk))
                yield chunk
                position += len(chunk)
        finally:
            file.close()

    def _read(self, file: File, position: int) -> bytes:
        """In a thread."""
        chunk = file.read_at(position, min(CHUNK_BYTES, self._size - position))
        end = self._whole(chunk, position)
        if end == 0:
            size = read_header(chunk).size if len(chunk) >= HEADER_BYTES else 0
            chunk = file.read_at(position, min(size, self._size - position))
            end = self._whole(chunk, position)
            if end == 0:
                raise CorruptBatch(self._path, position, -1, "a batch is not whole")
        self.checksum = crc32c(chunk[:end], self.checksum)
        return chunk[:end]

    def _whole(self, chunk: bytes, position: int) -> int:
        """How many of these bytes are whole batches."""
        view, end = memoryview(chunk), 0
        while end + HEADER_BYTES <= len(view):
            header = read_header(view, end)
            if header.magic != 2 or header.size < HEADER_BYTES:
                raise CorruptBatch(self._path, position + end, -1, "there is no batch")
            if end + header.size > len(view):
                break
            if not crc_matches(view[end : end + header.size]):
                raise CorruptBatch(self._path, position + end, header.base_offset, "its CRC does not match its bytes")
            end += header.size
        return end

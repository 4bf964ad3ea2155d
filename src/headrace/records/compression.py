"""The codecs a batch may be packed with, each bounded in what it may unpack to.

Always: `decompress` either returns at most `limit` bytes or raises; a small batch that claims to be huge costs no memory.
The framings are those of the Java client: snappy in the xerial stream (a raw block is accepted too), lz4 and zstd frames, gzip.
"""

import struct
import zlib
from collections.abc import Callable
from typing import Final

import cramjam

from headrace.model.errors import ErrorCode, RequestError

NONE: Final = "none"
GZIP: Final = "gzip"
SNAPPY: Final = "snappy"
LZ4: Final = "lz4"
ZSTD: Final = "zstd"

CODEC_NAMES: Final[tuple[str, ...]] = (NONE, GZIP, SNAPPY, LZ4, ZSTD)
CODEC_IDS: Final[dict[str, int]] = {name: number for number, name in enumerate(CODEC_NAMES)}

DECOMPRESSED_BYTES_MAX: Final = 128 * 1024 * 1024

Buffer = bytes | bytearray | memoryview

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_INT32 = struct.Struct(">i")
_UINT32_LITTLE = struct.Struct("<I")
# Magic, then the descriptor (version 1, independent blocks of at most 64 KiB, no checksums) and the checksum of it.
_LZ4_HEADER = bytes.fromhex("04224d18604082")
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_STORED = 1 << 31
_NO_ROOM = "failed to write whole buffer"  # cramjam's words for what does not fit the room it was given
_GZIP_WINDOW = 31  # zlib's way to say: gzip framing, largest window


class CompressionError(RequestError):
    """The packed records cannot be unpacked, or would unpack to more than is allowed."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.CORRUPT_MESSAGE) -> None:
        super().__init__(code, message)


class TooLargeError(CompressionError):
    """They would unpack to more than is allowed."""


def codec_name(codec_id: int) -> str:
    """The name of a codec by its number in the batch attributes."""
    if not 0 <= codec_id < len(CODEC_NAMES):
        raise CompressionError(f"there is no compression codec {codec_id}", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    return CODEC_NAMES[codec_id]


def compress(codec: str, data: Buffer) -> bytes:
    """Pack bytes with a codec."""
    return _COMPRESSORS[codec](data)


def decompress(codec: str, data: Buffer, limit: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """Unpack bytes; raises CompressionError when they are broken or larger than the limit."""
    try:
        return _DECOMPRESSORS[codec](data, limit)
    except cramjam.DecompressionError as error:
        kind = TooLargeError if _NO_ROOM in str(error) else CompressionError
        raise kind(f"{codec} data is broken or unpacks to more than {limit} bytes: {error}") from None
    except (zlib.error, struct.error) as error:
        raise CompressionError(f"{codec} data is broken: {error}") from None


def _keep(data: Buffer) -> bytes:
    return bytes(data)


def _compress_gzip(data: Buffer) -> bytes:
    packer = zlib.compressobj(wbits=_GZIP_WINDOW)
    return packer.compress(data) + packer.flush()


def _compress_snappy(data: Buffer) -> bytes:
    parts = [_XERIAL_HEADER]
    view = memoryview(data)
    for position in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[position : position + _XERIAL_BLOCK_BYTES]))
        parts.append(_INT32.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _compress_lz4(data: Buffer) -> bytes:
    """A frame of independent blocks: the Java client refuses blocks that refer to the one before."""
    parts = [_LZ4_HEADER]
    view = memoryview(data)
    for position in range(0, len(view), _LZ4_BLOCK_BYTES):
        raw = view[position : position + _LZ4_BLOCK_BYTES]
        packed = bytes(cramjam.lz4.compress_block(raw, store_size=False))
        if len(packed) < len(raw):
            parts += (_UINT32_LITTLE.pack(len(packed)), packed)
        else:
            parts += (_UINT32_LITTLE.pack(len(raw) | _LZ4_STORED), bytes(raw))
    parts.append(_UINT32_LITTLE.pack(0))
    return b"".join(parts)


def _compress_zstd(data: Buffer) -> bytes:
    return bytes(cramjam.zstd.compress(data))


def _decompress_none(data: Buffer, limit: int) -> bytes:
    if len(data) > limit:
        raise TooLargeError(f"{len(data)} bytes of records are more than the {limit} allowed")
    return bytes(data)


def _decompress_gzip(data: Buffer, limit: int) -> bytes:
    parts: list[bytes] = []
    rest: Buffer = data
    room = limit
    # A gzip stream may be several members one after the other.
    while len(rest):
        unpacker = zlib.decompressobj(wbits=_GZIP_WINDOW)
        part = unpacker.decompress(rest, room + 1)
        if len(part) > room:
            raise TooLargeError(f"gzip data unpacks to more than {limit} bytes")
        if not unpacker.eof:
            raise CompressionError("gzip data ends too early")
        parts.append(part)
        room -= len(part)
        rest = unpacker.unused_data
    return b"".join(parts)


def _decompress_snappy(data: Buffer, limit: int) -> bytes:
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _snappy_block(view, limit)
    parts: list[bytes] = []
    position, room = len(_XERIAL_HEADER), limit
    while position < len(view):
        (size,) = _INT32.unpack_from(view, position)
        position += _INT32.size
        if size < 0 or position + size > len(view):
            raise CompressionError("a snappy block reaches beyond its data")
        part = _snappy_block(view[position : position + size], room)
        parts.append(part)
        room -= len(part)
        position += size
    return b"".join(parts)


def _snappy_block(block: memoryview, room: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(block) > room:
        raise TooLargeError("snappy data unpacks to more than is allowed")
    return bytes(cramjam.snappy.decompress_raw(block))


def _decompress_lz4(data: Buffer, limit: int) -> bytes:
    return _into_bounded(cramjam.lz4.decompress_into, data, limit)


def _decompress_zstd(data: Buffer, limit: int) -> bytes:
    return _into_bounded(cramjam.zstd.decompress_into, data, limit)


_GUESS_FACTOR = 8
_FIRST_GUESS_BYTES_MIN = 64 * 1024


def _into_bounded(unpack_into: Callable[[Buffer, bytearray], int], data: Buffer, limit: int) -> bytes:
    """Unpack into a buffer of fixed size.  Most data fits a modest guess; the rest is tried again with more, and not at once
    with the limit: Python fills every byte of such a buffer, which for 128 MiB takes a tenth of a second."""
    guess = max(_FIRST_GUESS_BYTES_MIN, _GUESS_FACTOR * len(data))
    while True:
        output = bytearray(min(limit, guess))
        try:
            return bytes(memoryview(output)[: unpack_into(data, output)])
        except cramjam.DecompressionError:
            if guess >= limit:
                raise
        guess *= _GUESS_FACTOR


_COMPRESSORS: dict[str, Callable[[Buffer], bytes]] = {
    NONE: _keep,
    GZIP: _compress_gzip,
    SNAPPY: _compress_snappy,
    LZ4: _compress_lz4,
    ZSTD: _compress_zstd,
}
_DECOMPRESSORS: dict[str, Callable[[Buffer, int], bytes]] = {
    NONE: _decompress_none,
    GZIP: _decompress_gzip,
    SNAPPY: _decompress_snappy,
    LZ4: _decompress_lz4,
    ZSTD: _decompress_zstd,
}

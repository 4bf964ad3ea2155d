"""Unsigned varints: seven bits a byte, lowest first, the high bit set on all but the last."""

from collections.abc import Sequence
from typing import Final

from headrace.wire.errors import WireError

UVARINT_BYTES_MAX: Final = 5

ONE_BYTE: Final = tuple(bytes((value,)) for value in range(128))
"""The encodings of 0 to 127, which are nearly all that a message ever needs."""


def write_uvarint(value: int) -> bytes:
    """The shortest encoding of a number of at most 32 bits."""
    if 0 <= value < 128:
        return ONE_BYTE[value]
    if not 0 <= value < 1 << 32:
        raise ValueError(f"{value} does not fit an unsigned 32-bit varint")
    out = bytearray()
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(buffer: Sequence[int], position: int) -> tuple[int, int]:
    """The number at the position, and the position behind it.  Reading off the end raises IndexError."""
    value = buffer[position]
    if value < 128:
        return value, position + 1
    value &= 0x7F
    for index in range(1, UVARINT_BYTES_MAX):
        byte = buffer[position + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 128:
            if value >= 1 << 32:
                raise WireError("a varint exceeds 32 bits")
            return value, position + index + 1
    raise WireError(f"a varint is longer than {UVARINT_BYTES_MAX} bytes")

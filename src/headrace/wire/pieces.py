"""A message as a short list of buffers: small parts joined, large records as they are."""

from typing import Any, Final

from headrace.wire.codec import encode_into
from headrace.wire.schema import Buffer

ALONE_BYTES_MIN: Final = 4096
"""From this size on a buffer stands alone: joining it to its neighbours would cost more than one more entry in the list."""


def pieces_of(message: Any, version: int) -> list[Buffer]:
    """The encoding of a message that carries records, without copying any large part of it."""
    pieces: list[Buffer] = []
    encode_into(pieces, message, version)
    joined: list[Buffer] = []
    small: list[Buffer] = []
    for piece in pieces:
        if len(piece) < ALONE_BYTES_MIN:
            small.append(piece)
            continue
        if small:
            joined.append(b"".join(small))
            small = []
        joined.append(piece)
    if small:
        joined.append(b"".join(small))
    return joined

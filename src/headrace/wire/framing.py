"""Frames and headers: where a request begins and ends on a connection, what it is, and how its reply is addressed.

A frame is a 32-bit length and as many bytes.  A request's frame opens with its header (API key, version, correlation id,
client id), a response's with the correlation id.  In flexible versions tagged fields follow, with one exception: the response
header of ApiVersions never has them, since its reader does not yet know what the broker speaks.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.wire.apis import FLEXIBLE_FROM, ApiKey, is_flexible
from headrace.wire.errors import WireError
from headrace.wire.schema import Buffer
from headrace.wire.splitter import FrameSplitter
from headrace.wire.varint import read_uvarint

__all__ = [
    "FrameSplitter",
    "RequestHeader",
    "has_tagged_response_header",
    "read_request_header",
    "read_response_header",
    "request_frame",
    "response_frame",
    "response_header",
    "skip_tags",
]

_REQUEST_HEAD: Final = struct.Struct(">hhih")
_LENGTH: Final = struct.Struct(">i")
_LENGTH_AND_CORRELATION: Final = struct.Struct(">ii")
_LENGTH_CORRELATION_NO_TAGS: Final = struct.Struct(">iix")
_CORRELATION: Final = struct.Struct(">i")
_CORRELATION_NO_TAGS: Final = struct.Struct(">ix")
# The first version of each API whose responses have tagged fields in their headers.
_TAGGED_RESPONSES_FROM: Final = {key: version for key, version in FLEXIBLE_FROM.items() if key != ApiKey.API_VERSIONS}
_NEVER: Final = 1 << 16


class RequestHeader(NamedTuple):
    """What every request says first.  The key is a plain number: the peer may send any."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def read_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """The header, and the position at which the body begins.

    A version above all that we know is read as a flexible one if its API has any: enough to answer that it is not supported.
    """
    try:
        api_key, api_version, correlation_id, length = _REQUEST_HEAD.unpack_from(frame)
        position = _REQUEST_HEAD.size
        client_id = None
        if length >= 0:
            end = position + length
            if end > len(frame):
                raise WireError("the client id runs past the end of the frame")
            client_id = str(frame[position:end], "utf-8")
            position = end
        elif length != -1:
            raise WireError("the client id has a negative length")
        first_flexible = FLEXIBLE_FROM.get(api_key)
        if first_flexible is not None and api_version >= first_flexible:
            position = skip_tags(frame, position)
    except (struct.error, IndexError):
        raise WireError("a request header ends too early") from None
    except UnicodeDecodeError:
        raise WireError("the client id is not UTF-8") from None
    # Past the function of a named tuple: every request has one.
    return tuple.__new__(RequestHeader, (api_key, api_version, correlation_id, client_id)), position


def skip_tags(frame: Buffer, position: int) -> int:
    """The position behind a tagged section of which nothing is wanted.  Reading off the end raises IndexError."""
    count = frame[position]
    if count == 0:
        return position + 1
    count, position = read_uvarint(frame, position)
    for _ in range(count):
        _, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        position += size
        if position > len(frame):
            raise WireError("a tagged field runs past the end of the frame")
    return position


def response_header(api_key: int, api_version: int, correlation_id: int) -> bytes:
    """The header of a reply, without the frame's length."""
    if api_version >= _TAGGED_RESPONSES_FROM.get(api_key, _NEVER):
        return _CORRELATION_NO_TAGS.pack(correlation_id)
    return _CORRELATION.pack(correlation_id)


def has_tagged_response_header(api_key: int, api_version: int) -> bool:
    """Whether tagged fields follow the correlation id."""
    return api_version >= _TAGGED_RESPONSES_FROM.get(api_key, _NEVER)


def response_frame(api_key: int, api_version: int, correlation_id: int, body: Sequence[Buffer]) -> list[Buffer]:
    """A whole reply, ready to be written: length and header in one piece, then the pieces of the body as they are."""
    size = sum(map(len, body))
    if has_tagged_response_header(api_key, api_version):
        return [_LENGTH_CORRELATION_NO_TAGS.pack(size + 5, correlation_id), *body]
    return [_LENGTH_AND_CORRELATION.pack(size + 4, correlation_id), *body]


def read_response_header(frame: Buffer, api_key: int, api_version: int) -> tuple[int, int]:
    """The correlation id of a reply to a request of this key and version, and the position at which its body begins."""
    try:
        (correlation_id,) = _CORRELATION.unpack_from(frame)
        position = _CORRELATION.size
        if has_tagged_response_header(api_key, api_version):
            position = skip_tags(frame, position)
    except (struct.error, IndexError):
        raise WireError("a response header ends too early") from None
    return correlation_id, position


def request_frame(header: RequestHeader, body: Sequence[Buffer]) -> list[Buffer]:
    """A whole request, as one broker sends it to another."""
    client_id = b"" if header.client_id is None else header.client_id.encode()
    length = -1 if header.client_id is None else len(client_id)
    head = _REQUEST_HEAD.pack(header.api_key, header.api_version, header.correlation_id, length) + client_id
    if is_flexible(header.api_key, header.api_version):
        head += b"\0"
    return [_LENGTH.pack(len(head) + sum(map(len, body))) + head, *body]

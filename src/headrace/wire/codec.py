"""Messages to bytes and back, for every declared version.

`decode` faces the network: whatever the bytes are, it answers with a message or raises WireError, and it allocates no more
than the bytes justify.  `encode` faces our own code: a value that does not fit its field is our mistake and raises
ValueError.
"""

import struct
from typing import Any, Final, TypeVar

from headrace.wire.compile_reader import Reader, carries_records, compile_reader
from headrace.wire.compile_writer import Writer, compile_writer
from headrace.wire.errors import WireError
from headrace.wire.schema import Buffer, layout_of

__all__ = ["ITEMS_MAX", "WireError", "decode", "decode_at", "encode", "encode_into", "encode_versioned", "read_version"]

Message = TypeVar("Message")

ITEMS_MAX: Final = 1_000_000
"""How many items all arrays of one message together may hold.  An item costs us about a hundred bytes, and its sender a few."""

_VERSION: Final = struct.Struct(">h")

_readers: dict[tuple[type, int], Reader] = {}
_writers: dict[tuple[type, int], Writer] = {}


def encode(message: Any, version: int) -> bytes:
    """The bytes of the message in this version, without any header."""
    pieces: list[Buffer] = []
    encode_into(pieces, message, version)
    return b"".join(pieces)


def encode_into(pieces: list[Buffer], message: Any, version: int) -> None:
    """Append the bytes of the message to a list of pieces, for callers that put headers before them."""
    kind = type(message)
    writer = _writers.get((kind, version)) or _compiled_writer(kind, version)
    try:
        writer(message, pieces.append)
    except (struct.error, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{kind.__name__} does not fit version {version}: {error}") from error


def decode(kind: type[Message], buffer: Buffer, version: int, position: int = 0, *, exact: bool = True) -> Message:
    """The message that fills the buffer from the position to its end.

    Bytes left over behind it are an error, unless `exact` is false: Kafka's brokers do not mind them behind a request.
    """
    message, end = decode_at(kind, buffer, version, position)
    if exact and end != len(buffer):
        raise WireError(f"{len(buffer) - end} bytes are left over behind {kind.__name__} version {version}")
    return message


def decode_at(kind: type[Message], buffer: Buffer, version: int, position: int = 0) -> tuple[Message, int]:
    """The message at the position, and the position behind it.  Where it carries records they are views of the buffer."""
    reader = _readers.get((kind, version)) or _compiled_reader(kind, version)
    if not isinstance(buffer, bytes) and not carries_records(kind):  # type: ignore[arg-type]
        buffer = bytes(buffer)
    try:
        message, end = reader(buffer, position, len(buffer), ITEMS_MAX)
    except (struct.error, IndexError):
        raise WireError(f"{kind.__name__} version {version} ends too early") from None
    except UnicodeDecodeError as error:
        raise WireError(f"{kind.__name__} version {version} has a string that is not UTF-8: {error.reason}") from None
    return message, end


def encode_versioned(message: Any, version: int) -> bytes:
    """The message behind its version in two bytes: the form of keys and values in the coordinators' logs."""
    return _VERSION.pack(version) + encode(message, version)


def read_version(buffer: Buffer) -> tuple[int, int]:
    """The version that opens a key or value of a coordinator's log, and the position behind it, to decode from."""
    if len(buffer) < _VERSION.size:
        raise WireError("an entry ends before its version")
    (version,) = _VERSION.unpack_from(buffer)
    return version, _VERSION.size


def _compiled_reader(kind: type, version: int) -> Reader:
    _check_version(kind, version)
    reader = _readers[kind, version] = compile_reader(kind, version)
    return reader


def _compiled_writer(kind: type, version: int) -> Writer:
    _check_version(kind, version)
    writer = _writers[kind, version] = compile_writer(kind, version)
    return writer


def _check_version(kind: type, version: int) -> None:
    versions = layout_of(kind).versions
    if version not in versions:
        raise ValueError(f"{kind.__name__} has versions {versions.start} to {versions.stop - 1}, not {version}")

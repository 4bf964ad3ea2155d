"""Keys and values to bytes and back: bytes as they are, str as UTF-8, JSON, by a schema, or any pair of callables.

None is never handed to a codec: a record without a key has no key, and a record without a value is a tombstone, in every format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple, TypeVar

import orjson

from headrace.client.errors import EncodeFailed, InvalidArgument
from headrace.client.formats.schema_format import SchemaFormat
from headrace.client.push.handlers import plain_function

Encode = Callable[[Any], bytes]
Decode = Callable[[bytes], Any]
T = TypeVar("T")
Format = type[T] | Literal["bytes", "str", "json"] | tuple[Callable[[T], bytes], Callable[[bytes], T]] | SchemaFormat[T]


class Codec(NamedTuple):
    """How one side of a record is written and read."""

    name: str
    encode: Encode
    decode: Decode
    encode_for: Callable[[str, str], Encode] | None = None  # where it depends on the part (key or value) and the topic


def _encode_bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        # A str has one obvious meaning on the way out; on the way in it has none, so bytes come back as bytes.
        return value.encode()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"a {type(value).__name__} is not bytes or str")


def _encode_str(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    raise TypeError(f"a {type(value).__name__} is not a str")


def _needs_topic(value: Any) -> bytes:
    raise AssertionError("a format by a schema is asked for a topic's encoder")


def _unchanged(data: bytes) -> bytes:
    return data


def _decode_str(data: bytes) -> str:
    return data.decode()


BYTES = Codec("bytes", _encode_bytes, _unchanged)
STR = Codec("str", _encode_str, _decode_str)
JSON = Codec("json", orjson.dumps, orjson.loads)
NAMED: dict[object, Codec] = {bytes: BYTES, "bytes": BYTES, str: STR, "str": STR, "json": JSON}


def codec(argument: str, given: object) -> Codec:
    """The codec somebody asked for."""
    if isinstance(given, Codec):
        return given
    if isinstance(given, SchemaFormat):
        return Codec(given.name, _needs_topic, given.decode, given.encode_for)
    if isinstance(given, tuple) and len(given) == 2 and all(callable(each) for each in given):
        for each in given:
            plain_function(argument, each, "a value")
        return Codec("a format of your own", *given)
    try:
        return NAMED[given]
    except (KeyError, TypeError):
        raise InvalidArgument(
            f"{argument}={given!r} is not a format; accepted: bytes, str, 'json', Avro(…), "
            "JsonSchema(…), Protobuf(…), or a pair (encode, decode) of callables"
        ) from None


def encoded(using: Codec, part: str, value: Any, topic: str) -> bytes | None:
    """The bytes of a key or a value; whatever the codec raises comes out as EncodeFailed."""
    if value is None:
        return None
    try:
        data = using.encode(value) if using.encode_for is None else using.encode_for(part, topic)(value)
    except Exception as error:
        hint = f"; for others give the format, such as {part}s='json'" if using is BYTES else ""
        raise EncodeFailed(
            f"the {part} of a record for topic '{topic}' could not be written as {using.name}: {error}{hint}"
        ) from error
    if not isinstance(data, bytes):
        raise EncodeFailed(
            f"the {part} of a record for topic '{topic}' could not be written as "
            f"{using.name}: the encoder returned {type(data).__name__}, not bytes"
        )
    return data


def decoded_many(using: Codec, data: Iterable[bytes | None]) -> list[Any] | None:
    """Each of these, decoded; None where the format is bytes, and there is nothing to do.  Raises what the codec raises."""
    if using is BYTES:
        return None
    decode = using.decode
    return [None if each is None else decode(each) for each in data]

"""Values in Protobuf, by the classes that `protoc` generates.

Files that a message's file imports are registered under their own names, and referred to; Google's own are known everywhere.
"""

from __future__ import annotations

import base64
from typing import Any, Final, Generic, TypeVar

from headrace.client.errors import InvalidArgument
from headrace.client.formats.registry import Reference, RegisteredSchema, SchemaRegistry
from headrace.client.formats.schema_format import HEADER, SchemaFormat

BUILT_IN: Final = ("google/protobuf/",)
T = TypeVar("T")


class Protobuf(SchemaFormat[T], Generic[T]):
    """Keys or values in Protobuf: `Producer(values=Protobuf(Order))`, with a generated class.

    Args:
        message: The generated class, whose instances are written and read.
        registry: A SchemaRegistry, or its URL; else `HEADRACE_REGISTRY` from the environment, else http://127.0.0.1:8080.
        subject: What the schema is registered under; the topic's name with `-key` or `-value`, unless given.
        register: Register the schema, and those it imports, when it is first used; with False they must be there.
    """

    name = "Protobuf"

    def __init__(
        self,
        message: type[T],
        *,
        registry: SchemaRegistry | str | None = None,
        subject: str | None = None,
        register: bool = True,
    ) -> None:
        super().__init__(registry=registry, subject=subject, register=register)
        if not hasattr(message, "DESCRIPTOR") or not hasattr(message, "FromString"):
            raise InvalidArgument(f"message={message!r} is not accepted; accepted: a class that protoc generated")
        self._message: Any = message
        self._prefix = _message_index(message)

    def _after_id(self) -> bytes:
        return self._prefix

    def _own_schema(self, subject: str) -> RegisteredSchema:
        return self._schema_of(self._message.DESCRIPTOR.file)

    def _schema_of(self, file: Any) -> RegisteredSchema:
        references = []
        for each in file.dependencies:
            if not each.name.startswith(BUILT_IN):
                schema = self._schema_of(each)
                self.registry.id_of(each.name, schema, register=self._register)
                references.append(Reference(each.name, each.name, self.registry.version_of(each.name, schema)))
        return RegisteredSchema("PROTOBUF", base64.b64encode(file.serialized_pb).decode(), tuple(references))

    def _write(self, header: bytes, value: Any) -> bytes:
        if not isinstance(value, self._message):
            raise TypeError(f"a {type(value).__name__} is not a {self._message.__name__}")
        return header + bytes(value.SerializeToString())

    def _read(self, id: int, data: bytes) -> T:
        self._writers_schema(id, "PROTOBUF")
        message: T = self._message.FromString(data[_after_index(data, HEADER.size) :])
        return message


def _message_index(message: Any) -> bytes:
    """Where the message is in its file: its place at each level, as zigzag numbers behind their count; the first is just 0."""
    path: list[int] = []
    described = message.DESCRIPTOR
    while described is not None:
        around = described.containing_type
        siblings = described.file.message_types_by_name if around is None else around.nested_types_by_name
        path.insert(0, list(siblings).index(described.name))
        described = around
    if path == [0]:
        return b"\0"
    return b"".join(_varint(number << 1) for number in (len(path), *path))


def _varint(number: int) -> bytes:
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def _after_index(data: bytes, start: int) -> int:
    """Where the message begins, behind its index."""
    count, position = _read_varint(data, start)
    for _ in range(count >> 1):
        _, position = _read_varint(data, position)
    return position


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if position >= len(data):
            raise ValueError("it ends before its message begins")
        byte = data[position]
        number |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return number, position
        shift += 7

"""Keys and values by a schema: a byte 0, the schema's id in four bytes, and then the value in the schema's own format.

That is how Confluent's serializers write, so that theirs and ours read each other.  The subject of a schema is the topic's name
with `-key` or `-value`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from headrace.client.errors import InvalidArgument
from headrace.client.formats.registry import RegisteredSchema, Remembered, SchemaRegistry, registry_from

MAGIC: Final = 0
HEADER: Final = struct.Struct(">bI")
T = TypeVar("T")


class SchemaFormat(Generic[T]):
    """What the formats have in common: the registry, subjects, ids.  Use Avro, JsonSchema or Protobuf."""

    name = "a schema"

    def __init__(self, *, registry: SchemaRegistry | str | None, subject: str | None, register: bool) -> None:
        self.registry = registry_from(registry)
        self._subject = subject
        self._register = register
        self._headers: Remembered[str, bytes] = Remembered()  # by subject: what every value begins with

    def encode_for(self, part: str, topic: str) -> Callable[[Any], bytes]:
        """How keys or values of a topic are written.  Registers the schema when it is first used."""
        subject = self._subject or f"{topic}-{part}"
        header = self._headers.get(subject)
        if header is None:
            id = self.registry.id_of(subject, self._own_schema(subject), register=self._register)
            header = HEADER.pack(MAGIC, id) + self._after_id()
            self._headers.put(subject, header)
        return lambda value: self._write(header, value)

    def decode(self, data: bytes) -> T:
        """Read a key or a value that was written by any schema of its kind in the registry.  Raises ValueError."""
        if len(data) < HEADER.size or data[0] != MAGIC:
            raise ValueError(f"it does not begin with a byte 0 and a schema id; it was not written as {self.name}")
        id = HEADER.unpack_from(data)[1]
        return self._read(id, data)

    def _after_id(self) -> bytes:
        """What follows the id in every value."""
        return b""

    def _own_schema(self, subject: str) -> RegisteredSchema:
        raise NotImplementedError

    def _write(self, header: bytes, value: Any) -> bytes:
        raise NotImplementedError

    def _read(self, id: int, data: bytes) -> T:
        raise NotImplementedError

    def _writers_schema(self, id: int, type: str) -> RegisteredSchema:
        found = self.registry.by_id(id)
        if found.type != type:
            raise ValueError(f"schema {id} is {found.type}, and this format is {type}")
        return found


def needs(package: str, error: ImportError) -> InvalidArgument:
    return InvalidArgument(f"this format needs {package}: pip install 'headrace[schemas]' ({error})")

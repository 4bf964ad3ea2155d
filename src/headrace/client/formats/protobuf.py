"""Values in Protobuf, by the classes that `protoc` generates.

Files that a message's file imports are registered under their own names, and referred to; Google's own are known everywhere.
"""

from __future__ import annotations

import base64
from typing import Any, Final, Generic, TypeVar

from headrace.client.errors import InvalidArgument
from headrace.client.formats.message_index import index_of, read_index
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
        described: Any = self._message
        self._prefix = index_of(described.DESCRIPTOR)

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
        message: T = self._message.FromString(data[read_index(data, HEADER.size)[1] :])
        return message

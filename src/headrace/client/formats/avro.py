"""Values in Avro.  The writer's schema comes from the registry by its id; values are read as this side's schema says."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import orjson

from headrace.client.errors import InvalidArgument
from headrace.client.formats.avro_types import instance, is_model, plain, schema_of
from headrace.client.formats.registry import RegisteredSchema, Remembered, SchemaRegistry
from headrace.client.formats.schema_format import HEADER, SchemaFormat, needs

T = TypeVar("T")


class Avro(SchemaFormat[T], Generic[T]):
    """Keys or values in Avro: `Producer(values=Avro(Order))`, `Consumer("orders", values=Avro(Order))`.

    Args:
        schema: A dataclass or a pydantic model, whose instances are written and read; or a schema as a text or a dict, for
            dicts.  Without one, values are read as they were written, and cannot be written.
        registry: A SchemaRegistry, or its URL; else `HEADRACE_REGISTRY` from the environment, else http://127.0.0.1:8080.
        subject: What the schema is registered under; the topic's name with `-key` or `-value`, unless given.
        register: Register the schema when it is first used; with False it must be there.
    """

    name = "Avro"

    def __init__(
        self,
        schema: type[T] | str | Mapping[str, Any] | None = None,
        *,
        registry: SchemaRegistry | str | None = None,
        subject: str | None = None,
        register: bool = True,
    ) -> None:
        super().__init__(registry=registry, subject=subject, register=register)
        try:
            import fastavro
        except ImportError as error:
            raise needs("fastavro", error) from None
        self._fastavro = fastavro
        self._model = schema if is_model(schema) else None
        self._text = _text_of(schema)
        self._parsed: Any = None if self._text is None else self._read_schema(self._text)
        self._schemas: Remembered[int, tuple[Any, Any]] = Remembered()  # by id: the writer's, and ours where it differs

    def _own_schema(self, subject: str) -> RegisteredSchema:
        if self._text is None:
            raise InvalidArgument("Avro() without a schema can only read; give it one to write with")
        return RegisteredSchema("AVRO", self._text)

    def _write(self, header: bytes, value: Any) -> bytes:
        into = io.BytesIO(header)
        into.seek(len(header))
        self._fastavro.schemaless_writer(into, self._parsed, value if self._model is None else plain(value))
        return into.getvalue()

    def _read(self, id: int, data: bytes) -> T:
        schemas = self._schemas.get(id)
        if schemas is None:
            writer = self._written_with(id)
            # Where both are the same, resolving one against the other would only cost.
            schemas = (writer, None if writer == self._parsed else self._parsed)
            self._schemas.put(id, schemas, len(self.registry.by_id(id).text))
        source = io.BytesIO(data)
        source.seek(HEADER.size)
        value: Any = self._fastavro.schemaless_reader(source, *schemas)
        made: T = value if self._model is None else instance(self._model, value)
        return made

    def _written_with(self, id: int) -> Any:
        found = self._writers_schema(id, "AVRO")
        named: dict[str, Any] = {}
        for text in self.registry.referenced(found).values():
            self._fastavro.parse_schema(orjson.loads(text), named_schemas=named)
        return self._fastavro.parse_schema(_tree(found.text), named_schemas=named)

    def _read_schema(self, text: str) -> Any:
        try:
            return self._fastavro.parse_schema(_tree(text))
        except Exception as error:  # fastavro's errors have no common base
            raise InvalidArgument(f"schema={text!r} is not an Avro schema: {error}") from None


def _tree(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text  # a bare name, such as string


def _text_of(schema: Any) -> str | None:
    if schema is None or isinstance(schema, str):
        return schema
    if isinstance(schema, type):
        if is_model(schema):
            return orjson.dumps(schema_of(schema)).decode()
    elif isinstance(schema, Mapping | list):
        return orjson.dumps(schema).decode()
    raise InvalidArgument(f"schema={schema!r} is not accepted; accepted: a dataclass, a pydantic model, a text or a dict")

"""Values in JSON, checked against a JSON Schema before they are written and after they are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import orjson

from headrace.client.errors import InvalidArgument
from headrace.client.formats.avro_types import is_model
from headrace.client.formats.registry import RegisteredSchema, SchemaRegistry
from headrace.client.formats.schema_format import HEADER, SchemaFormat, needs

T = TypeVar("T")


class JsonSchema(SchemaFormat[T], Generic[T]):
    """Keys or values in JSON by a schema: `Producer(values=JsonSchema(Order))`.

    Args:
        schema: A pydantic model or a dataclass, whose instances are written and read (pydantic does the work); or a JSON
            Schema as a text or a dict, for anything that JSON holds.  Without one, values are read without being checked.
        registry: A SchemaRegistry, or its URL; else `HEADRACE_REGISTRY` from the environment, else http://127.0.0.1:8080.
        subject: What the schema is registered under; the topic's name with `-key` or `-value`, unless given.
        register: Register the schema when it is first used; with False it must be there.
    """

    name = "JSON by a schema"

    def __init__(
        self,
        schema: type[T] | str | Mapping[str, Any] | None = None,
        *,
        registry: SchemaRegistry | str | None = None,
        subject: str | None = None,
        register: bool = True,
    ) -> None:
        super().__init__(registry=registry, subject=subject, register=register)
        self._adapter = _adapter_of(schema) if is_model(schema) else None
        self._text = _text_of(schema, self._adapter)
        self._validator = None if self._text is None or self._adapter is not None else _validator_of(self._text)

    def _own_schema(self, subject: str) -> RegisteredSchema:
        if self._text is None:
            raise InvalidArgument("JsonSchema() without a schema can only read; give it one to write with")
        return RegisteredSchema("JSON", self._text)

    def _write(self, header: bytes, value: Any) -> bytes:
        if self._adapter is not None:
            # Checked also when it is an instance already: its fields may have been changed since.
            self._adapter.validate_python(self._adapter.dump_python(value), strict=False)
            return header + bytes(self._adapter.dump_json(value, by_alias=True))
        self._check(value)
        return header + orjson.dumps(value)

    def _read(self, id: int, data: bytes) -> T:
        self._writers_schema(id, "JSON")
        body = data[HEADER.size :]
        if self._adapter is not None:
            made: T = self._adapter.validate_json(body)
            return made
        value: T = orjson.loads(body)
        self._check(value)
        return value

    def _check(self, value: Any) -> None:
        if self._validator is not None:
            for error in self._validator.iter_errors(value):
                place = "/".join(map(str, error.instance_path))
                raise ValueError(f"{error.message} at /{place}")


def _adapter_of(model: Any) -> Any:
    try:
        from pydantic import TypeAdapter
    except ImportError as error:
        raise needs("pydantic", error) from None
    return TypeAdapter(model)


def _text_of(schema: Any, adapter: Any) -> str | None:
    if adapter is not None:
        return orjson.dumps(adapter.json_schema()).decode()
    if schema is None or isinstance(schema, str):
        return schema
    if isinstance(schema, Mapping):
        return orjson.dumps(schema).decode()
    raise InvalidArgument(f"schema={schema!r} is not accepted; accepted: a pydantic model, a dataclass, a text or a dict")


def _validator_of(text: str) -> Any:
    try:
        import jsonschema_rs
    except ImportError as error:
        raise needs("jsonschema-rs", error) from None
    try:
        return jsonschema_rs.validator_for(orjson.loads(text))
    except ValueError as error:
        raise InvalidArgument(f"schema={text!r} is not a JSON Schema: {error}") from None

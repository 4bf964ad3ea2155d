"""JSON by a JSON Schema as columns.  What a schema leaves open is a text of JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson
from pyspark.sql.types import ArrayType, BooleanType, DataType, DoubleType, LongType, MapType, StringType, StructField, StructType

from headrace.client.formats.json_schema import JsonSchema
from headrace.client.formats.registry import RegisteredSchema, SchemaRegistry
from headrace.client.formats.schema_format import HEADER, MAGIC

PLAIN: Final[dict[str, DataType]] = {
    "boolean": BooleanType(),
    "integer": LongType(),
    "number": DoubleType(),
    "string": StringType(),
}
DEEP_MAX: Final = 30


class JsonColumns:
    """One subject's newest schema."""

    def __init__(self, registry: SchemaRegistry, id: int, schema: RegisteredSchema) -> None:
        self._id = id
        self._registry = registry
        self._text = schema.text
        self._tree = orjson.loads(schema.text)
        self._refers = bool(schema.references)

    def column(self) -> DataType:
        return _type(self._tree, self._tree, 0)

    def decoder(self) -> Callable[[bytes], Any]:
        reader: JsonSchema[Any] = JsonSchema(registry=self._registry)
        wanted = self.column()
        return lambda data: _shaped(reader.decode(data), wanted)

    def encoder(self) -> Callable[[Any], bytes]:
        # What refers to others is not whole by itself, and goes unchecked: the registry knows it, and readers do.
        format: JsonSchema[Any] = JsonSchema(None if self._refers else self._text, registry=self._registry)
        header = HEADER.pack(MAGIC, self._id)

        def encode(value: Any) -> bytes:
            plain = _without_nothing(value)
            format._check(plain)
            return header + orjson.dumps(plain, default=str)

        return encode


def _without_nothing(value: Any) -> Any:
    """A field that a row lacks is left out: few schemas let it be null."""
    if isinstance(value, dict):
        return {name: _without_nothing(each) for name, each in value.items() if each is not None}
    return [_without_nothing(each) for each in value] if isinstance(value, list) else value


def _shaped(value: Any, wanted: DataType) -> Any:
    """A value as its column wants it."""
    if value is None:
        return None
    match wanted:
        case StringType():
            return value if isinstance(value, str) else orjson.dumps(value).decode()
        case StructType() if isinstance(value, dict):
            return {field.name: _shaped(value.get(field.name), field.dataType) for field in wanted.fields}
        case ArrayType() if isinstance(value, list):
            return [_shaped(each, wanted.elementType) for each in value]
        case MapType() if isinstance(value, dict):
            return [(name, _shaped(each, wanted.valueType)) for name, each in value.items()]
    return value


def _type(schema: Any, root: Any, deep: int) -> DataType:
    if not isinstance(schema, dict) or deep > DEEP_MAX:
        return StringType()
    if isinstance(reference := schema.get("$ref"), str):
        return _type(_pointed(root, reference), root, deep + 1)
    kinds = schema.get("type")
    kinds = [each for each in (kinds if isinstance(kinds, list) else [kinds]) if each != "null"]
    if not kinds or kinds == [None]:
        return _nullable(schema, root, deep)
    if len(kinds) > 1:
        return DoubleType() if set(kinds) == {"integer", "number"} else StringType()
    if kinds[0] == "object":
        return _object(schema, root, deep)
    if kinds[0] == "array":
        return ArrayType(_type(schema.get("items"), root, deep + 1))
    return PLAIN.get(kinds[0], StringType())


def _nullable(schema: dict[str, Any], root: Any, deep: int) -> DataType:
    """How optional fields of models are written: anyOf a type and null."""
    options = [each for each in schema.get("anyOf") or schema.get("oneOf") or () if each != {"type": "null"}]
    if len(options) == 1:
        return _type(options[0], root, deep + 1)
    return _object(schema, root, deep) if "properties" in schema else StringType()


def _object(schema: dict[str, Any], root: Any, deep: int) -> DataType:
    properties = schema.get("properties")
    if properties:
        return StructType([StructField(name, _type(each, root, deep + 1)) for name, each in properties.items()])
    more = schema.get("additionalProperties")
    return MapType(StringType(), _type(more, root, deep + 1)) if isinstance(more, dict) and more else StringType()


def _pointed(root: Any, reference: str) -> Any:
    if not reference.startswith("#"):
        return None
    found = root
    for part in reference.lstrip("#").split("/")[1:]:
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found

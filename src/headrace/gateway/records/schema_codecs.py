"""Values between JSON and the bytes of a schema's own format: Avro in its JSON encoding, Protobuf in its JSON mapping, and JSON
that a JSON Schema has let pass.  Codecs take and give what follows a schema's id in a record."""

from __future__ import annotations

import io
from typing import Any, Protocol

import orjson

from headrace.client.formats.message_index import index_of, read_index
from headrace.gateway.serving.problems import Problem
from headrace.registry.formats.schema import Named, Schema
from headrace.registry.rules.entries import AVRO, PROTOBUF


class Codec(Protocol):
    """Raises ValueError, in words, for what is not of its schema."""

    def encode(self, value: Any) -> bytes: ...

    def decode(self, data: bytes) -> Any: ...


def codec_of(schema: Schema, referenced: tuple[Named, ...]) -> Codec:
    """How values of a schema are written and read; may take long for a large one."""
    if schema.schema_type == AVRO:
        return AvroCodec(schema, referenced)
    return ProtobufCodec(schema) if schema.schema_type == PROTOBUF else JsonCodec(schema, referenced)


class AvroCodec:
    def __init__(self, schema: Schema, referenced: tuple[Named, ...]) -> None:
        try:
            import fastavro
        except ImportError:
            raise _lacking("fastavro") from None
        self._fastavro = fastavro
        named: dict[str, Any] = {}
        for each in referenced:
            fastavro.parse_schema(orjson.loads(each.text), named_schemas=named)
        self._schema = fastavro.parse_schema(orjson.loads(schema.canonical), named_schemas=named)

    def encode(self, value: Any) -> bytes:
        into = io.BytesIO()
        try:
            read = next(iter(self._fastavro.json_reader(io.StringIO(orjson.dumps(value).decode()), self._schema)))
            self._fastavro.schemaless_writer(into, self._schema, read)
        except Exception as error:  # fastavro raises whatever it stumbles over
            raise ValueError(str(error) or type(error).__name__) from None
        return into.getvalue()

    def decode(self, data: bytes) -> Any:
        told = io.StringIO()
        try:
            value: Any = self._fastavro.schemaless_reader(io.BytesIO(data), self._schema, None)
            self._fastavro.json_writer(told, self._schema, [value])
        except Exception as error:  # fastavro raises whatever it stumbles over
            raise ValueError(str(error) or type(error).__name__) from None
        return orjson.loads(told.getvalue())


class JsonCodec:
    def __init__(self, schema: Schema, referenced: tuple[Named, ...]) -> None:
        import jsonschema_rs

        # With something in it, jsonschema-rs fetches nothing from elsewhere.
        known = [("urn:headrace:nothing", True), *((each.name, orjson.loads(each.text)) for each in referenced)]
        self._validator = jsonschema_rs.validator_for(orjson.loads(schema.canonical), registry=jsonschema_rs.Registry(known))

    def encode(self, value: Any) -> bytes:
        for error in self._validator.iter_errors(value):
            raise ValueError(f"{error.message} at /{'/'.join(map(str, error.instance_path))}")
        return orjson.dumps(value)

    def decode(self, data: bytes) -> Any:
        return orjson.loads(data)


class ProtobufCodec:
    """Writes the first message of its file; reads whichever the record names."""

    def __init__(self, schema: Any) -> None:
        self._file = schema.file
        if not self._file.message_types_by_name:
            raise Problem(422, "schema_without_message", "The schema has no message.", "Register one that has.")

    def encode(self, value: Any) -> bytes:
        from google.protobuf.json_format import ParseDict, ParseError

        first = next(iter(self._file.message_types_by_name.values()))
        message = _message(first)
        try:
            ParseDict(value, message)
        except (ParseError, AttributeError, TypeError) as error:
            raise ValueError(str(error)) from None
        return index_of(first) + bytes(message.SerializeToString())

    def decode(self, data: bytes) -> Any:
        from google.protobuf.json_format import MessageToDict
        from google.protobuf.message import DecodeError

        path, start = read_index(data, 0)
        message = _message(_at(self._file, path))
        try:
            message.ParseFromString(data[start:])
        except DecodeError as error:
            raise ValueError(str(error)) from None
        return MessageToDict(message, preserving_proto_field_name=True)


def _message(descriptor: Any) -> Any:
    from google.protobuf.message_factory import GetMessageClass

    return GetMessageClass(descriptor)()


def _at(file: Any, path: list[int]) -> Any:
    try:
        found = list(file.message_types_by_name.values())[path[0]]
        for index in path[1:]:
            found = found.nested_types[index]
        return found
    except IndexError:
        raise ValueError("its schema has no such message") from None


def _lacking(package: str) -> Problem:
    return Problem(501, "package_missing", f"This gateway lacks the package {package}.", "Install headrace[schemas] beside it.")

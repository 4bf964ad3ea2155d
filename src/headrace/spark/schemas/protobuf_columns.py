"""Protobuf as columns, by the descriptors that a registry gives: no generated code is needed."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Callable
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headrace.client.formats.message_index import index_of, read_index
from headrace.client.formats.registry import RegisteredSchema, SchemaRegistry
from headrace.client.formats.schema_format import HEADER, MAGIC
from headrace.spark.errors import SchemaError

OWN_NAME: Final = "default"
TIMESTAMP: Final = "google.protobuf.Timestamp"


class ProtobufColumns:
    """The first message of one subject's newest schema."""

    def __init__(self, registry: SchemaRegistry, id: int, schema: RegisteredSchema) -> None:
        self._id = id
        self._registry = registry
        self._files: dict[int, Any] = {}
        self._first = next(iter(self._file(id).message_types_by_name.values()))

    def _file(self, id: int) -> Any:
        if id not in self._files:
            self._files[id] = _file_of(self._registry.serialized(id))
        return self._files[id]

    def column(self) -> DataType:
        return _struct(self._first, ())

    def decoder(self) -> Callable[[bytes], Any]:
        def decode(data: bytes) -> Any:
            if len(data) < HEADER.size or data[0] != MAGIC:
                raise ValueError("it does not begin with a byte 0 and a schema id")
            path, start = read_index(data, HEADER.size)
            found = list(self._file(HEADER.unpack_from(data)[1]).message_types_by_name.values())[path[0]]
            for index in path[1:]:
                found = found.nested_types[index]
            message = _message(found)
            message.ParseFromString(data[start:])
            return _row(message)

        return decode

    def encoder(self) -> Callable[[Any], bytes]:
        header = HEADER.pack(MAGIC, self._id) + index_of(self._first)

        def encode(value: Any) -> bytes:
            message = _message(self._first)
            _fill(message, value)
            return header + bytes(message.SerializeToString())

        return encode


def _message(descriptor: Any) -> Any:
    from google.protobuf.message_factory import GetMessageClass

    return GetMessageClass(descriptor)()


def _file_of(serialized: dict[str, str]) -> Any:
    """The last of the files, each of which comes after those that it imports."""
    from importlib import import_module

    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import Default, DescriptorPool

    pool, added, last = DescriptorPool(), set[str](), ""
    for name, text in serialized.items():
        described = FileDescriptorProto.FromString(base64.b64decode(text))
        described.name = name or OWN_NAME
        for needed in described.dependency:
            if needed not in added and needed not in serialized:
                import_module(needed.removesuffix(".proto").replace("/", ".") + "_pb2")
                built_in = FileDescriptorProto()
                Default().FindFileByName(needed).CopyToProto(built_in)
                pool.Add(built_in)
                added.add(needed)
        pool.Add(described)
        last = described.name
    return pool.FindFileByName(last)


def _struct(descriptor: Any, around: tuple[str, ...]) -> StructType:
    if descriptor.full_name in around:
        raise SchemaError(f"'{descriptor.full_name}' contains itself, and no column has a type that does")
    inner = (*around, descriptor.full_name)
    return StructType([StructField(field.name, _field(field, inner)) for field in descriptor.fields])


def _is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _field(field: Any, around: tuple[str, ...]) -> DataType:
    if _is_map(field):
        key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        return MapType(_single(key, around), _single(value, around))
    return ArrayType(_single(field, around)) if field.is_repeated else _single(field, around)


def _single(field: Any, around: tuple[str, ...]) -> DataType:
    match field.cpp_type:
        case field.CPPTYPE_MESSAGE:
            return TimestampType() if field.message_type.full_name == TIMESTAMP else _struct(field.message_type, around)
        case field.CPPTYPE_INT32:
            return IntegerType()
        case field.CPPTYPE_INT64 | field.CPPTYPE_UINT32 | field.CPPTYPE_UINT64:
            return LongType()
        case field.CPPTYPE_FLOAT:
            return FloatType()
        case field.CPPTYPE_DOUBLE:
            return DoubleType()
        case field.CPPTYPE_BOOL:
            return BooleanType()
        case field.CPPTYPE_STRING:
            return BinaryType() if field.type == field.TYPE_BYTES else StringType()
    return StringType()  # an enum, by its names


def _row(message: Any) -> dict[str, Any]:
    return {field.name: _value(message, field) for field in message.DESCRIPTOR.fields}


def _value(message: Any, field: Any) -> Any:
    found = getattr(message, field.name)
    if _is_map(field):
        inner = field.message_type.fields_by_name["value"]
        return [(key, _plain(found[key], inner)) for key in found]
    if field.is_repeated:
        return [_plain(each, field) for each in found]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _plain(found, field)


def _plain(value: Any, field: Any) -> Any:
    if field.cpp_type == field.CPPTYPE_MESSAGE:
        if field.message_type.full_name == TIMESTAMP:
            return value.ToDatetime(tzinfo=datetime.UTC)
        return _row(value)
    if field.cpp_type == field.CPPTYPE_ENUM:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    return value


def _fill(message: Any, row: Any) -> None:
    """Set what a row has; what it lacks, or is null, stays as it is."""
    for field in message.DESCRIPTOR.fields:
        value = row.get(field.name)
        if value is None:
            continue
        if _is_map(field):
            _fill_map(getattr(message, field.name), field.message_type.fields_by_name["value"], value)
        elif field.is_repeated:
            for each in value:
                _append(getattr(message, field.name), field, each)
        elif field.cpp_type == field.CPPTYPE_MESSAGE:
            _fill_message(getattr(message, field.name), field, value)
        else:
            setattr(message, field.name, _number(field, value))


def _fill_message(message: Any, field: Any, value: Any) -> None:
    message.SetInParent()
    if field.message_type.full_name == TIMESTAMP:
        message.FromDatetime(value)
    else:
        _fill(message, value)


def _fill_map(into: Any, field: Any, pairs: Any) -> None:
    for key, value in dict(pairs).items():
        if field.cpp_type == field.CPPTYPE_MESSAGE:
            _fill_message(into[key], field, value)
        else:
            into[key] = _number(field, value)


def _append(into: Any, field: Any, value: Any) -> None:
    if field.cpp_type == field.CPPTYPE_MESSAGE:
        _fill_message(into.add(), field, value)
    else:
        into.append(_number(field, value))


def _number(field: Any, value: Any) -> Any:
    """An enum's name as its number; everything else as it is."""
    if field.cpp_type != field.CPPTYPE_ENUM or not isinstance(value, str):
        return value
    known = field.enum_type.values_by_name.get(value)
    if known is None:
        raise ValueError(f"'{value}' is not one of {', '.join(field.enum_type.values_by_name)}")
    return known.number

"""Protobuf: `.proto` files, or their descriptors in base64, read into descriptors and kept as text.

The library's own pool of descriptors resolves the names and checks the rest, as it does for generated code.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import import_module

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import Default, DescriptorPool
from google.protobuf.message import DecodeError

from headrace.registry.formats.protobuf.compatibility import problems
from headrace.registry.formats.protobuf.from_text import descriptor_of
from headrace.registry.formats.protobuf.to_text import text_of
from headrace.registry.formats.schema import InvalidSchema, Named, Schema
from headrace.registry.rules.entries import PROTOBUF

OWN_NAME = "default"
BUILT_IN = ("google/protobuf/", "google/type/", "google/api/", "google/rpc/")


def parse(text: str, referenced: tuple[Named, ...]) -> ProtobufSchema:
    given = _described(text)
    file = _resolved(given, referenced)
    described = _proto_of(file)
    canonical = text_of(described)
    if _proto_of(_resolved(_described(canonical), referenced)) != described:
        canonical = text_of(described, absolute_names=True)
    return ProtobufSchema(canonical=canonical, file=file)


@dataclass(frozen=True, kw_only=True)
class ProtobufSchema:
    canonical: str
    file: FileDescriptor
    schema_type: str = PROTOBUF

    @cached_property
    def described(self) -> FileDescriptorProto:
        return _proto_of(self.file)

    def normalized(self) -> str:
        """What has no order, in alphabetical order: imports, messages, enums; fields by their numbers."""
        ordered = FileDescriptorProto()
        ordered.CopyFrom(self.described)
        if not ordered.public_dependency and not ordered.weak_dependency:
            ordered.dependency.sort()
        for each in (ordered.message_type, ordered.enum_type, ordered.service):
            each.sort(key=lambda described: described.name)
        for message in ordered.message_type:
            _order_fields(message)
        return text_of(ordered)

    def formatted(self, form: str) -> str:
        if form == "serialized":
            return base64.b64encode(self.described.SerializeToString(deterministic=True)).decode()
        return self.canonical

    def problems_reading(self, writer: Schema) -> list[str]:
        assert isinstance(writer, ProtobufSchema)
        return problems(self.file, writer.file)


def _order_fields(message: DescriptorProto) -> None:
    message.field.sort(key=lambda field: field.number)
    for nested in message.nested_type:
        _order_fields(nested)


@lru_cache(20)
def _described(text: str) -> FileDescriptorProto:
    """The descriptor of a text, or of what clients send instead: a descriptor, serialized and in base64."""
    try:
        serialized = base64.b64decode(text, validate=True)
        described = FileDescriptorProto.FromString(serialized)
    except (binascii.Error, DecodeError, ValueError):
        return descriptor_of(text)
    if not (described.message_type or described.enum_type):
        return descriptor_of(text)
    described.ClearField("source_code_info")
    described.name = OWN_NAME
    return described


def _resolved(given: FileDescriptorProto, referenced: tuple[Named, ...]) -> FileDescriptor:
    pool = DescriptorPool()
    added: set[str] = set()
    for each in referenced:
        described = FileDescriptorProto()
        described.CopyFrom(_described(each.text))
        described.name = each.name
        _add(pool, described, added)
    _add(pool, given, added)
    return pool.FindFileByName(given.name)


def _add(pool: DescriptorPool, described: FileDescriptorProto, added: set[str]) -> None:
    for name in described.dependency:
        if name not in added:
            _add(pool, _built_in(name), added)
    try:
        pool.Add(described)
        pool.FindFileByName(described.name)
    except (TypeError, KeyError, ValueError) as error:
        raise InvalidSchema(str(error.args[0]) if error.args else type(error).__name__) from None
    added.add(described.name)


def _built_in(name: str) -> FileDescriptorProto:
    """Files that come with Protobuf, and with Google's APIs where their package is installed."""
    if not name.startswith(BUILT_IN):
        raise InvalidSchema(f"it imports '{name}', which is not among its references")
    try:
        import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
        return _proto_of(Default().FindFileByName(name))
    except (ImportError, KeyError, ValueError):
        raise InvalidSchema(f"it imports '{name}', which is not among its references and is not known here") from None


def _proto_of(file: FileDescriptor) -> FileDescriptorProto:
    described = FileDescriptorProto()
    file.CopyToProto(described)
    return described

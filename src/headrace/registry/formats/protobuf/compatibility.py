"""Whether a reader with one set of messages understands what another set wrote, by the rules of Protobuf's wire format.

Fields are known by their numbers.  A number may change its name, come and go, and change its type within a group of types that
are written alike; it may not change how it is written, be required on one side only, or become exclusive with others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto

# Types that are written alike: each may become any other of its group.
ALIKE: Final = (
    (
        *(FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_UINT64),
        *(FieldDescriptor.TYPE_BOOL, FieldDescriptor.TYPE_ENUM),
    ),
    (FieldDescriptor.TYPE_SINT32, FieldDescriptor.TYPE_SINT64),
    (FieldDescriptor.TYPE_FIXED32, FieldDescriptor.TYPE_SFIXED32),
    (FieldDescriptor.TYPE_FIXED64, FieldDescriptor.TYPE_SFIXED64),
    (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES),
    (FieldDescriptor.TYPE_FLOAT,),
    (FieldDescriptor.TYPE_DOUBLE,),
    (FieldDescriptor.TYPE_MESSAGE,),
    (FieldDescriptor.TYPE_GROUP,),
)
GROUPS: Final = {kind: group for group in ALIKE for kind in group}
TEXTS: Final = ALIKE[4]
MESSAGES: Final = (FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_GROUP)


def problems(reader: FileDescriptor, writer: FileDescriptor) -> list[str]:
    """Why somebody with the reader's messages cannot read those of the writer."""
    return list(_Comparison(reader, writer).problems())


class _Comparison:
    def __init__(self, reader: FileDescriptor, writer: FileDescriptor) -> None:
        self._reader = reader
        self._writer = writer
        self._compared: set[tuple[str, str]] = set()
        self._reader_types = _types_of(reader)

    def problems(self) -> Iterator[str]:
        if self._reader.package != self._writer.package:
            yield f"the package changed from '{self._writer.package}' to '{self._reader.package}'"
        for name, written in _messages_of(self._writer):
            read = self._reader_types.get(name)
            if read is None:
                yield f"message {name} was removed"
            elif isinstance(read, EnumDescriptor):
                yield f"message {name} became an enum"
            else:
                yield from self._messages(read, written)

    def _messages(self, read: Descriptor, written: Descriptor) -> Iterator[str]:
        pair = (read.full_name, written.full_name)
        if pair in self._compared:
            return
        self._compared.add(pair)
        yield from self._oneofs(read, written)
        gone_oneofs = _gone_oneofs(read, written)
        for number, old in written.fields_by_number.items():
            new = read.fields_by_number.get(number)
            where = f"field {number} ({old.name}) of {written.full_name}"
            if new is None:
                if old.is_required:
                    yield f"{where} was required and is removed"
                elif (oneof := _oneof(old)) is not None and oneof not in gone_oneofs:
                    yield f"{where} was removed from oneof {oneof}"
            else:
                yield from self._fields(where, new, old)
        for number, new in read.fields_by_number.items():
            if number not in written.fields_by_number and new.is_required:
                yield f"field {number} ({new.name}) of {read.full_name} is new and required"

    def _oneofs(self, read: Descriptor, written: Descriptor) -> Iterator[str]:
        """Fields that could be set together before must not exclude each other now."""
        for oneof in read.oneofs:
            before = [written.fields_by_number[each.number] for each in oneof.fields if each.number in written.fields_by_number]
            origins = Counter(_oneof(each) or f"field {each.number}" for each in before)
            if len(origins) > 1:
                yield f"fields of {written.full_name} that were independent are now in oneof {oneof.name}"

    def _fields(self, where: str, new: FieldDescriptor, old: FieldDescriptor) -> Iterator[str]:
        if new.is_required != old.is_required and new.is_required:
            yield f"{where} became required"
        if _is_map(new) != _is_map(old):
            yield f"{where} changed between a map and something else"
        elif old.type not in GROUPS[new.type]:
            yield f"{where} changed its type from {_type(old)} to {_type(new)}"
        elif new.is_repeated != old.is_repeated and new.type not in (*TEXTS, *MESSAGES):
            yield f"{where} changed between one number and a list of them"
        elif _is_map(new):
            yield from self._messages(new.message_type, old.message_type)
        elif new.type in MESSAGES:
            yield from self._message_types(where, new.message_type, old.message_type)

    def _message_types(self, where: str, new: Descriptor, old: Descriptor) -> Iterator[str]:
        if _local_name(new) != _local_name(old):
            yield f"{where} changed its type from {old.full_name} to {new.full_name}"
        else:
            yield from self._messages(new, old)


def _messages_of(file: FileDescriptor) -> Iterator[tuple[str, Descriptor]]:
    for message in file.message_types_by_name.values():
        yield from _with_nested(message)


def _with_nested(message: Descriptor) -> Iterator[tuple[str, Descriptor]]:
    if message.GetOptions().map_entry:
        return
    yield _local_name(message), message
    for nested in message.nested_types:
        yield from _with_nested(nested)


def _types_of(file: FileDescriptor) -> dict[str, Descriptor | EnumDescriptor]:
    """Messages and enums by their names without package, also of imported files: a message may move into one."""
    found: dict[str, Descriptor | EnumDescriptor] = {}
    for each in file.dependencies:
        found.update(_types_of(each))
    found.update({_local_name(each): each for each in file.enum_types_by_name.values()})
    found.update(_messages_of(file))
    return found


def _local_name(described: Descriptor | EnumDescriptor) -> str:
    package, name = str(described.file.package), str(described.full_name)
    return name.removeprefix(f"{package}.") if package else name


def _gone_oneofs(read: Descriptor, written: Descriptor) -> set[str]:
    """Oneofs of which nothing is left: they were removed as a whole, as a field can be."""
    return {
        oneof.name
        for oneof in written.oneofs
        if oneof.name not in read.oneofs_by_name and not any(each.number in read.fields_by_number for each in oneof.fields)
    }


def _oneof(field: FieldDescriptor) -> str | None:
    """The oneof that somebody wrote; the hidden one of an `optional` field is none."""
    oneof = field.containing_oneof
    if oneof is None or (len(oneof.fields) == 1 and oneof.name == f"_{field.name}" and field.has_presence and _hidden(field)):
        return None
    return str(oneof.name)


def _hidden(field: FieldDescriptor) -> bool:
    described = DescriptorProto()
    field.containing_type.CopyToProto(described)
    return any(each.number == field.number and each.proto3_optional for each in described.field)


def _is_map(field: FieldDescriptor) -> bool:
    return field.type == FieldDescriptor.TYPE_MESSAGE and bool(field.message_type.GetOptions().map_entry)


def _type(field: FieldDescriptor) -> str:
    if field.message_type is not None:
        return str(field.message_type.full_name)
    if field.enum_type is not None:
        return str(field.enum_type.full_name)
    names = {value: name for name, value in vars(FieldDescriptor).items() if name.startswith("TYPE_")}
    return str(names[field.type]).removeprefix("TYPE_").lower()

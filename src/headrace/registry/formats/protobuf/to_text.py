"""A descriptor as a `.proto` file: always the same text for the same descriptor.

Types of the file's own package are named without it, all others with a leading dot: what they mean does not depend on where they
stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from google.protobuf import text_encoding, text_format
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
    UninterpretedOption,
)
from google.protobuf.message import Message

from headrace.registry.formats.protobuf.from_text import ENUM_MAX, FIELD_MAX, SCALARS

SCALAR_NAMES = {number: name for name, number in SCALARS.items()}
Naming = Callable[[str], str]


def text_of(file: FileDescriptorProto, *, absolute_names: bool = False) -> str:
    prefix = f".{file.package}." if file.package else "."

    def naming(name: str) -> str:
        return name if absolute_names or not name.startswith(prefix) else name.removeprefix(prefix)

    return "\n".join(_file(file, naming)) + "\n"


def _file(file: FileDescriptorProto, naming: Naming) -> Iterator[str]:
    yield f'syntax = "{file.syntax or "proto2"}";'
    if file.package:
        yield f"package {file.package};"
    if file.dependency:
        yield ""
    for index, name in enumerate(file.dependency):
        kind = "public " if index in file.public_dependency else "weak " if index in file.weak_dependency else ""
        yield f'import {kind}"{name}";'
    options = list(_options(file.options))
    if options:
        yield ""
        yield from (f"option {each};" for each in options)
    for enum in file.enum_type:
        yield from ("", *_enum(enum))
    for message in file.message_type:
        yield from ("", *_message(message, naming, file.syntax))
    yield from _extensions(file.extension, naming, file.syntax)
    for service in file.service:
        yield from ("", *_service(service, naming))


def _message(message: DescriptorProto, naming: Naming, syntax: str, head: str | None = None) -> Iterator[str]:
    yield f"{head or f'message {message.name}'} {{"
    yield from _indented(f"option {each};" for each in _options(message.options))
    yield from _indented(_reserved(message.reserved_range, message.reserved_name, FIELD_MAX, 1))
    for each in message.extension_range:
        yield f"  extensions {_range(each.start, each.end - 1, FIELD_MAX)};"
    yield from _indented(_members(message, naming, syntax))
    groups = {each.type_name.rpartition(".")[2] for each in message.field if each.type == FieldDescriptorProto.TYPE_GROUP}
    for enum in message.enum_type:
        yield from ("", *_indented(_enum(enum)))
    for nested in message.nested_type:
        if not nested.options.map_entry and nested.name not in groups:
            yield from ("", *_indented(_message(nested, naming, syntax)))
    yield from _indented(_extensions(message.extension, naming, syntax))
    yield "}"


def _members(message: DescriptorProto, naming: Naming, syntax: str) -> Iterator[str]:
    written: set[int] = set()
    for field in message.field:
        if not field.HasField("oneof_index") or field.proto3_optional:
            yield from _field(field, message, naming, syntax)
        elif field.oneof_index not in written:
            written.add(field.oneof_index)
            oneof = message.oneof_decl[field.oneof_index]
            yield f"oneof {oneof.name} {{"
            yield from _indented(f"option {each};" for each in _options(oneof.options))
            for each in message.field:
                if each.HasField("oneof_index") and each.oneof_index == field.oneof_index:
                    yield from _indented(_field(each, message, naming, syntax, in_oneof=True))
            yield "}"


def _field(
    field: FieldDescriptorProto, parent: DescriptorProto | None, naming: Naming, syntax: str, *, in_oneof: bool = False
) -> Iterator[str]:
    nested = {each.name: each for each in parent.nested_type} if parent is not None else {}
    own = nested.get(field.type_name.rpartition(".")[2])
    label = "" if in_oneof else _label(field, syntax)
    options = _field_options(field)
    tail = f" [{', '.join(options)}]" if options else ""
    if own is not None and own.options.map_entry and field.type == FieldDescriptorProto.TYPE_MESSAGE:
        key, value = own.field
        yield f"map<{_type(key, naming)}, {_type(value, naming)}> {field.name} = {field.number}{tail};"
    elif own is not None and field.type == FieldDescriptorProto.TYPE_GROUP:
        yield from _message(own, naming, syntax, head=f"{label}group {own.name} = {field.number}{tail}")
    else:
        yield f"{label}{_type(field, naming)} {field.name} = {field.number}{tail};"


def _label(field: FieldDescriptorProto, syntax: str) -> str:
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return "repeated "
    if field.label == FieldDescriptorProto.LABEL_REQUIRED:
        return "required "
    return "optional " if syntax != "proto3" or field.proto3_optional else ""


def _type(field: FieldDescriptorProto, naming: Naming) -> str:
    return SCALAR_NAMES.get(field.type) or naming(field.type_name)


def _field_options(field: FieldDescriptorProto) -> list[str]:
    options = list(_options(field.options))
    if field.HasField("default_value"):
        options.insert(0, f"default = {_default(field)}")
    if field.json_name and field.json_name != _camel(field.name):
        options.append(f'json_name = "{field.json_name}"')
    return options


def _default(field: FieldDescriptorProto) -> str:
    if field.type == FieldDescriptorProto.TYPE_STRING:
        return _quoted(field.default_value.encode())
    return f'"{field.default_value}"' if field.type == FieldDescriptorProto.TYPE_BYTES else field.default_value


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each[:1].upper() + each[1:] for each in others)


def _extensions(fields: Iterable[FieldDescriptorProto], naming: Naming, syntax: str) -> Iterator[str]:
    for field in fields:
        yield f"extend {naming(field.extendee)} {{"
        yield from _indented(_field(field, None, naming, syntax))
        yield "}"


def _enum(enum: EnumDescriptorProto) -> Iterator[str]:
    yield f"enum {enum.name} {{"
    yield from _indented(f"option {each};" for each in _options(enum.options))
    yield from _indented(_reserved(enum.reserved_range, enum.reserved_name, ENUM_MAX, 0))
    for value in enum.value:
        options = ", ".join(_options(value.options))
        yield f"  {value.name} = {value.number}{f' [{options}]' if options else ''};"
    yield "}"


def _service(service: ServiceDescriptorProto, naming: Naming) -> Iterator[str]:
    yield f"service {service.name} {{"
    yield from _indented(f"option {each};" for each in _options(service.options))
    for method in service.method:
        given = f"{'stream ' if method.client_streaming else ''}{naming(method.input_type)}"
        answered = f"{'stream ' if method.server_streaming else ''}{naming(method.output_type)}"
        options = [f"option {each};" for each in _options(method.options)]
        head = f"  rpc {method.name} ({given}) returns ({answered})"
        yield from (f"{head} {{", *_indented(_indented(options)), "  }") if options else (f"{head};",)
    yield "}"


def _reserved(ranges: Iterable[object], names: Iterable[str], largest: int, beyond: int) -> Iterator[str]:
    told = [_range(each.start, each.end - beyond, largest) for each in ranges]  # type: ignore[attr-defined]
    if told:
        yield f"reserved {', '.join(told)};"
    quoted = [f'"{each}"' for each in names]
    if quoted:
        yield f"reserved {', '.join(quoted)};"


def _range(first: int, last: int, largest: int) -> str:
    return str(first) if first == last else f"{first} to {'max' if last == largest else last}"


def _options(options: Message) -> Iterator[str]:
    for field, value in options.ListFields():
        if field.name == "uninterpreted_option":
            yield from (f"{_option_name(each)} = {_option_value(each)}" for each in value)
        elif field.is_extension or field.name in ("map_entry", "features"):
            continue
        else:
            for each in value if field.is_repeated else (value,):
                printed = text_format.MessageToString(
                    _alone(options, field.name, [each] if field.is_repeated else each), as_one_line=True, as_utf8=True
                )
                name, _, text = printed.partition(":") if field.message_type is None else printed.partition(" ")
                yield f"{name} = {text.strip()}"


def _alone(options: Message, name: str, value: object) -> Message:
    """The same kind of options, with this one only."""
    alone = type(options)()
    field = getattr(alone, name)
    if isinstance(value, list):
        field.extend(value)
    elif isinstance(value, Message):
        field.CopyFrom(value)
    else:
        setattr(alone, name, value)
    return alone


def _option_name(option: UninterpretedOption) -> str:
    return ".".join(f"({each.name_part})" if each.is_extension else each.name_part for each in option.name)


def _option_value(option: UninterpretedOption) -> str:
    if option.HasField("string_value"):
        return _quoted(option.string_value)
    if option.HasField("aggregate_value"):
        return f"{{ {option.aggregate_value} }}"
    for name in ("identifier_value", "positive_int_value", "negative_int_value", "double_value"):
        if option.HasField(name):
            return str(getattr(option, name))
    return '""'


def _quoted(value: bytes) -> str:
    return f'"{text_encoding.CEscape(value, as_utf8=True)}"'


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" if line else line for line in lines)

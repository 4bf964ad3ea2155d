"""A `.proto` file to its descriptor, before names are resolved: what `protoc` does first.

Names of types stay as they are written; the pool of descriptors resolves and checks them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

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
from proto_schema_parser import ast
from proto_schema_parser.parser import Parser

from headrace.registry.formats.schema import InvalidSchema

FIELD_MAX: Final = 536_870_911
ENUM_MAX: Final = 2_147_483_647
SCALARS: Final = {
    name: getattr(FieldDescriptorProto, f"TYPE_{name.upper()}")
    for name in (
        *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32"),
        *("sfixed64", "bool", "string", "bytes"),
    )
}
LABELS: Final = {
    ast.FieldCardinality.REQUIRED: FieldDescriptorProto.LABEL_REQUIRED,
    ast.FieldCardinality.REPEATED: FieldDescriptorProto.LABEL_REPEATED,
}


def descriptor_of(text: str) -> FileDescriptorProto:
    """The descriptor of a file; InvalidSchema when it cannot be read."""
    try:
        file = Parser().parse(text)
    except Exception as error:  # the parser's own errors have no common base
        raise InvalidSchema(str(error)) from None
    if file.edition is not None:
        raise InvalidSchema(f"edition {file.edition} is not supported; accepted: proto2 and proto3")
    described = FileDescriptorProto(name="default")
    if file.syntax == "proto3":
        described.syntax = "proto3"
    for element in file.file_elements:
        _file_element(described, element)
    return described


def _file_element(file: FileDescriptorProto, element: Any) -> None:
    match element:
        case ast.Package():
            file.package = element.name
        case ast.Import():
            if element.public:
                file.public_dependency.append(len(file.dependency))
            if element.weak:
                file.weak_dependency.append(len(file.dependency))
            file.dependency.append(element.name)
        case ast.Option():
            _option(file.options, element)
        case ast.Message():
            _message(file.message_type.add(), element.name, element.elements, file)
        case ast.Enum():
            _enum(file.enum_type.add(), element)
        case ast.Service():
            _service(file.service.add(), element)
        case ast.Extension():
            _extension(file.extension.add, file.message_type.add, element, file)
        case ast.Comment():
            pass
        case _:
            raise InvalidSchema(f"{type(element).__name__} is not supported")


def _message(message: DescriptorProto, name: str, elements: Iterable[Any], file: FileDescriptorProto) -> None:
    message.name = name
    for element in elements:
        match element:
            case ast.OneOf():
                _oneof(message, element, file)
            case ast.Message():
                _message(message.nested_type.add(), element.name, element.elements, file)
            case ast.Enum():
                _enum(message.enum_type.add(), element)
            case ast.Option():
                _option(message.options, element)
            case ast.Reserved():
                _reserved(message, element)
            case ast.ExtensionRange():
                for start, end in _ranges(element.ranges, FIELD_MAX):
                    message.extension_range.add(start=start, end=end + 1)
            case ast.Extension():
                _extension(message.extension.add, message.nested_type.add, element, file)
            case ast.Comment():
                pass
            case _:
                _member(message.field.add, message.nested_type.add, element, file)
    _number_optional_fields(message)


def _oneof(message: DescriptorProto, element: ast.OneOf, file: FileDescriptorProto) -> None:
    index = len(message.oneof_decl)
    oneof = message.oneof_decl.add(name=element.name)
    for each in element.elements:
        if isinstance(each, ast.Option):
            _option(oneof.options, each)
        elif not isinstance(each, ast.Comment):
            _member(message.field.add, message.nested_type.add, each, file).oneof_index = index


def _number_optional_fields(message: DescriptorProto) -> None:
    """What says `optional` in proto3 is the only member of a oneof that nobody wrote; these come after all others."""
    for field in message.field:
        if field.proto3_optional:
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")


def _member(
    add_field: Callable[[], FieldDescriptorProto],
    add_message: Callable[[], DescriptorProto],
    element: Any,
    file: FileDescriptorProto,
) -> FieldDescriptorProto:
    field = add_field()
    field.name, field.number = element.name, element.number
    field.label = LABELS.get(getattr(element, "cardinality", None), FieldDescriptorProto.LABEL_OPTIONAL)
    match element:
        case ast.Field():
            _set_type(field, element.type)
            if file.syntax == "proto3" and element.cardinality is ast.FieldCardinality.OPTIONAL:
                field.proto3_optional = True
        case ast.MapField():
            field.label = FieldDescriptorProto.LABEL_REPEATED
            field.type_name = _map_entry(add_message(), element)
        case ast.Group():
            field.name = element.name.lower()
            field.type, field.type_name = FieldDescriptorProto.TYPE_GROUP, element.name
            _message(add_message(), element.name, element.elements, file)
        case _:
            raise InvalidSchema(f"{type(element).__name__} is not supported in a message")
    for option in getattr(element, "options", ()):
        _field_option(field, option)
    return field


def _set_type(field: FieldDescriptorProto, name: str) -> None:
    if name in SCALARS:
        field.type = SCALARS[name]
    else:
        field.type_name = name


def _map_entry(entry: DescriptorProto, element: ast.MapField) -> str:
    entry.name = "".join(part[:1].upper() + part[1:] for part in element.name.split("_")) + "Entry"
    entry.options.map_entry = True
    for number, (name, kind) in enumerate((("key", element.key_type), ("value", element.value_type)), start=1):
        field = entry.field.add(name=name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
        _set_type(field, kind)
    return str(entry.name)


def _extension(
    add_field: Callable[[], FieldDescriptorProto],
    add_message: Callable[[], DescriptorProto],
    element: ast.Extension,
    file: FileDescriptorProto,
) -> None:
    for each in element.elements:
        if not isinstance(each, ast.Comment):
            _member(add_field, add_message, each, file).extendee = element.typeName


def _reserved(message: DescriptorProto, element: ast.Reserved) -> None:
    message.reserved_name.extend(element.names)
    for start, end in _ranges(element.ranges, FIELD_MAX):
        message.reserved_range.add(start=start, end=end + 1)


def _ranges(ranges: Iterable[str], largest: int) -> Iterable[tuple[int, int]]:
    """`5`, `5 to 7`, `5 to max`; both ends included."""
    for each in ranges:
        first, _, last = each.partition(" to ")
        yield int(first), largest if last == "max" else int(last or first)


def _enum(enum: EnumDescriptorProto, element: ast.Enum) -> None:
    enum.name = element.name
    for each in element.elements:
        match each:
            case ast.EnumValue():
                value = enum.value.add(name=each.name, number=each.number)
                for option in each.options:
                    _option(value.options, option)
            case ast.EnumReserved():
                enum.reserved_name.extend(each.names)
                for start, end in _ranges(each.ranges, ENUM_MAX):
                    enum.reserved_range.add(start=start, end=end)
            case ast.Option():
                _option(enum.options, each)


def _service(service: ServiceDescriptorProto, element: ast.Service) -> None:
    service.name = element.name
    for each in element.elements:
        if isinstance(each, ast.Option):
            _option(service.options, each)
        elif isinstance(each, ast.Method):
            method = service.method.add(name=each.name, input_type=each.input_type.type, output_type=each.output_type.type)
            method.client_streaming, method.server_streaming = each.input_type.stream, each.output_type.stream
            for option in each.elements:
                if isinstance(option, ast.Option):
                    _option(method.options, option)


def _field_option(field: FieldDescriptorProto, option: ast.Option) -> None:
    if option.name == "default":
        field.default_value = _default(field, option.value)
    elif option.name == "json_name":
        field.json_name = str(option.value)
    else:
        _option(field.options, option)


def _option(options: Message, option: ast.Option) -> None:
    """Those that Protobuf knows have a field of their own; the rest are kept as they are written."""
    if option.name in options.DESCRIPTOR.fields_by_name and option.name != "uninterpreted_option":
        try:
            text_format.Parse(f"{option.name}: {_literal(option.value)}", options)
            return
        except text_format.ParseError as error:
            raise InvalidSchema(f"option {option.name}: {error}") from None
    kept: UninterpretedOption = options.uninterpreted_option.add()
    for part in option.name.replace(").", ")\0").split("\0"):
        names = [part] if part.startswith("(") else part.split(".")
        for name in names:
            kept.name.add(name_part=name.strip("()"), is_extension=name.startswith("("))
    _set_value(kept, option.value)


def _set_value(kept: UninterpretedOption, value: Any) -> None:
    match value:
        case bool():
            kept.identifier_value = str(value).lower()
        case int() if value >= 0:
            kept.positive_int_value = value
        case int():
            kept.negative_int_value = value
        case float():
            kept.double_value = value
        case str():
            kept.string_value = text_encoding.CUnescape(value)
        case ast.Identifier():
            kept.identifier_value = value.name
        case _:
            kept.aggregate_value = _literal(value).removeprefix("{ ").removesuffix(" }")


def _literal(value: Any) -> str:
    """A value of an option, as it is written in a file."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f'"{text_encoding.CEscape(text_encoding.CUnescape(value), as_utf8=True)}"'
        case ast.Identifier():
            return str(value.name)
        case list():
            return "[" + ", ".join(map(_literal, value)) + "]"
        case ast.MessageLiteral():
            fields = (each for each in value.elements if isinstance(each, ast.MessageLiteralField))
            return "{ " + " ".join(f"{each.name}: {_literal(each.value)}" for each in fields) + " }"
    return str(value)


def _default(field: FieldDescriptorProto, value: Any) -> str:
    """A default as descriptors have it: texts as they are, bytes with escapes, and both without quotes."""
    if not isinstance(value, str):
        return _literal(value)
    return value if field.type == FieldDescriptorProto.TYPE_BYTES else text_encoding.CUnescape(value).decode()

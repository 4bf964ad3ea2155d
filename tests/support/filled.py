"""The smallest request of an API that names something in each of its lists, made from its declaration."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from headrace.wire.apis import ApiKey, messages_of
from headrace.wire.schema import ZERO_UUID, Scalar, Sized, WireType, array, boolean, fields_of, uuid


def filled(api: ApiKey, version: int, values: Mapping[str, Any]) -> Any:
    """`values` are for fields of that name, wherever they are; of the others, lists have one item and the rest is empty."""
    return _struct(messages_of(api).request, version, values)


def _struct(kind: type[Any], version: int, values: Mapping[str, Any]) -> Any:
    given = {}
    for field in fields_of(kind):
        if not field.in_version(version):
            continue
        if field.name in values:
            given[field.name] = values[field.name]
        elif field.default is None or isinstance(field.type, array):
            given[field.name] = _value(field.type, version, values)
    return kind(**given)


def _value(kind: WireType, version: int, values: Mapping[str, Any]) -> Any:
    match kind:
        case Scalar():
            return False if kind is boolean else ZERO_UUID if kind is uuid else 0
        case Sized():
            return "x" if kind.text else b""
        case array():
            return (_value(kind.element, version, values),)
        case _:
            return _struct(kind, version, values)


def error_codes(message: Any) -> Iterator[int]:
    """All that a reply has, wherever they are."""
    if isinstance(message, tuple):
        for item in message:
            yield from error_codes(item)
    elif is_dataclass(message):
        for each in fields(message):
            value = getattr(message, each.name)
            if each.name.endswith("error_code"):
                yield value
            else:
                yield from error_codes(value)

"""Avro schemas of Python classes: dataclasses and pydantic models, by their annotations; and their instances again.

`int` is long, `float` double, `X | None` a union that defaults to null, `datetime` a timestamp in microseconds; fields with a
default have it in the schema, so that a class can get fields and still read what was written before.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final, Literal, Union, get_args, get_origin
from uuid import UUID

from headrace.client.errors import InvalidArgument

PLAIN: Final[Mapping[Any, Any]] = {
    bool: "boolean",
    int: "long",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null",
    datetime: {"type": "long", "logicalType": "timestamp-micros"},
    date: {"type": "int", "logicalType": "date"},
    time: {"type": "long", "logicalType": "time-micros"},
    Decimal: {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 9},
    UUID: {"type": "string", "logicalType": "uuid"},
}
MISSING: Final = object()


def is_model(given: object) -> bool:
    """Whether it is a class that has fields: a dataclass, or a model of pydantic."""
    return isinstance(given, type) and (dataclasses.is_dataclass(given) or hasattr(given, "model_fields"))


def schema_of(model: type) -> Any:
    return _Describing().record(model)


def plain(value: Any) -> Any:
    """An instance as dicts and lists, as Avro's encoder takes them."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if hasattr(type(value), "model_fields"):
        return {name: plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    return value


def instance(kind: Any, value: Any) -> Any:
    """The value that a type stands for, made of what Avro's decoder gave."""
    if value is None:
        return None
    if is_model(kind):
        hints = typing.get_type_hints(kind)
        fields = {name: instance(hints[name], each) for name, each in value.items() if name in hints}
        return kind(**fields)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind[value]
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (list, set, frozenset, tuple) and inner:
        return origin(instance(inner[0], each) for each in value)
    if origin is dict:
        return {name: instance(inner[1], each) for name, each in value.items()}
    if origin in (Union, types.UnionType):
        models = [each for each in inner if each is not type(None)]
        return instance(models[0], value) if len(models) == 1 else value
    return value


class _Describing:
    """A named type is described where it comes first, and named after that."""

    def __init__(self) -> None:
        self._named: set[str] = set()

    def record(self, model: type) -> Any:
        if model.__name__ in self._named:
            return model.__name__
        self._named.add(model.__name__)
        hints = typing.get_type_hints(model)
        fields = [self._field(name, hints[name], default) for name, default in _defaults(model).items()]
        return {"type": "record", "name": model.__name__, "fields": fields}

    def _field(self, name: str, kind: Any, default: Any) -> dict[str, Any]:
        described = self._type(kind)
        if default is MISSING:
            return {"name": name, "type": described}
        told = plain(default)
        if isinstance(described, list) and told is not None:
            # The default of a union is of its first type.
            described = sorted(described, key=lambda each: each == "null")
        return {"name": name, "type": described, "default": _json(told)}

    def _type(self, kind: Any) -> Any:
        try:
            if kind in PLAIN:
                return PLAIN[kind]
        except TypeError:
            pass
        if is_model(kind):
            return self.record(kind)
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return self._enum(kind.__name__, [each.name for each in kind])
        origin, inner = get_origin(kind), get_args(kind)
        if origin is typing.Annotated:
            return self._type(inner[0])
        if origin is Literal and all(isinstance(each, str) for each in inner):
            return "string"
        if origin in (Union, types.UnionType):
            return sorted((self._type(each) for each in inner), key=lambda each: each != "null")
        if origin in (list, set, frozenset, tuple) and inner:
            return {"type": "array", "items": self._type(inner[0])}
        if origin is dict and inner[0] is str:
            return {"type": "map", "values": self._type(inner[1])}
        raise InvalidArgument(f"{kind!r} has no type in Avro; give the schema as a text or a dict")

    def _enum(self, name: str, symbols: list[str]) -> Any:
        if name in self._named:
            return name
        self._named.add(name)
        return {"type": "enum", "name": name, "symbols": symbols}


def _defaults(model: type) -> dict[str, Any]:
    """The fields of a class, each with its default, or MISSING."""
    if dataclasses.is_dataclass(model):
        return {field.name: _default_of(field.default, field.default_factory) for field in dataclasses.fields(model)}
    found: dict[str, Any] = {}
    for name, field in model.model_fields.items():  # type: ignore[attr-defined]
        found[name] = MISSING if field.is_required() else field.get_default(call_default_factory=True)
    return found


def _default_of(default: Any, factory: Any) -> Any:
    if default is not dataclasses.MISSING:
        return default
    return MISSING if factory is dataclasses.MISSING else factory()


def _json(value: Any) -> Any:
    """A default as schemas have it; what JSON cannot say is told by its nought."""
    return value.decode("latin-1") if isinstance(value, bytes) else value

"""Bodies as dataclasses: one declaration gives the reading of JSON with errors that name the field, and the JSON Schema.

Supported are str, int, float, bool, None, Any, Literal, list, dict with text keys, unions of these, and dataclasses.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from headrace.gateway.serving.problems import Problem, bad_request

Shape = TypeVar("Shape")
_PLAIN: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


class Described(dict[str, Any]):
    """What a field of a body is, and what JSON Schema says of its value.  Types that carry it are looked up, so it has a hash."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def described(text: str, *, example: Any = None, **schema: Any) -> Described:
    """For `Annotated`: what the field is, and `minimum`, `maxLength` and others of JSON Schema."""
    return Described(description=text, **({} if example is None else {"examples": [example]}), **schema)


@lru_cache(maxsize=512)
def _hints(shape: Any) -> dict[str, Any]:
    return get_type_hints(shape, include_extras=True)


# Reading


def read(shape: type[Shape], value: Any, at: str = "the body") -> Shape:
    """A JSON value as a shape.  Raises a Problem that names the field."""
    found: Shape = _read(shape, value, at)
    return found


def _read(shape: Any, value: Any, at: str) -> Any:
    if shape is Any:
        return value
    origin = get_origin(shape)
    if origin is Annotated:
        found = _read(get_args(shape)[0], value, at)
        _check(found, get_args(shape)[1], at)
        return found
    if origin in (Union, types.UnionType):
        return _read_union(get_args(shape), value, at)
    if origin is Literal:
        if value not in get_args(shape) or isinstance(value, bool):
            raise _wrong(at, f"one of {', '.join(map(str, get_args(shape)))}")
        return value
    if origin is list:
        if not isinstance(value, list):
            raise _wrong(at, "a list")
        (inner,) = get_args(shape)
        return [_read(inner, each, f"{at}[{index}]") for index, each in enumerate(value)]
    if origin is dict:
        if not isinstance(value, dict):
            raise _wrong(at, "an object")
        inner = get_args(shape)[1]
        return {name: _read(inner, each, f"{at}.{_short(name)}") for name, each in value.items()}
    if dataclasses.is_dataclass(shape):
        return _read_object(shape, value, at)
    return _read_plain(shape, value, at)


def _read_union(options: tuple[Any, ...], value: Any, at: str) -> Any:
    if value is None and type(None) in options:
        return None
    wanted = [option for option in options if option is not type(None)]
    for option in wanted[:-1]:
        try:
            return _read(option, value, at)
        except Problem:
            continue
    return _read(wanted[-1], value, at)


def _read_plain(shape: Any, value: Any, at: str) -> Any:
    if shape is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, shape) or (isinstance(value, bool) and shape is not bool):
        words = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
        raise _wrong(at, words[shape])
    return value


def _read_object(shape: Any, value: Any, at: str) -> Any:
    if not isinstance(value, dict):
        raise _wrong(at, "an object")
    fields = {field.name: field for field in dataclasses.fields(shape)}
    prefix = "" if at == "the body" else f"{at}."
    unknown = sorted(set(value) - set(fields))
    if unknown:
        raise bad_request(f"{_subject(at)} has a field that is not known; known: {', '.join(sorted(fields))}.")
    read_fields = {}
    for name, field in fields.items():
        if name in value:
            read_fields[name] = _read(_hints(shape)[name], value[name], f"{prefix}{name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise bad_request(f"{prefix}{name} is missing.")
    return shape(**read_fields)


def _check(value: Any, schema: Mapping[str, Any], at: str) -> None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value < schema.get("minimum", value):
            raise _wrong(at, f"at least {schema['minimum']}")
        if value > schema.get("maximum", value):
            raise _wrong(at, f"at most {schema['maximum']}")
    if isinstance(value, str):
        if len(value) < schema.get("minLength", 0):
            raise _wrong(at, "a text that is not empty")
        if len(value) > schema.get("maxLength", len(value)):
            raise _wrong(at, f"a text of at most {schema['maxLength']} letters")
    if isinstance(value, list) and not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        raise _wrong(at, f"a list of {schema.get('minItems', 0)} to {schema.get('maxItems', 'any number of')} things")


def _wrong(at: str, wanted: str) -> Problem:
    return bad_request(f"{_subject(at)} must be {wanted}.")


def _subject(at: str) -> str:
    """Names of fields stay as they are."""
    return "The body" if at == "the body" else at


def _short(name: str) -> str:
    return name if len(name) <= 40 and name.isprintable() else "…"


# JSON Schema


def schema_of(shape: Any, components: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema of a shape; those of dataclasses go into `components`."""
    if shape is Any:
        return {}
    if shape in _PLAIN:
        return {"type": _PLAIN[shape]}
    origin, arguments = get_origin(shape), get_args(shape)
    if origin is Annotated:
        return {**schema_of(arguments[0], components), **arguments[1]}
    if origin in (Union, types.UnionType):
        return _union_schema([schema_of(each, components) for each in arguments])
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is list:
        return {"type": "array", "items": schema_of(arguments[0], components)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(arguments[1], components)}
    if shape.__name__ not in components:
        components[shape.__name__] = {}  # it may contain itself
        components[shape.__name__] = _object_schema(shape, components)
    return {"$ref": f"#/components/schemas/{shape.__name__}"}


def _union_schema(options: list[dict[str, Any]]) -> dict[str, Any]:
    if all(set(option) == {"type"} for option in options):
        return {"type": [option["type"] for option in options]}
    return {"anyOf": options}


def _object_schema(shape: Any, components: dict[str, Any]) -> dict[str, Any]:
    properties, required = {}, []
    for field in dataclasses.fields(shape):
        schema = schema_of(_hints(shape)[field.name], components)
        properties[field.name] = schema
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            required.append(field.name)
    found: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        found["required"] = required
    if shape.__doc__ and not shape.__doc__.startswith(f"{shape.__name__}("):
        found["description"] = " ".join(shape.__doc__.split())
    return found

"""Hypothesis strategies that are derived from the declarations of the messages, and what a version keeps of a message."""

from dataclasses import replace
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from headrace.wire.apis import declared_keys, messages_of
from headrace.wire.schema import (
    ZERO_UUID,
    Field,
    Scalar,
    Sized,
    WireType,
    array,
    boolean,
    fields_of,
    float64,
    int8,
    int16,
    int32,
    int64,
    layout_of,
    string,
    uint16,
    uint32,
    uuid,
)

ALL_MESSAGES: list[type[Any]] = [message for key in sorted(declared_keys()) for message in messages_of(key)]

SCALARS: dict[Scalar, st.SearchStrategy[Any]] = {
    boolean: st.booleans(),
    int8: st.integers(-128, 127),
    int16: st.integers(-32768, 32767),
    uint16: st.integers(0, 65535),
    int32: st.integers(-(2**31), 2**31 - 1),
    uint32: st.integers(0, 2**32 - 1),
    int64: st.integers(-(2**63), 2**63 - 1),
    float64: st.floats(allow_nan=False),
    uuid: st.binary(min_size=16, max_size=16).map(lambda data: UUID(bytes=data)),
}
# The referees give some numbers a meaning (error codes, times) and refuse those that have none.
# Of tagged fields that only a broker and a client of Headrace know: beyond all that Kafka has given out.
OWN_TAGS = 10_000

TAME_ERROR_CODES = st.integers(-1, 100)
TAME_NUMBERS = {
    int8: st.integers(0, 3),
    int16: st.integers(0, 1000),
    int32: st.integers(0, 2**31 - 1),
    int64: st.integers(0, 2**40),
}
TEXT = st.text(st.sampled_from("abé中😀.-"), max_size=6)


def is_ours(field: Field) -> bool:
    """Whether Kafka's form of the message lacks it: a tagged field that nobody else reads or writes."""
    return field.tag is not None and field.tag >= OWN_TAGS


def messages(message: type[Any], *, tame: bool = False) -> st.SearchStrategy[Any]:
    """Messages with every field of every version set to something."""
    parts = {field.name: _values(field, tame) for field in fields_of(message)}
    return st.fixed_dictionaries(parts).map(lambda values: message(**values))


def _values(field: Field, tame: bool) -> st.SearchStrategy[Any]:
    if tame and is_ours(field):
        assert field.default is not None
        return st.just(field.default())
    if tame and field.name.endswith("error_code"):
        return TAME_ERROR_CODES
    values = _of_type(field.type, tame)
    return values if field.nullable_since is None else st.none() | values


def _of_type(wire_type: WireType, tame: bool) -> st.SearchStrategy[Any]:
    match wire_type:
        case Scalar():
            return TAME_NUMBERS.get(wire_type, SCALARS[wire_type]) if tame else SCALARS[wire_type]
        case Sized():
            return TEXT if wire_type is string else st.binary(max_size=6)
        case array():
            return st.lists(_of_type(wire_type.element, tame), max_size=2).map(tuple)
        case _:
            return messages(wire_type, tame=tame)


def versions_of(message: type[Any]) -> range:
    """The declared versions."""
    return layout_of(message).versions


def kept_by(message: Any, version: int) -> Any:
    """The message as a reader of this version sees it: what the version lacks has its default, a forbidden null is empty."""
    changes: dict[str, Any] = {}
    for field in fields_of(type(message)):
        value = getattr(message, field.name)
        if not field.in_version(version):
            assert field.default is not None
            changes[field.name] = field.default()
        elif value is None:
            changes[field.name] = None if field.nullable_in(version) else empty_value(field.type)
        elif isinstance(field.type, type):
            changes[field.name] = kept_by(value, version)
        elif isinstance(field.type, array) and isinstance(field.type.element, type):
            changes[field.name] = tuple(kept_by(item, version) for item in value)
    return replace(message, **changes)


def empty_value(wire_type: WireType) -> Any:
    """The empty value of a wire type."""
    if isinstance(wire_type, array):
        return ()
    if isinstance(wire_type, Sized):
        return "" if wire_type.text else b""
    return ZERO_UUID if wire_type is uuid else 0

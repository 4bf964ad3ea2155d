"""Limits of single values: whether one schema's are at least as wide as another's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def number_limits(reader: Mapping[str, Any], writer: Mapping[str, Any]) -> Iterator[str]:
    yield from _not_above(reader, writer, "minimum")
    yield from _not_below(reader, writer, "maximum")
    yield from _exclusive(reader, writer)
    ours, theirs = reader.get("multipleOf"), writer.get("multipleOf")
    if ours is not None and (theirs is None or (theirs % ours and abs(theirs / ours - round(theirs / ours)) > 1e-9)):
        yield f"'multipleOf' is {ours} now"


def string_limits(reader: Mapping[str, Any], writer: Mapping[str, Any]) -> Iterator[str]:
    yield from _not_above(reader, writer, "minLength")
    yield from _not_below(reader, writer, "maxLength")
    if "pattern" in reader and reader["pattern"] != writer.get("pattern"):
        yield f"'pattern' is '{reader['pattern']}' now"


def array_limits(reader: Mapping[str, Any], writer: Mapping[str, Any]) -> Iterator[str]:
    yield from _not_above(reader, writer, "minItems")
    yield from _not_below(reader, writer, "maxItems")
    if reader.get("uniqueItems") and not writer.get("uniqueItems"):
        yield "'uniqueItems' is demanded now"


def contains_limits(reader: Mapping[str, Any], writer: Mapping[str, Any]) -> Iterator[str]:
    yield from _not_above({"minContains": 1, **reader}, {"minContains": 1, **writer}, "minContains")
    yield from _not_below(reader, writer, "maxContains")


def object_limits(reader: Mapping[str, Any], writer: Mapping[str, Any]) -> Iterator[str]:
    yield from _not_above(reader, writer, "minProperties")
    yield from _not_below(reader, writer, "maxProperties")


def _exclusive(reader: Mapping[str, Any], writer: Mapping[str, Any]) -> Iterator[str]:
    """A number since draft 6; in draft 4 a flag beside `minimum` or `maximum`."""
    for name, plain, check in (("exclusiveMinimum", "minimum", _not_above), ("exclusiveMaximum", "maximum", _not_below)):
        ours, theirs = reader.get(name), writer.get(name)
        if isinstance(ours, bool) or isinstance(theirs, bool):
            if ours and not theirs and reader.get(plain) == writer.get(plain):
                yield f"'{name}' is demanded now"
        else:
            yield from check(reader, writer, name)


def _not_above(reader: Mapping[str, Any], writer: Mapping[str, Any], name: str) -> Iterator[str]:
    ours, theirs = reader.get(name), writer.get(name)
    if ours and (theirs is None or theirs < ours):
        yield f"'{name}' rose from {_number(theirs)} to {ours}"
    elif ours == 0 and name in ("minimum", "exclusiveMinimum") and (theirs is None or theirs < 0):
        yield f"'{name}' rose from {_number(theirs)} to 0"


def _not_below(reader: Mapping[str, Any], writer: Mapping[str, Any], name: str) -> Iterator[str]:
    ours, theirs = reader.get(name), writer.get(name)
    if ours is not None and (theirs is None or theirs > ours):
        yield f"'{name}' fell from {_number(theirs)} to {ours}"


def _number(limit: Any) -> str:
    return "none" if limit is None else str(limit)

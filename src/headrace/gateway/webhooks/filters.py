"""Which records a subscription wants: conditions on the key, on headers, and on fields of a JSON value.  All must hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import orjson

from headrace.gateway.api.shapes import described
from headrace.gateway.serving.problems import bad_request
from headrace.records.record import Record

CONDITIONS_MAX: Final = 50
MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class Condition:
    """What a value has to be.  Keys and headers are texts."""

    equals: Any = None
    one_of: Annotated[list[Any] | None, described("One of these.", maxItems=1000)] = None
    prefix: Annotated[str | None, described("A text that begins so.")] = None
    exists: Annotated[bool | None, described("Whether it is there at all.")] = None
    above: Annotated[float | None, described("A number above this.")] = None
    below: Annotated[float | None, described("A number below this.")] = None

    def holds(self, value: Any) -> bool:
        if self.exists is not None and self.exists != (value is not MISSING):
            return False
        if self.equals is not None and value != self.equals:
            return False
        if self.one_of is not None and value not in self.one_of:
            return False
        if self.prefix is not None and not (isinstance(value, str) and value.startswith(self.prefix)):
            return False
        if self.above is not None and not (_is_number(value) and value > self.above):
            return False
        return self.below is None or (_is_number(value) and value < self.below)


@dataclass(frozen=True, slots=True)
class Filter:
    """Records for which all conditions hold."""

    key: Annotated[Condition | None, described("Of the key, as text.")] = None
    headers: Annotated[dict[str, Condition], described("Of headers, by name.")] = field(default_factory=dict)
    fields: Annotated[dict[str, Condition], described("Of a JSON value, by JSON pointer.", example={"/total": {"above": 10}})] = (
        field(default_factory=dict)
    )

    def check(self) -> None:
        """Raises a Problem."""
        if len(self.headers) + len(self.fields) > CONDITIONS_MAX:
            raise bad_request(f"A filter has {CONDITIONS_MAX} conditions at most.")
        if any(not name.startswith("/") for name in self.fields):
            raise bad_request("Fields are named by JSON pointers, such as /customer/id.")

    def wants(self, record: Record) -> bool:
        if self.key is not None and not self.key.holds(_text(record.key)):
            return False
        if self.headers:
            last = {name: _text(value) for name, value in record.headers}
            if not all(condition.holds(last.get(name, MISSING)) for name, condition in self.headers.items()):
                return False
        if not self.fields:
            return True
        try:
            value = orjson.loads(record.value or b"null")
        except orjson.JSONDecodeError:
            value = MISSING
        return all(condition.holds(_pointed(value, pointer)) for pointer, condition in self.fields.items())


def _text(raw: bytes | None) -> Any:
    return MISSING if raw is None else raw.decode(errors="replace")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _pointed(value: Any, pointer: str) -> Any:
    """RFC 6901."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return MISSING
    return value

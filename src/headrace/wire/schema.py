"""The words in which messages are declared: wire types, version gates, tags.

A message is a frozen, slotted, keyword-only dataclass.  Each field is annotated with its Python type and its wire type, in
the order of the wire:

    name: Annotated[str | None, string, Since(1)] = None

- `| None` in the Python type says that the field may be null on the wire; `NullableSince(n)` limits that to versions from n on.
- `Since(n)` and `Until(n)` name the first and the last version that carry the field.  A field that some version lacks has a
  default: that is what a reader of such a version gets.
- `Tagged(n)` moves the field into the tagged section of flexible versions.  It is left out there when it has its default value.
- A nested struct is named by its class, an array by `array(element)`.
"""

from collections.abc import Callable, Hashable
from dataclasses import MISSING, fields
from functools import cache
from types import NoneType
from typing import Annotated, Any, Final, NamedTuple, cast, get_args, get_origin, get_type_hints
from uuid import UUID

from headrace.declaring import dataclass

Buffer = bytes | bytearray | memoryview
"""What carries record batches; they are never looked into here, and never copied without need."""

ZERO_UUID: Final = UUID(int=0)
"""The topic id of a topic that is known by its name only."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A wire type of fixed size, named after the protocol's; `code` is its letter in the `struct` module."""

    name: str
    code: str
    size: int


@dataclass(frozen=True, slots=True)
class Sized:
    """A run of bytes behind a length: a string (16-bit length in inflexible versions) or bytes (32-bit length)."""

    name: str
    text: bool


@dataclass(frozen=True, slots=True)
class array:
    """A sequence of elements behind their count."""

    element: "WireType"


WireType = Scalar | Sized | array | type

boolean: Final = Scalar("bool", "?", 1)
int8: Final = Scalar("int8", "b", 1)
int16: Final = Scalar("int16", "h", 2)
uint16: Final = Scalar("uint16", "H", 2)
int32: Final = Scalar("int32", "i", 4)
uint32: Final = Scalar("uint32", "I", 4)
int64: Final = Scalar("int64", "q", 8)
float64: Final = Scalar("float64", "d", 8)
uuid: Final = Scalar("uuid", "16s", 16)
string: Final = Sized("string", text=True)
binary: Final = Sized("bytes", text=False)
batches: Final = Sized("records", text=False)


@dataclass(frozen=True, slots=True)
class Since:
    """The first version that carries the field."""

    version: int


@dataclass(frozen=True, slots=True)
class Until:
    """The last version that carries the field."""

    version: int


@dataclass(frozen=True, slots=True)
class NullableSince:
    """The first version in which the field may be null on the wire."""

    version: int


@dataclass(frozen=True, slots=True)
class Tagged:
    """The field travels in the tagged section under this number."""

    tag: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The versions of a message whose layout is known, and the first flexible one among them (compact lengths, tagged fields)."""

    versions: range
    flexible_from: int | None = None

    def is_flexible(self, version: int) -> bool:
        """Whether this version has compact lengths and tagged fields."""
        return self.flexible_from is not None and version >= self.flexible_from


@dataclass(frozen=True, slots=True, kw_only=True)
class Api(Layout):
    """The layout that a request and its response share, and the key under which the request is sent."""

    key: int


def layout_of(message: type) -> Layout:
    """What a message declares as `api: ClassVar[Api]`, and what has no API key, such as a log entry, as `layout`."""
    found = getattr(message, "api", None) or getattr(message, "layout", None)
    if not isinstance(found, Layout):
        raise TypeError(f"{message.__name__} is not a message: it has neither an api nor a layout")
    return found


class Field(NamedTuple):
    """One declared field, in the form that the codec works from."""

    name: str
    type: WireType
    since: int
    until: int
    nullable_since: int | None
    tag: int | None
    default: Callable[[], Any] | None

    def in_version(self, version: int) -> bool:
        """Whether this version carries the field at all."""
        return self.since <= version <= self.until

    def nullable_in(self, version: int) -> bool:
        """Whether null is a legal value in this version."""
        return self.nullable_since is not None and version >= self.nullable_since


LAST_VERSION: Final = 32767


def fields_of(message: type[Any]) -> tuple[Field, ...]:
    """The declared fields of a message or struct, in wire order."""
    return _fields_of(cast(Hashable, message))


@cache
def _fields_of(message: Any) -> tuple[Field, ...]:
    hints = get_type_hints(message, include_extras=True)
    return tuple(_read_field(message, item, hints[item.name]) for item in fields(message))


def _read_field(message: type, item: Any, hint: Any) -> Field:
    if get_origin(hint) is not Annotated:
        raise TypeError(f"{message.__name__}.{item.name} has no wire type")
    python_type, wire_type, *marks = get_args(hint)
    gates = {type(mark): mark for mark in marks}
    since = gates[Since].version if Since in gates else 0
    until = gates[Until].version if Until in gates else LAST_VERSION
    nullable_since = None
    if NoneType in get_args(python_type):
        nullable_since = gates[NullableSince].version if NullableSince in gates else since
    tag = gates[Tagged].tag if Tagged in gates else None
    return Field(item.name, wire_type, since, until, nullable_since, tag, _default_of(item))


def _default_of(item: Any) -> Callable[[], Any] | None:
    if item.default is not MISSING:
        value = item.default
        return lambda: value
    if item.default_factory is not MISSING:
        factory: Callable[[], Any] = item.default_factory
        return factory
    return None

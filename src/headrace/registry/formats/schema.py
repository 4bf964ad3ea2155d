"""Schemas that have been read, whatever language they are in, and reading them.

Always: the canonical text of a schema, read again, is the same schema with the same canonical text.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final, NamedTuple, Protocol

from headrace.registry.rules.entries import AVRO, JSON, PROTOBUF

# Schemas stay read, since reading a large one takes long, as long as their texts together have no more characters than this.
PARSED_CHARACTERS_MAX: Final = 8_000_000
SCHEMA_BYTES_MAX = 1_000_000
TOO_DEEP: Final = "it is nested too deeply"


class InvalidSchema(Exception):
    """A text that is no schema, and why."""


class MissingLibrary(Exception):
    """This format needs a package that is not installed."""


class Schema(Protocol):
    """One schema, read and checked."""

    @property
    def schema_type(self) -> str: ...

    @property
    def canonical(self) -> str:
        """The text under which it is kept: two that differ only in how they are written have the same."""

    def normalized(self) -> str:
        """A text that is the same also for those that differ in the order of what has no order."""

    def formatted(self, form: str) -> str:
        """The text in another form that the format has; its canonical text where it has none of that name."""

    def problems_reading(self, writer: Schema) -> list[str]:
        """Why somebody with this schema could not read what was written with the other."""


class Named(NamedTuple):
    """A schema that another one refers to, by the name it uses for it."""

    name: str
    text: str


Parser = Callable[[str, tuple[Named, ...]], Schema]
_PARSERS: Mapping[str, tuple[str, str]] = {
    AVRO: ("headrace.registry.formats.avro", "avro"),
    JSON: ("headrace.registry.formats.json_schema.schema", "jsonschema-rs"),
    PROTOBUF: ("headrace.registry.formats.protobuf.schema", "proto-schema-parser and protobuf"),
}


def parse(schema_type: str, text: str, referenced: tuple[Named, ...] = ()) -> Schema:
    """Read a schema; `referenced` are all that it refers to, also indirectly, each after those that it needs itself."""
    key = (schema_type, text, referenced)
    found = _kept.get(key)
    if found is None:
        found = _parsed(schema_type, text, referenced)
        _kept.put(key, found)
    return found


def _parsed(schema_type: str, text: str, referenced: tuple[Named, ...]) -> Schema:
    home, packages = _PARSERS[schema_type]
    try:
        parser: Parser = import_module(home).parse
    except ImportError as error:
        raise MissingLibrary(f"{schema_type} needs {packages}: pip install 'headrace[schemas]' ({error})") from None
    try:
        schema = parser(text, referenced)
        schema.canonical.encode()
    except RecursionError:
        raise InvalidSchema(TOO_DEEP) from None
    except UnicodeEncodeError:
        raise InvalidSchema("it has half a character: an escape from \\ud800 to \\udfff that is not one of a pair") from None
    return schema


Key = tuple[str, str, tuple[Named, ...]]


class Kept:
    """Schemas that were read, those used last; counted by the characters of their texts and of all that they refer to."""

    def __init__(self, characters_max: int) -> None:
        self._characters_max = characters_max
        self._lock = threading.Lock()
        self._schemas: OrderedDict[Key, Schema] = OrderedDict()
        self.characters = 0

    def get(self, key: Key) -> Schema | None:
        with self._lock:
            found = self._schemas.get(key)
            if found is not None:
                self._schemas.move_to_end(key)
            return found

    def put(self, key: Key, schema: Schema) -> None:
        with self._lock:
            if key not in self._schemas:
                self.characters += _characters(key)
            self._schemas[key] = schema
            while self.characters > self._characters_max:
                oldest, _ = self._schemas.popitem(last=False)
                self.characters -= _characters(oldest)


def _characters(key: Key) -> int:
    _, text, referenced = key
    return len(text) + sum(len(each.text) for each in referenced)


_kept = Kept(PARSED_CHARACTERS_MAX)

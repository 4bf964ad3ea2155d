"""Schemas that have been read, whatever language they are in, and reading them.

Always: the canonical text of a schema, read again, is the same schema with the same canonical text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from typing import NamedTuple, Protocol

from headrace.registry.rules.entries import AVRO, JSON, PROTOBUF

PARSED_MAX = 2000  # schemas that stay read; reading a large one costs tens of milliseconds
SCHEMA_BYTES_MAX = 1_000_000


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


@lru_cache(PARSED_MAX)
def parse(schema_type: str, text: str, referenced: tuple[Named, ...] = ()) -> Schema:
    """Read a schema; `referenced` are all that it refers to, also indirectly, each after those that it needs itself."""
    home, packages = _PARSERS[schema_type]
    try:
        parser: Parser = import_module(home).parse
    except ImportError as error:
        raise MissingLibrary(f"{schema_type} needs {packages}: pip install 'headrace[schemas]' ({error})") from None
    return parser(text, referenced)

"""What the registry knows, as values: schemas, their versions, and what changes of them are written down."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Self
from uuid import UUID

import orjson

AVRO: Final = "AVRO"
JSON: Final = "JSON"
PROTOBUF: Final = "PROTOBUF"
SCHEMA_TYPES: Final = (AVRO, JSON, PROTOBUF)
ID_MAX: Final = 2**31 - 1

Json = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A name in one schema that another schema explains."""

    name: str
    subject: str
    version: int

    def as_json(self) -> dict[str, Json]:
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True, kw_only=True)
class Content:
    """What an id stands for.  `kept` are fields that mean nothing here (`metadata`, `ruleSet`) and are given back."""

    schema_type: str = AVRO
    text: str
    references: tuple[Reference, ...] = ()
    kept: Mapping[str, Json] = field(default_factory=dict)

    @cached_property
    def identity(self) -> str:
        """The same for the same content, and for no other."""
        told = [self.schema_type, self.text, [each.as_json() for each in self.references], dict(self.kept)]
        return hashlib.sha256(orjson.dumps(told, option=orjson.OPT_SORT_KEYS)).hexdigest()

    @property
    def guid(self) -> str:
        """A name for the content, the same in every registry, also in Confluent's where nothing is `kept`."""
        told = hashlib.md5(self.text.encode(), usedforsecurity=False)
        for each in self.references:
            told.update(each.name.encode() + each.subject.encode() + each.version.to_bytes(4, "big"))
        if self.kept:
            told.update(b"\1" + orjson.dumps(dict(self.kept), option=orjson.OPT_SORT_KEYS))
        return str(UUID(bytes=told.digest()))

    def with_text(self, text: str) -> Content:
        return replace(self, text=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaVersion:
    """A schema under a subject.  `unknown` are fields of its record that another registry wrote."""

    subject: str
    version: int
    id: int
    content: Content
    deleted: bool = False
    unknown: Mapping[str, Json] = field(default_factory=dict)

    def as_deleted(self) -> Self:
        return replace(self, deleted=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRemoved:
    """A version is gone for good."""

    subject: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectDeleted:
    """Every version of a subject up to this one is soft deleted."""

    subject: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectCleared:
    """What was soft deleted below a subject is forgotten; None for all."""

    subject: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigSet:
    """Settings of a subject, of a context (`:.ctx:`) or of all (None); None takes them away."""

    subject: str | None
    settings: Mapping[str, Json] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeSet:
    """Likewise its mode."""

    subject: str | None
    mode: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSet:
    """A context is there, or is no more."""

    context: str
    present: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class IdsGiven:
    """The largest id of each context that was ever given: one that was hard deleted and compacted away must not come again."""

    largest: Mapping[str, int]


Entry = SchemaVersion | VersionRemoved | SubjectDeleted | SubjectCleared | ConfigSet | ModeSet | ContextSet | IdsGiven

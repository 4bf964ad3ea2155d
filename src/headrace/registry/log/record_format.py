"""The records of the topic `_schemas`: keys and values in JSON, byte for byte as Confluent's registry writes its keys.

Always: what one registry wrote, the other reads.  The topic is compacted by key, so the order of a key's fields counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, assert_never

import orjson

from headrace.registry.rules.entries import (
    AVRO,
    ConfigSet,
    Content,
    ContextSet,
    Entry,
    IdsGiven,
    ModeSet,
    Reference,
    SchemaVersion,
    SubjectCleared,
    SubjectDeleted,
    VersionRemoved,
)

KNOWN: Final = frozenset(("subject", "version", "id", "schemaType", "references", "schema", "deleted"))
KEPT: Final = ("metadata", "ruleSet")
IDS: Final = "largestIds"


class Unreadable(Exception):
    """A record that no registry wrote."""


def record_of(entry: Entry) -> tuple[bytes, bytes | None]:
    """The key and the value of an entry's record."""
    match entry:
        case SchemaVersion():
            return _schema_key(entry.subject, entry.version), _json(_schema_value(entry))
        case VersionRemoved():
            return _schema_key(entry.subject, entry.version), None
        case SubjectDeleted():
            value = {"subject": entry.subject, "version": entry.version}
            return _key("DELETE_SUBJECT", entry.subject), _json(value)
        case SubjectCleared():
            return _key("CLEAR_SUBJECT", entry.subject), _json(_without_none({"subject": entry.subject}))
        case ConfigSet():
            config = None if entry.settings is None else _json(_without_none({"subject": entry.subject, **entry.settings}))
            return _key("CONFIG", entry.subject), config
        case ModeSet():
            mode = None if entry.mode is None else _json(_without_none({"subject": entry.subject, "mode": entry.mode}))
            return _key("MODE", entry.subject), mode
        case ContextSet():
            named = {"tenant": "default", "context": entry.context}
            return _json({"keytype": "CONTEXT", **named, "magic": 0}), _json(named) if entry.present else None
        case IdsGiven():
            # Other registries pass over a NOOP, whatever its value is.
            return _json({"keytype": "NOOP", "magic": 0}), _json({IDS: dict(entry.largest)})
        case _:
            assert_never(entry)


def read(key: bytes | None, value: bytes | None) -> Entry | None:
    """The entry of a record; None for one that says nothing to us."""
    try:
        name = orjson.loads(key or b"")
        told = None if value is None else orjson.loads(value)
        entry = _entry(name, told)
        _check_types(entry)
        return entry
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from None


def _check_types(entry: Entry | None) -> None:
    """Whoever may write the topic may write anything; what is applied to the catalog must not fail there."""
    match entry:
        case SchemaVersion(subject=str(), version=int(), id=int(), content=Content(schema_type=str(), text=str())):
            if not all(isinstance(each.subject, str) and isinstance(each.version, int) for each in entry.content.references):
                raise TypeError("a reference is no name and number")
        case VersionRemoved(subject=str(), version=int()) | SubjectDeleted(subject=str(), version=int()):
            pass
        case ConfigSet(subject=str() | None) | ModeSet(subject=str() | None, mode=str() | None):
            pass
        case SubjectCleared(subject=str() | None) | ContextSet(context=str()) | IdsGiven() | None:
            pass
        case _:
            raise TypeError(f"a {type(entry).__name__} has a field of the wrong type")


def _entry(key: Mapping[str, Any], value: Mapping[str, Any] | None) -> Entry | None:
    subject = key.get("subject")
    match key["keytype"]:
        case "SCHEMA" if value is None:
            return VersionRemoved(subject=key["subject"], version=key["version"])
        case "SCHEMA":
            assert value is not None
            return _schema(key, value)
        case "DELETE_SUBJECT" if value is not None:
            return SubjectDeleted(subject=key["subject"], version=value["version"])
        case "CLEAR_SUBJECT" if value is not None:
            return SubjectCleared(subject=subject)
        case "CONFIG":
            settings = None if value is None else {name: each for name, each in value.items() if name != "subject"}
            return ConfigSet(subject=subject, settings=settings)
        case "MODE":
            return ModeSet(subject=subject, mode=None if value is None else value["mode"])
        case "CONTEXT":
            return ContextSet(context=key["context"], present=value is not None)
        case "NOOP" if value and IDS in value:
            return IdsGiven(largest={str(context): int(id) for context, id in value[IDS].items()})
    return None


def _schema(key: Mapping[str, Any], value: Mapping[str, Any]) -> SchemaVersion:
    references = tuple(
        Reference(name=each["name"], subject=each["subject"], version=each["version"]) for each in value.get("references") or ()
    )
    kept = {name: value[name] for name in KEPT if value.get(name) is not None}
    content = Content(schema_type=value.get("schemaType") or AVRO, text=value["schema"], references=references, kept=kept)
    return SchemaVersion(
        subject=key["subject"],
        version=key["version"],
        id=value["id"],
        content=content,
        deleted=bool(value.get("deleted")),
        unknown={name: each for name, each in value.items() if name not in KNOWN and name not in KEPT},
    )


def _schema_value(entry: SchemaVersion) -> dict[str, Any]:
    content = entry.content
    told: dict[str, Any] = {"subject": entry.subject, "version": entry.version, "id": entry.id}
    if content.schema_type != AVRO:
        told["schemaType"] = content.schema_type
    if content.references:
        told["references"] = [each.as_json() for each in content.references]
    return {**told, **content.kept, **entry.unknown, "schema": content.text, "deleted": entry.deleted}


def _schema_key(subject: str, version: int) -> bytes:
    return _json({"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1})


def _key(keytype: str, subject: str | None) -> bytes:
    return _json(_without_none({"keytype": keytype, "subject": subject, "magic": 0}))


def _without_none(told: Mapping[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in told.items() if each is not None}


def _json(told: Mapping[str, Any]) -> bytes:
    return orjson.dumps(told)

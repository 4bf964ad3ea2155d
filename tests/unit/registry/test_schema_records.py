"""The records of `_schemas`: what one registry wrote, the other reads."""

import orjson
import pytest

from headrace.registry.log.record_format import Unreadable, read, record_of
from headrace.registry.rules.entries import (
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

EVERY_ENTRY: list[Entry] = [
    SchemaVersion(subject="a", version=1, id=3, content=Content(text='"int"')),
    SchemaVersion(
        subject=":.ctx:a",
        version=2,
        id=4,
        content=Content(
            schema_type="JSON",
            text="{}",
            references=(Reference(name="r", subject="s", version=1),),
            kept={"metadata": {"properties": {"owner": "ann"}}, "ruleSet": {"domainRules": [{"name": "r"}]}},
        ),
        deleted=True,
        unknown={"md5": "xyz", "ts": 5},
    ),
    VersionRemoved(subject="a", version=1),
    SubjectDeleted(subject="a", version=7),
    SubjectCleared(subject=None),
    ConfigSet(subject=None, settings={"compatibilityLevel": "FULL"}),
    ConfigSet(subject="a", settings=None),
    ModeSet(subject="a", mode="READONLY"),
    ModeSet(subject=None, mode=None),
    ContextSet(context=".ctx", present=True),
    ContextSet(context=".ctx", present=False),
    IdsGiven(largest={".": 5, ".ctx": 1}),
]


@pytest.mark.parametrize("entry", EVERY_ENTRY, ids=lambda entry: type(entry).__name__)
def test_what_is_written_is_read(entry: Entry) -> None:
    assert read(*record_of(entry)) == entry


def test_keys_have_the_bytes_that_confluents_registry_writes() -> None:
    """The topic is compacted by them: with other bytes, old records would stay."""
    assert record_of(EVERY_ENTRY[0])[0] == b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}'
    assert record_of(ConfigSet(subject=None, settings={}))[0] == b'{"keytype":"CONFIG","magic":0}'
    assert record_of(ModeSet(subject="a", mode=None))[0] == b'{"keytype":"MODE","subject":"a","magic":0}'
    assert record_of(SubjectDeleted(subject="a", version=1))[0] == b'{"keytype":"DELETE_SUBJECT","subject":"a","magic":0}'
    assert record_of(IdsGiven(largest={}))[0] == b'{"keytype":"NOOP","magic":0}'


def test_what_another_registry_wrote_is_kept_when_it_is_written_again() -> None:
    value = {"subject": "a", "version": 1, "id": 1, "md5": "x", "schema": '"int"', "deleted": False, "future": [1]}
    entry = read(b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}', orjson.dumps(value))

    assert isinstance(entry, SchemaVersion)
    again = record_of(entry.as_deleted())[1]
    assert again is not None
    assert orjson.loads(again) == {**value, "deleted": True}


def test_records_that_say_nothing_to_a_registry_are_passed_over() -> None:
    assert read(b'{"keytype":"NOOP","magic":0}', None) is None
    assert read(b'{"keytype":"ASSOC","magic":0}', b"{}") is None


@pytest.mark.parametrize("key", [None, b"", b"plain", b"[]", b"{}", b'{"keytype":"SCHEMA"}'])
def test_a_record_that_no_registry_wrote_is_told_apart(key: bytes | None) -> None:
    with pytest.raises(Unreadable):
        read(key, b"{}")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ({"keytype": "SCHEMA", "subject": "a", "version": "1"}, {"id": 1, "schema": "int"}),
        ({"keytype": "SCHEMA", "subject": "a", "version": 1}, {"id": "1", "schema": "int"}),
        ({"keytype": "SCHEMA", "subject": ["a"], "version": 1}, {"id": 1, "schema": "int"}),
        (
            {"keytype": "SCHEMA", "subject": "a", "version": 1},
            {"id": 1, "schema": "int", "references": [{"name": "r", "subject": 5, "version": 1}]},
        ),
        ({"keytype": "DELETE_SUBJECT", "subject": "a"}, {"version": "7"}),
        ({"keytype": "CONTEXT", "context": ["a"]}, {}),
        ({"keytype": "MODE", "subject": "a"}, {"mode": 5}),
    ],
)
def test_a_record_with_fields_of_the_wrong_type_is_told_apart(key: dict[str, object], value: dict[str, object]) -> None:
    """It would fail where it is applied, and all that came with it would be lost."""
    with pytest.raises(Unreadable):
        read(orjson.dumps(key), orjson.dumps(value))

"""All schemas, as the log has told them so far.

Always: an id means one content within a context, and is never given again.  Threads may look while one applies: what is looked
at is replaced, never changed (a subject's versions are a new dict each time).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, assert_never

from headrace.registry.rules.entries import (
    ConfigSet,
    ContextSet,
    Entry,
    IdsGiven,
    ModeSet,
    SchemaVersion,
    SubjectCleared,
    SubjectDeleted,
    VersionRemoved,
)
from headrace.registry.rules.subjects import DEFAULT_CONTEXT, GLOBAL_CONTEXT, beside, context_of

SubjectVersion = tuple[str, int]  # a subject and a version
NOTHING: Mapping[int, SchemaVersion] = {}


class Catalog:
    def __init__(self) -> None:
        self.subjects: dict[str, Mapping[int, SchemaVersion]] = {}
        self.configs: dict[str | None, Mapping[str, Any]] = {}
        self.modes: dict[str | None, str] = {}
        self.contexts: set[str] = {DEFAULT_CONTEXT}
        self.largest_ids: dict[str, int] = {}
        self._places: dict[str, dict[int, tuple[SubjectVersion, ...]]] = {}  # by context and id
        self._ids: dict[str, dict[str, int]] = {}  # by context and the identity of the content
        self._referrers: dict[SubjectVersion, frozenset[SubjectVersion]] = {}

    # Looking

    def versions(self, subject: str, *, deleted: bool = False) -> list[SchemaVersion]:
        """Those of a subject, the oldest first."""
        every = self.subjects.get(subject, NOTHING)
        return [every[number] for number in sorted(every) if deleted or not every[number].deleted]

    def version(self, subject: str, number: int) -> SchemaVersion | None:
        return self.subjects.get(subject, NOTHING).get(number)

    def places_of(self, context: str, id: int) -> tuple[SubjectVersion, ...]:
        return self._places.get(context, {}).get(id, ())

    def by_id(self, context: str, id: int) -> SchemaVersion | None:
        """One of the versions with this id; all of them have the same content."""
        for place in self.places_of(context, id):
            if (found := self.version(*place)) is not None:
                return found
        return None

    def id_of(self, context: str, identity: str) -> int | None:
        return self._ids.get(context, {}).get(identity)

    def referrers(self, subject: str, version: int, *, deleted: bool) -> list[SchemaVersion]:
        """Who refers to a version, in order."""
        places = sorted(self._referrers.get((subject, version), frozenset()))
        found = [self.version(*place) for place in places]
        return [each for each in found if each is not None and (deleted or not each.deleted)]

    def every_context(self) -> list[str]:
        return sorted(self.contexts.copy())

    def every_subject(self) -> list[str]:
        return sorted(self.subjects.copy())

    def counts(self) -> tuple[int, int, int]:
        """How many subjects, versions and ids there are."""
        subjects = self.subjects.copy()
        ids = sum(map(len, self._ids.copy().values()))
        return len(subjects), sum(map(len, subjects.values())), ids

    # Changing

    def apply(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._apply(entry)

    def _apply(self, entry: Entry) -> None:
        match entry:
            case SchemaVersion():
                self._remove(entry.subject, entry.version)
                self._add(entry)
            case VersionRemoved():
                self._remove(entry.subject, entry.version)
            case SubjectDeleted():
                self._soft_delete(entry)
            case SubjectCleared():
                self._clear(entry.subject)
            case ConfigSet():
                _put(self.configs, entry.subject, entry.settings)
            case ModeSet():
                _put(self.modes, entry.subject, entry.mode)
            case ContextSet():
                (self.contexts.add if entry.present else self.contexts.discard)(entry.context)
            case IdsGiven():
                for context, largest in entry.largest.items():
                    self._note_id(context, largest)
            case _:
                assert_never(entry)

    def _add(self, entry: SchemaVersion) -> None:
        place, context = (entry.subject, entry.version), context_of(entry.subject)
        self.subjects[entry.subject] = {**self.subjects.get(entry.subject, NOTHING), entry.version: entry}
        places = self._places.setdefault(context, {})
        places[entry.id] = (*places.get(entry.id, ()), place)
        self._ids.setdefault(context, {}).setdefault(entry.content.identity, entry.id)
        for target in _targets(entry):
            self._referrers[target] = self._referrers.get(target, frozenset()) | {place}
        if context != GLOBAL_CONTEXT:
            self.contexts.add(context)
        self._note_id(context, entry.id)

    def _remove(self, subject: str, number: int) -> None:
        gone = self.version(subject, number)
        if gone is None:
            return
        place, context = (subject, number), context_of(subject)
        left = {version: entry for version, entry in self.subjects[subject].items() if version != number}
        if left:
            self.subjects[subject] = left
        else:
            del self.subjects[subject]
        places = tuple(each for each in self.places_of(context, gone.id) if each != place)
        if places:
            self._places[context][gone.id] = places
        else:
            del self._places[context][gone.id]
            if self._ids[context].get(gone.content.identity) == gone.id:
                del self._ids[context][gone.content.identity]
        for target in _targets(gone):
            self._referrers[target] = self._referrers[target] - {place}

    def _soft_delete(self, entry: SubjectDeleted) -> None:
        every = self.subjects.get(entry.subject)
        if every is not None:
            self.subjects[entry.subject] = {
                number: version.as_deleted() if number <= entry.version else version for number, version in every.items()
            }

    def _clear(self, subject: str | None) -> None:
        for each in self._within(subject):
            for version in self.versions(each, deleted=True):
                if version.deleted:
                    self._remove(each, version.version)

    def _within(self, subject: str | None) -> Iterator[str]:
        for each in self.every_subject():
            if subject is None or each == subject or (subject.endswith(":") and each.startswith(subject)):
                yield each

    def _note_id(self, context: str, id: int) -> None:
        self.largest_ids[context] = max(self.largest_ids.get(context, 0), id)


def _put(table: dict[str | None, Any], subject: str | None, value: object) -> None:
    if value is None:
        table.pop(subject, None)
    else:
        table[subject] = value


def _targets(entry: SchemaVersion) -> set[SubjectVersion]:
    return {(beside(entry.subject, each.subject), each.version) for each in entry.content.references}

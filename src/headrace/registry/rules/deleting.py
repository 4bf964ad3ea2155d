"""Deleting: softly, so that ids and versions stay known, and for good.

Always: what somebody refers to is not deleted; only what is soft deleted is deleted for good.
"""

from __future__ import annotations

from headrace.registry.rules.catalog import Catalog
from headrace.registry.rules.decision import Decision
from headrace.registry.rules.entries import (
    ConfigSet,
    ContextSet,
    Entry,
    IdsGiven,
    ModeSet,
    SchemaVersion,
    SubjectDeleted,
    VersionRemoved,
)
from headrace.registry.rules.errors import (
    context_not_empty,
    still_referenced,
    subject_is_not_soft_deleted,
    subject_is_soft_deleted,
    subject_not_found,
    version_is_not_soft_deleted,
    version_is_soft_deleted,
    version_not_found,
)
from headrace.registry.rules.settings import check_writable, within
from headrace.registry.rules.subjects import DEFAULT_CONTEXT, prefix_of


def delete_version(catalog: Catalog, subject: str, number: int, *, permanent: bool) -> Decision[int]:
    found = _existing(catalog, subject, number, permanent=permanent)
    check_writable(catalog, subject)
    if not permanent and found.deleted:
        raise version_is_soft_deleted(subject, found.version)
    _check_unreferenced(catalog, found, deleted=permanent, own_too=True)
    if not permanent:
        return Decision((found.as_deleted(),), found.version)
    if not found.deleted:
        raise version_is_not_soft_deleted(subject, found.version)
    left = len(catalog.versions(subject, deleted=True)) - 1
    settings = () if left else _settings_of(catalog, subject)
    removed = VersionRemoved(subject=subject, version=found.version)
    return Decision((_ids(catalog), removed, *settings), found.version)


def delete_subject(catalog: Catalog, subject: str, *, permanent: bool) -> Decision[list[int]]:
    every = catalog.versions(subject, deleted=True)
    if not every:
        raise subject_not_found(subject)
    check_writable(catalog, subject)
    versions = every if permanent else catalog.versions(subject)
    if not versions:
        raise subject_is_soft_deleted(subject)
    for each in versions:
        _check_unreferenced(catalog, each, deleted=permanent, own_too=False)
    numbers = [each.version for each in versions]
    if not permanent:
        return Decision((SubjectDeleted(subject=subject, version=numbers[-1]),), numbers)
    if any(not each.deleted for each in versions):
        raise subject_is_not_soft_deleted(subject)
    # The newest first: versions may refer to older ones of the same subject.
    removed = [VersionRemoved(subject=subject, version=number) for number in reversed(numbers)]
    return Decision((_ids(catalog), *removed, *_settings_of(catalog, subject)), numbers)


def delete_context(catalog: Catalog, context: str) -> Decision[None]:
    prefix = prefix_of(context)
    if any(within(each, prefix or None) for each in catalog.every_subject()):
        raise context_not_empty(context)
    if context == DEFAULT_CONTEXT or context not in catalog.contexts:
        return Decision((), None)
    return Decision((*_settings_of(catalog, prefix), ContextSet(context=context, present=False)), None)


def _existing(catalog: Catalog, subject: str, number: int, *, permanent: bool) -> SchemaVersion:
    every = catalog.versions(subject, deleted=True)
    if not every:
        raise subject_not_found(subject)
    if number == -1:
        shown = every if permanent else catalog.versions(subject)
        if not shown:
            raise version_not_found(number)
        return shown[-1]
    found = catalog.version(subject, number)
    if found is None:
        raise version_not_found(number)
    return found


def _check_unreferenced(catalog: Catalog, version: SchemaVersion, *, deleted: bool, own_too: bool) -> None:
    users = catalog.referrers(version.subject, version.version, deleted=deleted)
    others = [each for each in users if own_too or each.subject != version.subject]
    if others:
        raise still_referenced(version.subject, version.version, (f"'{each.subject}' version {each.version}" for each in others))


def _ids(catalog: Catalog) -> Entry:
    return IdsGiven(largest=dict(catalog.largest_ids))


def _settings_of(catalog: Catalog, subject: str) -> list[Entry]:
    entries: list[Entry] = []
    if subject in catalog.modes:
        entries.append(ModeSet(subject=subject, mode=None))
    if subject in catalog.configs:
        entries.append(ConfigSet(subject=subject, settings=None))
    return entries

"""Compatibility levels and modes: what counts for a subject, and changing it.

A subject has its own settings, or those of its context, or the global ones, or the defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from headrace.registry.rules.catalog import Catalog
from headrace.registry.rules.compatibility import DEFAULT_LEVEL, LEVELS
from headrace.registry.rules.decision import Decision
from headrace.registry.rules.entries import ConfigSet, Entry, Json, ModeSet, SubjectCleared, VersionRemoved
from headrace.registry.rules.errors import (
    invalid_compatibility,
    invalid_mode,
    invalid_request,
    invalid_subject,
    no_compatibility_of_its_own,
    no_mode_of_its_own,
    not_permitted,
    still_referenced,
    subject_not_found,
)
from headrace.registry.rules.subjects import DEFAULT_CONTEXT, GLOBAL_PREFIX, context_of, parsed, prefix_of, valid

READWRITE: Final = "READWRITE"
IMPORT: Final = "IMPORT"
FORWARD: Final = "FORWARD"
READONLY: Final = ("READONLY", "READONLY_OVERRIDE")
MODES: Final = (READWRITE, *READONLY, IMPORT, FORWARD)
TAKES_IDS: Final = (IMPORT, FORWARD)
# Fields of a config that mean something only elsewhere: they are kept and given back.
CONFIG_FIELDS: Final = (
    *("alias", "aliasForDeks", "normalize", "validateFields", "validateNewSchemas", "validateRules", "compatibilityLevel"),
    *("compatibilityPolicy", "compatibilityGroup", "defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet"),
)
T = TypeVar("T")


def config_in_scope(catalog: Catalog, subject: str | None) -> Mapping[str, Json]:
    """What counts for a subject, with its compatibility level in any case."""
    own = catalog.configs.get(subject)
    if own is not None and subject is not None and "compatibilityLevel" not in own:
        own = {**own, "compatibilityLevel": config_in_scope(catalog, None)["compatibilityLevel"]}
    found = own if own is not None else _outer(catalog.configs, subject)
    return {"compatibilityLevel": DEFAULT_LEVEL, **(found or {})}


def mode_in_scope(catalog: Catalog, subject: str | None) -> str:
    return catalog.modes.get(subject) or _outer(catalog.modes, subject) or READWRITE


def _outer(table: Mapping[str | None, T], subject: str | None) -> T | None:
    """The settings of the context around a subject, else the global ones."""
    context = DEFAULT_CONTEXT if subject is None else context_of(subject)
    around = table.get(None if context == DEFAULT_CONTEXT else prefix_of(context))
    return around if around is not None else table.get(GLOBAL_PREFIX)


def own_config(catalog: Catalog, subject: str) -> Mapping[str, Json]:
    found = catalog.configs.get(subject)
    if found is None:
        raise no_compatibility_of_its_own(subject)
    return config_in_scope(catalog, subject)


def own_mode(catalog: Catalog, subject: str) -> str:
    found = catalog.modes.get(subject)
    if found is None:
        raise no_mode_of_its_own(subject)
    return found


def set_config(catalog: Catalog, subject: str | None, given: Mapping[str, Json]) -> Decision[Mapping[str, Json]]:
    """Change the fields that are given; what is None is taken away."""
    _check_name(subject)
    check_writable(catalog, subject)
    change = {("compatibilityLevel" if key == "compatibility" else key): value for key, value in given.items()}
    unknown = sorted(change.keys() - set(CONFIG_FIELDS))
    if unknown:
        raise invalid_request(f"'{unknown[0]}' is not a field of a config; accepted: {', '.join(CONFIG_FIELDS)}")
    level = change.get("compatibilityLevel")
    if level is not None:
        change["compatibilityLevel"] = str(level).upper()
        if change["compatibilityLevel"] not in LEVELS:
            raise invalid_compatibility(level, LEVELS)
    if not isinstance(change.get("normalize", False), bool | None):
        raise invalid_request("'normalize' is true or false")
    merged = {**catalog.configs.get(subject, {}), **change}
    settings = {key: value for key, value in merged.items() if value is not None}
    return Decision((ConfigSet(subject=subject, settings=settings),), given)


def delete_config(catalog: Catalog, subject: str | None) -> Decision[Mapping[str, Json]]:
    check_writable(catalog, subject)
    before = catalog.configs.get(subject)
    if before is None and subject is not None:
        raise subject_not_found(subject)
    return Decision((ConfigSet(subject=subject, settings=None),), config_in_scope(catalog, subject))


def set_mode(catalog: Catalog, subject: str | None, given: object, *, force: bool) -> Decision[str]:
    _check_name(subject)
    mode = str(given).upper()
    if mode not in MODES:
        raise invalid_mode(given, MODES)
    if mode == FORWARD and subject is not None:
        raise not_permitted("The mode FORWARD is set for all subjects at once; leave the subject away.")
    entries: list[Entry] = []
    if mode == IMPORT and mode_in_scope(catalog, subject) != IMPORT and not force:
        entries += _emptied(catalog, subject)
    return Decision((*entries, ModeSet(subject=subject, mode=mode)), mode)


def delete_mode(catalog: Catalog, subject: str | None, *, recursive: bool) -> Decision[str]:
    before = catalog.modes.get(subject)
    if before is None and subject is not None:
        raise subject_not_found(subject)
    inner = [each for each in list(catalog.modes) if recursive and each is not None and within(each, subject)]
    entries = tuple(ModeSet(subject=each, mode=None) for each in (subject, *(each for each in inner if each != subject)))
    return Decision(entries, before or READWRITE)


def check_writable(catalog: Catalog, subject: str | None) -> None:
    if mode_in_scope(catalog, subject) in READONLY:
        raise not_permitted(f"{_named(subject)} is in read-only mode; set its mode to READWRITE first.")


def within(subject: str, scope: str | None) -> bool:
    """Whether a subject is the one meant, or in the context meant; None means the default context, the global one all."""
    if scope is None:
        return context_of(subject) == DEFAULT_CONTEXT
    if scope == GLOBAL_PREFIX:
        return True
    return subject == scope or (not parsed(scope).name and context_of(subject) == context_of(scope))


def _emptied(catalog: Catalog, subject: str | None) -> list[Entry]:
    """Ids that come with the schemas must not meet others: nothing may be left, not even what is soft deleted."""
    subjects = [each for each in catalog.every_subject() if within(each, subject)]
    alive = [each for each in subjects if catalog.versions(each)]
    if alive:
        raise not_permitted(f"The mode IMPORT needs an empty registry, and subject '{alive[0]}' exists; set force=true to go on.")
    removed: list[Entry] = []
    for each in subjects:
        for version in catalog.versions(each, deleted=True):
            users = catalog.referrers(each, version.version, deleted=True)
            if users:
                raise still_referenced(each, version.version, (f"'{user.subject}' version {user.version}" for user in users))
            removed.append(VersionRemoved(subject=each, version=version.version))
    return [*removed, SubjectCleared(subject=subject)]


def _check_name(subject: str | None) -> None:
    if subject is not None and not valid(subject, for_settings=True):
        raise invalid_subject(subject)


def _named(subject: str | None) -> str:
    return "The registry" if subject is None else f"Subject '{subject}'"

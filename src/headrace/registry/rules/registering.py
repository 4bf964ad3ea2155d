"""Schemas under subjects: registering them, and finding them again by their content.

Always: the same content has one id within a context, whatever the subject; a new one gets the next that was never given.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.registry.formats.schema import Schema
from headrace.registry.rules.catalog import Catalog
from headrace.registry.rules.compatibility import Earlier, problems
from headrace.registry.rules.decision import Decision
from headrace.registry.rules.entries import ID_MAX, Content, ContextSet, Entry, SchemaVersion, VersionRemoved
from headrace.registry.rules.errors import (
    incompatible,
    invalid_schema,
    invalid_subject,
    not_permitted,
    schema_not_found,
    subject_not_found,
)
from headrace.registry.rules.reading import canonical, read_version
from headrace.registry.rules.settings import TAKES_IDS, check_writable, config_in_scope, mode_in_scope
from headrace.registry.rules.subjects import context_of, valid


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A request to register; ids and versions are given only by those who copy another registry."""

    subject: str
    content: Content
    id: int | None = None
    version: int | None = None
    normalize: bool = False
    force: bool = False  # whatever the compatibility level says


def register(catalog: Catalog, wanted: Registration) -> Decision[SchemaVersion]:
    subject = wanted.subject
    if not valid(subject):
        raise invalid_subject(subject)
    content, _ = kept_as(catalog, wanted)
    found = _registered(catalog, subject, content, deleted=False)
    if found is not None and wanted.id in (None, found.id) and wanted.version in (None, found.version):
        return Decision((), found)

    _check_mode(catalog, wanted)
    imports = mode_in_scope(catalog, subject) in TAKES_IDS
    if not imports and not wanted.force:
        _check_compatible(catalog, wanted, content)
    version = SchemaVersion(
        subject=subject,
        version=_version(catalog, wanted, free=imports),
        id=_id(catalog, wanted, content),
        content=content,
    )
    return Decision((*_context(catalog, subject), *_replaced(catalog, version), version), version)


def look_up(catalog: Catalog, wanted: Registration, *, deleted: bool) -> SchemaVersion:
    """The version of a subject that has this content."""
    if not catalog.versions(wanted.subject, deleted=deleted):
        raise subject_not_found(wanted.subject)
    content, _ = kept_as(catalog, wanted)
    found = _registered(catalog, wanted.subject, content, deleted=deleted)
    if found is None:
        raise schema_not_found()
    return found


def compatibility_problems(catalog: Catalog, wanted: Registration, against: list[SchemaVersion]) -> list[str]:
    """Why a schema could not follow these versions of its subject."""
    content, schema = kept_as(catalog, wanted)
    earlier = [Earlier(each.version, read_version(catalog, each), each.content.kept) for each in against]
    return problems(schema, content.kept, earlier, config_in_scope(catalog, wanted.subject))


def kept_as(catalog: Catalog, wanted: Registration) -> tuple[Content, Schema]:
    normalize = wanted.normalize or bool(config_in_scope(catalog, wanted.subject).get("normalize"))
    return canonical(catalog, wanted.subject, wanted.content, normalize=normalize)


def _registered(catalog: Catalog, subject: str, content: Content, *, deleted: bool) -> SchemaVersion | None:
    """The newest version with this content."""
    versions = catalog.versions(subject, deleted=deleted)
    return next((each for each in reversed(versions) if each.content.identity == content.identity), None)


def _check_mode(catalog: Catalog, wanted: Registration) -> None:
    check_writable(catalog, wanted.subject)
    mode = mode_in_scope(catalog, wanted.subject)
    if wanted.id is not None and mode not in TAKES_IDS:
        raise not_permitted(f"Subject '{wanted.subject}' is not in import mode, in which an id may be given.")
    if wanted.id is None and mode in TAKES_IDS:
        raise not_permitted(f"Subject '{wanted.subject}' is in {mode.lower()} mode, in which an id must be given.")


def _check_compatible(catalog: Catalog, wanted: Registration, content: Content) -> None:
    subject = wanted.subject
    found = compatibility_problems(catalog, Registration(subject=subject, content=content), catalog.versions(subject))
    if found:
        raise incompatible(subject, (*found, f"the level is {config_in_scope(catalog, subject)['compatibilityLevel']}"))


def _version(catalog: Catalog, wanted: Registration, *, free: bool) -> int:
    following = max((each.version for each in catalog.versions(wanted.subject, deleted=True)), default=0) + 1
    if wanted.version is None or wanted.version == following or free:
        return wanted.version or following
    raise invalid_schema(f"version {wanted.version} is not the next one of subject '{wanted.subject}', which is {following}")


def _id(catalog: Catalog, wanted: Registration, content: Content) -> int:
    context = context_of(wanted.subject)
    same = catalog.id_of(context, content.identity)
    if wanted.id is None:
        following = catalog.largest_ids.get(context, 0) + 1
        if same is None and following > ID_MAX:
            raise not_permitted(f"All ids of context '{context}' are given.")
        return following if same is None else same
    taken = catalog.by_id(context, wanted.id)
    if taken is not None and taken.content.identity != content.identity:
        raise not_permitted(f"Id {wanted.id} of context '{context}' is that of another schema.")
    return wanted.id


def _context(catalog: Catalog, subject: str) -> list[Entry]:
    context = context_of(subject)
    return [] if context in catalog.contexts else [ContextSet(context=context, present=True)]


def _replaced(catalog: Catalog, new: SchemaVersion) -> list[Entry]:
    """A soft deleted version with the same id gives way to the new one, unless somebody refers to it."""
    return [
        VersionRemoved(subject=each.subject, version=each.version)
        for each in catalog.versions(new.subject, deleted=True)
        if each.deleted
        and each.id == new.id
        and each.version < new.version
        and not catalog.referrers(each.subject, each.version, deleted=True)
    ]

"""Schemas out of the catalog as their formats read them: with all that they refer to."""

from __future__ import annotations

from typing import Final

from headrace.registry.formats.schema import SCHEMA_BYTES_MAX, InvalidSchema, Named, Schema, parse
from headrace.registry.rules.catalog import Catalog, SubjectVersion
from headrace.registry.rules.entries import SCHEMA_TYPES, Content, SchemaVersion
from headrace.registry.rules.errors import invalid_schema, schema_too_large
from headrace.registry.rules.subjects import beside

REFERENCES_DEEP_MAX: Final = 200


def read(catalog: Catalog, subject: str, content: Content) -> Schema:
    """A schema of a subject, or one that wants to be; refused when it is not valid."""
    if content.schema_type not in SCHEMA_TYPES:
        raise invalid_schema(f"'{content.schema_type}' is not a type of schema; accepted: {', '.join(SCHEMA_TYPES)}")
    if len(content.text) > SCHEMA_BYTES_MAX:
        raise schema_too_large(len(content.text), SCHEMA_BYTES_MAX)
    if not content.text.strip():
        raise invalid_schema("it is empty")
    try:
        return parse(content.schema_type, content.text, tuple(referenced(catalog, subject, content).values()))
    except InvalidSchema as error:
        raise invalid_schema(str(error)) from None


def canonical(catalog: Catalog, subject: str, content: Content, *, normalize: bool) -> tuple[Content, Schema]:
    """The content as it is kept, and read."""
    schema = read(catalog, subject, content)
    text = schema.normalized() if normalize else schema.canonical
    if text == content.text:
        return content, schema
    kept = content.with_text(text)
    return kept, read(catalog, subject, kept)


def read_version(catalog: Catalog, version: SchemaVersion) -> Schema:
    return read(catalog, version.subject, version.content)


def referenced(catalog: Catalog, subject: str, content: Content) -> dict[str, Named]:
    """All that a schema refers to, also indirectly, by the names it uses; each after those that it needs itself."""
    found: dict[str, Named] = {}
    _refer(catalog, subject, content, found, done=set(), above=())
    return found


def _refer(
    catalog: Catalog,
    subject: str,
    content: Content,
    found: dict[str, Named],
    *,
    done: set[SubjectVersion],
    above: tuple[SubjectVersion, ...],
) -> None:
    """Each place is gone through once, however many refer to it."""
    for each in content.references:
        place = (beside(subject, each.subject), each.version)
        target = catalog.version(*place)
        if target is None:
            raise invalid_schema(
                f"it refers to '{each.name}', version {each.version} of subject '{place[0]}', which does not exist"
            )
        if place in above:
            raise invalid_schema(f"its references go in a circle through subject '{place[0]}'")
        if len(above) >= REFERENCES_DEEP_MAX:
            raise invalid_schema(f"its references go through more than {REFERENCES_DEEP_MAX} others, one after the other")
        if place not in done:
            _refer(catalog, place[0], target.content, found, done=done, above=(*above, place))
            done.add(place)
        found.setdefault(each.name, Named(each.name, target.content.text))

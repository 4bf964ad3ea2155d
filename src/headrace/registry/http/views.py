"""What the registry answers about a schema, with Confluent's names; what is empty is left away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from headrace.registry.rules.catalog import Catalog
from headrace.registry.rules.entries import AVRO, ID_MAX, SCHEMA_TYPES, Content, Reference, SchemaVersion
from headrace.registry.rules.errors import invalid_request, invalid_schema
from headrace.registry.rules.reading import read
from headrace.registry.rules.registering import Registration

KEPT = ("metadata", "ruleSet")


def content_given(given: Mapping[str, Any]) -> Content:
    """The schema of a request's body."""
    text = given.get("schema")
    if not isinstance(text, str):
        raise invalid_schema("the body has no text 'schema'")
    schema_type = given.get("schemaType") or AVRO
    if schema_type not in SCHEMA_TYPES:
        raise invalid_schema(f"'{schema_type}' is not a type of schema; accepted: {', '.join(SCHEMA_TYPES)}")
    references = given.get("references") or []
    if not isinstance(references, list):
        raise invalid_request("'references' is not a list")
    kept = {name: given[name] for name in KEPT if given.get(name) is not None}
    return Content(schema_type=schema_type, text=text, references=tuple(map(_reference, references)), kept=kept)


def registration(subject: str, given: Mapping[str, Any], *, normalize: bool, force: bool = False) -> Registration:
    return Registration(
        subject=subject,
        content=content_given(given),
        id=_positive(given, "id"),
        version=_positive(given, "version"),
        normalize=normalize,
        force=force,
    )


def schema_string(catalog: Catalog, version: SchemaVersion, form: str) -> dict[str, Any]:
    """A schema by its id: what it is, without where it is."""
    content = version.content
    told: dict[str, Any] = {"schema": formatted(catalog, version, form), "guid": content.guid}
    if content.schema_type != AVRO:
        told["schemaType"] = content.schema_type
    if content.references:
        told["references"] = [each.as_json() for each in content.references]
    return {**told, **content.kept}


def schema_version(catalog: Catalog, version: SchemaVersion, form: str) -> dict[str, Any]:
    """A schema under its subject."""
    told = {"subject": version.subject, "version": version.version, "id": version.id, **schema_string(catalog, version, form)}
    return {**told, "deleted": True} if version.deleted else told


def formatted(catalog: Catalog, version: SchemaVersion, form: str) -> str:
    return read(catalog, version.subject, version.content).formatted(form) if form else version.content.text


def form_of(request: web.Request) -> str:
    return request.query.get("format", "")


def _reference(given: Any) -> Reference:
    try:
        name, subject, version = given["name"], given["subject"], given["version"]
    except (KeyError, TypeError):
        raise invalid_request("a reference has 'name', 'subject' and 'version'") from None
    if not (isinstance(name, str) and isinstance(subject, str) and type(version) is int):
        raise invalid_request("a reference has a 'name' and a 'subject', which are texts, and a 'version', which is a number")
    return Reference(name=name, subject=subject, version=version)


def _positive(given: Mapping[str, Any], name: str) -> int | None:
    value = given.get(name)
    if value is None or value in (0, -1):
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= ID_MAX:
        raise invalid_request(f"'{name}' is not a number from 1 to {ID_MAX}")
    return value

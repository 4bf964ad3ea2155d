"""`/schemas`: by id, by guid, and all of them."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from headrace.registry.http.answers import answer, flag, page
from headrace.registry.http.requests import looked_up
from headrace.registry.http.views import form_of, formatted, schema_string, schema_version
from headrace.registry.rules.catalog import Catalog
from headrace.registry.rules.entries import SCHEMA_TYPES, SchemaVersion
from headrace.registry.rules.errors import RegistryError, schema_not_found
from headrace.registry.rules.subjects import DEFAULT_CONTEXT, EVERY_CONTEXT, context_of, normal, parsed


def id_of(request: web.Request) -> int:
    try:
        return int(request.match_info["id"])
    except ValueError:
        raise RegistryError(404, f"'{request.match_info['id']}' is not an id") from None


def found_by_id(catalog: Catalog, request: web.Request) -> SchemaVersion:
    """In the context of the `subject` that is given along; else in the default one."""
    id, subject = id_of(request), normal(request.query.get("subject", ""))
    context = context_of(subject)
    found = catalog.by_id(context, id)
    if found is None and subject and context == DEFAULT_CONTEXT:
        # Clients that know only a subject's bare name ask for its schema wherever it is.
        others = (each for each in catalog.every_context() if (each, id) and catalog.by_id(each, id) is not None)
        named = (
            catalog.by_id(each, id)
            for each in others
            if any(parsed(place).name == subject for place, _ in catalog.places_of(each, id))
        )
        found = next(named, None)
    if found is None:
        raise schema_not_found(id)
    return found


async def by_id(request: web.Request) -> web.Response:
    def look(catalog: Catalog) -> dict[str, Any]:
        found = found_by_id(catalog, request)
        told = schema_string(catalog, found, form_of(request))
        if flag(request, "fetchMaxId"):
            told["maxId"] = catalog.largest_ids[context_of(found.subject)]
        return told

    return answer(await looked_up(request, look))


async def text_by_id(request: web.Request) -> web.Response:
    text = await looked_up(request, lambda catalog: formatted(catalog, found_by_id(catalog, request), form_of(request)))
    return web.Response(text=text, content_type="application/vnd.schemaregistry.v1+json")


def _places(catalog: Catalog, request: web.Request) -> list[SchemaVersion]:
    found = found_by_id(catalog, request)
    wanted = request.query.get("subject")
    name = parsed(normal(wanted)).name if wanted else ""
    versions = [catalog.version(*place) for place in catalog.places_of(context_of(found.subject), found.id)]
    shown = [each for each in versions if each is not None and (flag(request, "deleted") or not each.deleted)]
    return [each for each in shown if not name or parsed(each.subject).name == name]


async def subjects_of_id(request: web.Request) -> web.Response:
    versions = await looked_up(request, lambda catalog: _places(catalog, request))
    return answer(page(request, sorted({each.subject for each in versions})))


async def versions_of_id(request: web.Request) -> web.Response:
    versions = await looked_up(request, lambda catalog: _places(catalog, request))
    told = [{"subject": each.subject, "version": each.version} for each in versions]
    return answer(page(request, sorted(told, key=lambda each: (each["subject"], each["version"]))))


def _with_guid(catalog: Catalog, guid: str) -> list[SchemaVersion]:
    subjects = catalog.every_subject()
    found = [each for name in subjects for each in catalog.versions(name, deleted=True) if each.content.guid == guid]
    if not found:
        raise schema_not_found(guid)
    return found


async def by_guid(request: web.Request) -> web.Response:
    def look(catalog: Catalog) -> dict[str, Any]:
        return schema_string(catalog, _with_guid(catalog, request.match_info["guid"])[0], form_of(request))

    return answer(await looked_up(request, look))


async def ids_of_guid(request: web.Request) -> web.Response:
    found = await looked_up(request, lambda catalog: _with_guid(catalog, request.match_info["guid"]))
    pairs = sorted({(context_of(each.subject), each.id) for each in found})
    return answer([{"context": context, "id": id} for context, id in pairs])


async def every_schema(request: web.Request) -> web.Response:
    prefix, deleted = request.query.get("subjectPrefix", ""), flag(request, "deleted")

    def look(catalog: Catalog) -> list[dict[str, Any]]:
        found = []
        for subject in subjects_with(catalog, prefix):
            versions = catalog.versions(subject, deleted=deleted)
            found += versions[-1:] if flag(request, "latestOnly") else versions
        return [schema_version(catalog, each, form_of(request)) for each in page(request, found)]

    return answer(await looked_up(request, look))


async def types(_: web.Request) -> web.Response:
    return answer(sorted(SCHEMA_TYPES))


def subjects_with(catalog: Catalog, prefix: str) -> list[str]:
    """Subjects whose qualified name begins so; `:*:` looks into every context, and else only the one named is looked into."""
    if prefix.startswith(EVERY_CONTEXT):
        name = prefix.removeprefix(EVERY_CONTEXT)
        return [each for each in catalog.every_subject() if parsed(each).name.startswith(name)]
    return [
        each for each in catalog.every_subject() if each.startswith(normal(prefix)) and context_of(each) == context_of(prefix)
    ]

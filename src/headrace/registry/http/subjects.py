"""`/subjects`: their versions, registering, looking up, deleting."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from headrace.registry.http.answers import LATEST, answer, body, flag, page, version_number
from headrace.registry.http.requests import log_of, looked_up, subject_of
from headrace.registry.http.schemas import subjects_with
from headrace.registry.http.views import form_of, formatted, registration, schema_version
from headrace.registry.rules.catalog import Catalog
from headrace.registry.rules.deleting import delete_subject, delete_version
from headrace.registry.rules.entries import SchemaVersion
from headrace.registry.rules.errors import schema_not_found, subject_not_found, version_not_found
from headrace.registry.rules.registering import look_up, register
from headrace.registry.rules.subjects import EVERY_CONTEXT


async def every_subject(request: web.Request) -> web.Response:
    catalog = log_of(request).catalog
    names = subjects_with(catalog, request.query.get("subjectPrefix", EVERY_CONTEXT))
    if flag(request, "deletedOnly"):
        names = [each for each in names if not catalog.versions(each)]
    elif not flag(request, "deleted"):
        names = [each for each in names if catalog.versions(each)]
    return answer(page(request, names))


async def register_version(request: web.Request) -> web.Response:
    wanted = registration(
        subject_of(request), await body(request), normalize=flag(request, "normalize"), force=flag(request, "force")
    )
    log = log_of(request)
    version = await log.change(lambda catalog: register(catalog, wanted))
    # Without the schema: clients keep what they sent, which may be in another form than the one that is kept here.
    return answer({"id": version.id, "version": version.version, "guid": version.content.guid})


async def look_up_version(request: web.Request) -> web.Response:
    wanted = registration(subject_of(request), await body(request), normalize=flag(request, "normalize"))

    def look(catalog: Catalog) -> dict[str, Any]:
        return schema_version(catalog, look_up(catalog, wanted, deleted=flag(request, "deleted")), form_of(request))

    return answer(await looked_up(request, look))


async def latest_with_metadata(request: web.Request) -> web.Response:
    """The newest version whose metadata have these properties: `key` and `value` come in pairs."""
    wanted = dict(zip(request.query.getall("key", []), request.query.getall("value", []), strict=False))

    def look(catalog: Catalog) -> dict[str, Any]:
        subject = subject_of(request)
        versions = catalog.versions(subject, deleted=flag(request, "deleted"))
        if not versions:
            raise subject_not_found(subject)
        for each in reversed(versions):
            properties = (each.content.kept.get("metadata") or {}).get("properties") or {}
            if wanted.items() <= properties.items():
                return schema_version(catalog, each, form_of(request))
        raise schema_not_found()

    return answer(await looked_up(request, look))


async def versions_of_subject(request: web.Request) -> web.Response:
    subject = subject_of(request)

    def look(catalog: Catalog) -> list[int]:
        every = catalog.versions(subject, deleted=True)
        if flag(request, "deletedOnly"):
            shown = [each.version for each in every if each.deleted]
        elif flag(request, "deletedAsNegative"):
            shown = [-each.version if each.deleted else each.version for each in every]
        else:
            shown = [each.version for each in every if flag(request, "deleted") or not each.deleted]
        if not shown:
            raise subject_not_found(subject)
        return shown

    return answer(page(request, await looked_up(request, look)))


def existing(catalog: Catalog, subject: str, number: int, *, deleted: bool) -> SchemaVersion:
    """A version that is shown."""
    versions = catalog.versions(subject, deleted=deleted)
    if not versions:
        raise subject_not_found(subject)
    found = versions[-1] if number == LATEST else catalog.version(subject, number)
    if found is None or (found.deleted and not deleted):
        raise version_not_found(number)
    return found


async def one_version(request: web.Request) -> web.Response:
    number, deleted = version_number(request.match_info["version"]), flag(request, "deleted")

    def look(catalog: Catalog) -> dict[str, Any]:
        return schema_version(catalog, existing(catalog, subject_of(request), number, deleted=deleted), form_of(request))

    return answer(await looked_up(request, look))


async def text_of_version(request: web.Request) -> web.Response:
    number, deleted = version_number(request.match_info["version"]), flag(request, "deleted")

    def look(catalog: Catalog) -> str:
        return formatted(catalog, existing(catalog, subject_of(request), number, deleted=deleted), form_of(request))

    return web.Response(text=await looked_up(request, look), content_type="application/vnd.schemaregistry.v1+json")


async def referrers_of_version(request: web.Request) -> web.Response:
    number, subject = version_number(request.match_info["version"]), subject_of(request)

    def look(catalog: Catalog) -> list[int]:
        found = existing(catalog, subject, number, deleted=True)
        users = catalog.referrers(subject, found.version, deleted=flag(request, "deleted"))
        return sorted({each.id for each in users})

    return answer(page(request, await looked_up(request, look)))


async def remove_version(request: web.Request) -> web.Response:
    number, subject = version_number(request.match_info["version"]), subject_of(request)
    permanent = flag(request, "permanent")
    removed = await log_of(request).change(lambda catalog: delete_version(catalog, subject, number, permanent=permanent))
    return answer(removed)


async def remove_subject(request: web.Request) -> web.Response:
    subject, permanent = subject_of(request), flag(request, "permanent")
    return answer(await log_of(request).change(lambda catalog: delete_subject(catalog, subject, permanent=permanent)))

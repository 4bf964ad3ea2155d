"""`/config`, `/mode`, `/compatibility` and `/contexts`."""

from __future__ import annotations

from aiohttp import web

from headrace.registry.http.answers import LATEST, answer, body, flag, page, version_number
from headrace.registry.http.requests import log_of, looked_up, subject_of
from headrace.registry.http.subjects import existing
from headrace.registry.http.views import registration
from headrace.registry.rules.catalog import Catalog
from headrace.registry.rules.deleting import delete_context
from headrace.registry.rules.entries import SchemaVersion
from headrace.registry.rules.errors import RegistryError, invalid_mode
from headrace.registry.rules.registering import Registration, compatibility_problems
from headrace.registry.rules.settings import (
    MODES,
    config_in_scope,
    delete_config,
    delete_mode,
    mode_in_scope,
    own_config,
    own_mode,
    set_config,
    set_mode,
)
from headrace.registry.rules.subjects import context_of


def _subject(request: web.Request) -> str | None:
    """The subject of the path; None for that of all."""
    return subject_of(request) if "subject" in request.match_info else None


async def config(request: web.Request) -> web.Response:
    subject = _subject(request)
    if subject is None or flag(request, "defaultToGlobal"):
        return answer(config_in_scope(log_of(request).catalog, subject))
    return answer(await looked_up(request, lambda catalog: own_config(catalog, subject)))


async def change_config(request: web.Request) -> web.Response:
    subject, given = _subject(request), await body(request)
    return answer(await log_of(request).change(lambda catalog: set_config(catalog, subject, given)))


async def remove_config(request: web.Request) -> web.Response:
    subject = _subject(request)
    return answer(await log_of(request).change(lambda catalog: delete_config(catalog, subject)))


async def mode(request: web.Request) -> web.Response:
    subject = _subject(request)
    if subject is None or flag(request, "defaultToGlobal"):
        return answer({"mode": mode_in_scope(log_of(request).catalog, subject)})
    return answer({"mode": await looked_up(request, lambda catalog: own_mode(catalog, subject))})


async def change_mode(request: web.Request) -> web.Response:
    subject, given, force = _subject(request), await body(request), flag(request, "force")
    if not isinstance(given.get("mode"), str):
        raise invalid_mode(given.get("mode"), MODES)
    return answer({"mode": await log_of(request).change(lambda catalog: set_mode(catalog, subject, given["mode"], force=force))})


async def remove_mode(request: web.Request) -> web.Response:
    subject, recursive = _subject(request), flag(request, "recursive")
    return answer({"mode": await log_of(request).change(lambda catalog: delete_mode(catalog, subject, recursive=recursive))})


async def compatibility(request: web.Request) -> web.Response:
    """Whether a schema could be registered, as far as its versions are concerned: one of them, or those that the level names."""
    wanted = registration(subject_of(request), await body(request), normalize=flag(request, "normalize"))
    number = version_number(request.match_info["version"]) if "version" in request.match_info else None
    verbose = flag(request, "verbose")

    def look(catalog: Catalog) -> list[str]:
        against = _against(catalog, wanted, number)
        try:
            return compatibility_problems(catalog, wanted, against)
        except RegistryError as error:
            if verbose and error.code == 42201:
                return [error.message]
            raise

    problems = await looked_up(request, look)
    told = {"is_compatible": not problems}
    return answer({**told, "messages": problems} if verbose else told)


def _against(catalog: Catalog, wanted: Registration, number: int | None) -> list[SchemaVersion]:
    versions = catalog.versions(wanted.subject)
    if number is None:
        return versions
    if number == LATEST:
        return versions[-1:]  # before the first version everything is compatible
    return [existing(catalog, wanted.subject, number, deleted=False)]


async def contexts(request: web.Request) -> web.Response:
    prefix = request.query.get("contextPrefix", "")
    return answer(page(request, [each for each in log_of(request).catalog.every_context() if each.startswith(prefix)]))


async def remove_context(request: web.Request) -> web.Response:
    context = context_of(request.match_info["context"])
    await log_of(request).change(lambda catalog: delete_context(catalog, context))
    return web.Response(status=204)

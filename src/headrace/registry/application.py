"""The schema registry as an application of aiohttp, with the API of Confluent's: to be served alone, or beside others.

Its paths are those at which the clients look, so it belongs at the root of a port: `/subjects`, `/schemas`, `/config`, `/mode`,
`/compatibility`, `/contexts`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from aiohttp import web

from headrace.registry.http import schemas, settings, subjects
from headrace.registry.http.answers import Handler, errors_as_json
from headrace.registry.http.requests import LOG, Act, Authorize
from headrace.registry.log.connection import Connection
from headrace.registry.log.schema_log import SchemaLog

BODY_BYTES_MAX: Final = 4 * 1024 * 1024
# Posted because they carry a schema, and change nothing.
POSTED_READS: Final = (subjects.look_up_version, settings.compatibility)

ROUTES: Final[tuple[tuple[str, str, Handler], ...]] = (
    ("GET", "/schemas", schemas.every_schema),
    ("GET", "/schemas/types", schemas.types),
    ("GET", "/schemas/ids/{id}", schemas.by_id),
    ("GET", "/schemas/ids/{id}/schema", schemas.text_by_id),
    ("GET", "/schemas/ids/{id}/subjects", schemas.subjects_of_id),
    ("GET", "/schemas/ids/{id}/versions", schemas.versions_of_id),
    ("GET", "/schemas/guids/{guid}", schemas.by_guid),
    ("GET", "/schemas/guids/{guid}/ids", schemas.ids_of_guid),
    ("GET", "/subjects", subjects.every_subject),
    ("POST", "/subjects/{subject}", subjects.look_up_version),
    ("DELETE", "/subjects/{subject}", subjects.remove_subject),
    ("GET", "/subjects/{subject}/metadata", subjects.latest_with_metadata),
    ("GET", "/subjects/{subject}/versions", subjects.versions_of_subject),
    ("POST", "/subjects/{subject}/versions", subjects.register_version),
    ("GET", "/subjects/{subject}/versions/{version}", subjects.one_version),
    ("DELETE", "/subjects/{subject}/versions/{version}", subjects.remove_version),
    ("GET", "/subjects/{subject}/versions/{version}/schema", subjects.text_of_version),
    ("GET", "/subjects/{subject}/versions/{version}/referencedby", subjects.referrers_of_version),
    ("POST", "/compatibility/subjects/{subject}/versions", settings.compatibility),
    ("POST", "/compatibility/subjects/{subject}/versions/{version}", settings.compatibility),
    ("GET", "/config", settings.config),
    ("PUT", "/config", settings.change_config),
    ("DELETE", "/config", settings.remove_config),
    ("GET", "/config/{subject}", settings.config),
    ("PUT", "/config/{subject}", settings.change_config),
    ("DELETE", "/config/{subject}", settings.remove_config),
    ("GET", "/mode", settings.mode),
    ("PUT", "/mode", settings.change_mode),
    ("DELETE", "/mode", settings.remove_mode),
    ("GET", "/mode/{subject}", settings.mode),
    ("PUT", "/mode/{subject}", settings.change_mode),
    ("DELETE", "/mode/{subject}", settings.remove_mode),
    ("GET", "/contexts", settings.contexts),
    ("DELETE", "/contexts/{context}", settings.remove_context),
)


def application(connection: Connection, *, authorize: Authorize | None = None) -> web.Application:
    """A registry on the topic of this connection; the topic is made, if need be, when the application starts.

    `authorize` is called before every request with what it is, "read" or "write", and refuses by raising a RegistryError or an
    HTTPException of aiohttp.
    """
    app = web.Application(client_max_size=BODY_BYTES_MAX, middlewares=[errors_as_json])

    async def with_log(app: web.Application) -> AsyncIterator[None]:
        async with SchemaLog(connection) as log:
            app[LOG] = log
            yield

    app.cleanup_ctx.append(with_log)
    add_routes(app, authorize)
    return app


def add_routes(app: web.Application, authorize: Authorize | None = None) -> None:
    """The registry's paths, on an application that has a SchemaLog as LOG."""
    for method, path, handler in ROUTES:
        act: Act = "read" if method == "GET" or handler in POSTED_READS else "write"
        app.router.add_route(method, path, handler if authorize is None else _guarded(handler, act, authorize))


def _guarded(handler: Handler, act: Act, authorize: Authorize) -> Handler:
    async def allowed(request: web.Request) -> web.StreamResponse:
        await authorize(request, act)
        return await handler(request)

    return allowed

"""A request to the registry, and what its handlers need of it: the log, and whether the caller may."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, TypeVar

from aiohttp import web

from headrace.registry.log.schema_log import SchemaLog
from headrace.registry.rules.catalog import Catalog
from headrace.registry.rules.errors import RegistryError
from headrace.registry.rules.subjects import normal

Act = Literal["read", "write"]
Authorize = Callable[[web.Request, Act], Awaitable[None]]
LOG: web.AppKey[SchemaLog] = web.AppKey("headrace.registry.log", SchemaLog)
T = TypeVar("T")


def log_of(request: web.Request) -> SchemaLog:
    return request.config_dict[LOG]


def subject_of(request: web.Request) -> str:
    return normal(request.match_info["subject"])


async def looked_up(request: web.Request, look: Callable[[Catalog], T]) -> T:
    """Look into the catalog.  What is not found may have been written elsewhere a moment ago: then everything is read first."""
    log = log_of(request)
    try:
        return look(log.catalog)
    except RegistryError as error:
        if error.status != 404:
            raise
    await log.catch_up()
    return look(log.catalog)

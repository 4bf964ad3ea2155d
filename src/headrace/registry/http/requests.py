"""A request to the registry, and what its handlers need of it: the log, and whether the caller may."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Literal, TypeVar

from aiohttp import web

from headrace.registry.log.schema_log import SchemaLog
from headrace.registry.rules.catalog import Catalog
from headrace.registry.rules.errors import RegistryError
from headrace.registry.rules.subjects import normal

Act = Literal["read", "write"]
Authorize = Callable[[web.Request, Act], Awaitable[None]]
LOG: web.AppKey[SchemaLog] = web.AppKey("headrace.registry.log", SchemaLog)
# Reading a large schema, or holding it against others, takes seconds: never on the event loop, and only so many at a time.
READERS: Final = ThreadPoolExecutor(2, thread_name_prefix="headrace-registry-reader")
READ_TIMEOUT_S: Final = 30.0
T = TypeVar("T")


def log_of(request: web.Request) -> SchemaLog:
    return request.config_dict[LOG]


def subject_of(request: web.Request) -> str:
    return normal(request.match_info["subject"])


async def looked_up(request: web.Request, look: Callable[[Catalog], T]) -> T:
    """Look into the catalog.  What is not found may have been written elsewhere a moment ago: then everything is read first."""
    log = log_of(request)
    try:
        return await _looked(request, look)
    except RegistryError as error:
        if error.status != 404:
            raise
    await log.catch_up()
    return await _looked(request, look)


async def _looked(request: web.Request, look: Callable[[Catalog], T]) -> T:
    catalog = log_of(request).catalog
    if request.method == "GET" and "format" not in request.query:
        return look(catalog)  # no schema is read for it
    try:
        async with asyncio.timeout(READ_TIMEOUT_S):
            return await asyncio.get_running_loop().run_in_executor(READERS, look, catalog)
    except TimeoutError:
        raise RegistryError(50002, f"The schema was not read within {READ_TIMEOUT_S:g} s; it is large, or others are.") from None

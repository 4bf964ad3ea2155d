"""Long answers, compressed."""

from __future__ import annotations

import asyncio
import gzip
from typing import Any, Final

import orjson
from aiohttp import web

PACKED_FROM: Final = 2048
IN_A_THREAD_FROM: Final = 128 * 1024


async def packed(request: web.Request, data: Any) -> web.Response:
    """JSON, with gzip where the caller takes it and it pays."""
    body = orjson.dumps(data)
    if len(body) < PACKED_FROM or "gzip" not in request.headers.get("Accept-Encoding", ""):
        return web.Response(body=body, content_type="application/json")
    small = await asyncio.to_thread(gzip.compress, body, 4) if len(body) >= IN_A_THREAD_FROM else gzip.compress(body, 4)
    return web.Response(body=small, content_type="application/json", headers={"Content-Encoding": "gzip"})

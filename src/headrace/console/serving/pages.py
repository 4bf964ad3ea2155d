"""The console's files: read once, compressed once, and named by what is in them, so that browsers keep them for good."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath
from typing import Final

from aiohttp import web

MEDIA_TYPES: Final = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".html": "text/html",
}
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
FOR_GOOD: Final = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class File:
    """One file as it is sent."""

    media_type: str
    plain: bytes
    packed: bytes


class Pages:
    """`index.html` answers every path below /console/ that is nothing else: the page itself knows what to show there."""

    def __init__(self) -> None:
        found = dict(_read(files("headrace.console") / "static", PurePosixPath()))
        digest = hashlib.sha256(b"".join(name.encode() + data for name, data in sorted(found.items()))).hexdigest()[:16]
        index = found.pop("index.html").replace(b"{digest}", digest.encode())
        self._digest = digest
        self._index = _file("index.html", index)
        self._files = {name: _file(name, data) for name, data in found.items()}

    def add_to(self, application: web.Application) -> None:
        application.router.add_get("/console", self._home)
        application.router.add_get("/console/static/{digest}/{name:.+}", self._part)
        application.router.add_get("/console/{path:(?!api/|static/).*}", self._page)

    async def _home(self, request: web.Request) -> web.Response:
        raise web.HTTPFound("/console/")

    async def _page(self, request: web.Request) -> web.Response:
        return _response(request, self._index, "no-cache")

    async def _part(self, request: web.Request) -> web.Response:
        found = self._files.get(request.match_info["name"])
        if found is None:
            raise web.HTTPNotFound
        return _response(request, found, FOR_GOOD if request.match_info["digest"] == self._digest else "no-cache")


def _read(folder: Traversable, inside: PurePosixPath) -> list[tuple[str, bytes]]:
    found = []
    for each in folder.iterdir():
        if each.is_dir():
            found += _read(each, inside / each.name)
        elif PurePosixPath(each.name).suffix in MEDIA_TYPES:
            found.append((str(inside / each.name), each.read_bytes()))
    return found


def _file(name: str, data: bytes) -> File:
    return File(MEDIA_TYPES[PurePosixPath(name).suffix], data, gzip.compress(data, 9, mtime=0))


def _response(request: web.Request, file: File, caching: str) -> web.Response:
    packs = "gzip" in request.headers.get("Accept-Encoding", "")
    headers = {
        "Cache-Control": caching,
        "Content-Security-Policy": POLICY,
        "Vary": "Accept-Encoding",
        "Cross-Origin-Opener-Policy": "same-origin",
        **({"Content-Encoding": "gzip"} if packs else {}),
    }
    body = file.packed if packs else file.plain
    return web.Response(body=body, content_type=file.media_type, charset="utf-8", headers=headers)

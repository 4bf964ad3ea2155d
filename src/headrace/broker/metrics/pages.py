"""`/metrics` and `/metrics/detail` over HTTP, in the format and the encoding that the asker prefers."""

from functools import partial
from typing import TYPE_CHECKING

from headrace.broker.metrics.collecting import Collection, Page
from headrace.metrics.rendering import form_for

if TYPE_CHECKING:
    from aiohttp import web

    from headrace.broker.network.http_listener import Page as HttpPage


class MetricsPages:
    """Answers whoever scrapes."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection

    @property
    def by_path(self) -> "dict[str, HttpPage]":
        return {str(page): partial(self._answer, page) for page in Page}

    async def _answer(self, page: Page, request: "web.Request") -> "web.Response":
        from aiohttp import web

        form = form_for(request.headers.get("Accept", ""))
        compressed = "gzip" in request.headers.get("Accept-Encoding", "")
        body = await self._collection.page(page, form, compressed=compressed)
        headers = {"Content-Type": form.value, "Vary": "Accept, Accept-Encoding"}
        if compressed:
            headers["Content-Encoding"] = "gzip"
        return web.Response(body=body, headers=headers)

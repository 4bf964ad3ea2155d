"""Pages that may change something here, and pages that may not."""

import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from headrace.gateway.serving.headers import Manners


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("POST", {}, 200),
        ("POST", {"Origin": "http://gw.example:8080"}, 200),
        ("POST", {"Origin": "https://shop.example"}, 200),
        ("POST", {"Origin": "https://gw.example", "Host": "10.0.0.1", "Sec-Fetch-Site": "same-origin"}, 200),
        ("GET", {"Origin": "https://evil.example"}, 200),
        ("POST", {"Origin": "https://evil.example"}, 403),
        ("POST", {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}, 403),
        ("POST", {"Origin": "http://gw.example:9090", "Sec-Fetch-Site": "same-site"}, 403),
        ("DELETE", {"Origin": "null"}, 403),
    ],
)
def test_a_page_from_elsewhere_changes_nothing(method: str, headers: dict[str, str], status: int) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response()

    async def ask() -> int:
        request = make_mocked_request(method, "/topics/t/records", {"Host": "gw.example:8080", **headers})
        return (await Manners(("https://shop.example",)).answer_preflights(request, handler)).status

    assert asyncio.run(ask()) == status

"""Requests to the registry, without a cluster."""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from headrace.registry.http import requests
from headrace.registry.http.requests import LOG, looked_up
from headrace.registry.http.views import registration
from headrace.registry.log.schema_log import SchemaLog
from headrace.registry.rules.catalog import Catalog
from headrace.registry.rules.errors import RegistryError


def request(method: str, path: str) -> web.Request:
    application = web.Application()
    application[LOG] = cast(SchemaLog, SimpleNamespace(catalog=Catalog()))
    return make_mocked_request(method, path, app=application)


def thread_of(method: str, path: str) -> str:
    return asyncio.run(looked_up(request(method, path), lambda _: threading.current_thread().name))


def test_what_reads_a_schema_is_done_beside_the_event_loop() -> None:
    own = threading.current_thread().name

    assert thread_of("POST", "/subjects/a") != own
    assert thread_of("POST", "/compatibility/subjects/a/versions") != own
    assert thread_of("GET", "/schemas/ids/1?format=resolved") != own
    assert thread_of("GET", "/schemas/ids/1") == own


def test_a_schema_that_takes_too_long_to_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "READ_TIMEOUT_S", 0.01)

    over = threading.Event()

    with pytest.raises(RegistryError) as refused:
        asyncio.run(looked_up(request("POST", "/subjects/a"), lambda _: over.wait(30)))
    over.set()

    assert refused.value.code == 50002


@pytest.mark.parametrize(
    "more",
    [
        {"id": 2**31},
        {"version": 2**40},
        {"id": True},
        {"references": [{"name": "r", "subject": "s", "version": True}]},
    ],
)
def test_a_number_that_no_client_can_write_is_refused(more: dict[str, Any]) -> None:
    """An id has four bytes; a larger one would be the last that the registry ever gives."""
    with pytest.raises(RegistryError) as refused:
        registration("a", {"schema": "int", **more}, normalize=False)

    assert refused.value.status == 422

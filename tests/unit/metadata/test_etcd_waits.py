"""An etcd that is not there: a word while it is waited for, and at the end what is wrong."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from headrace.metadata import etcd_http
from headrace.metadata.etcd_http import EtcdAddress, EtcdHttp
from headrace.metadata.store import StoreUnavailable

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


async def is_a_website(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\nConnection: close\r\n\r\n<html")
    writer.close()


@pytest.mark.parametrize(
    ("serve", "said"), [(says_nothing, "no answer in time"), (is_a_website, r"what answers there is not etcd \(HTTP 404\)")]
)
def test_a_wrong_port_is_told_while_it_is_waited_for_and_at_the_end(
    serve: Serve, said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(etcd_http, "WORDLESS_S", 0.05)
    monkeypatch.setattr(etcd_http, "ATTEMPT_TIMEOUT_S", 0.2)

    async def story() -> str:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        http = EtcdHttp(EtcdAddress(endpoints=(endpoint,)))
        try:
            with pytest.raises(StoreUnavailable, match=said):
                await http.call("/v3/kv/range", {}, 0.3)
        finally:
            await http.close()
            server.close()
        return endpoint

    endpoint = asyncio.run(story())

    assert f"waiting for etcd to answer at {endpoint}" in caplog.text

"""The keys that tokens are signed with: fetched whole, and again soon when they could not be had."""

import asyncio
from pathlib import Path

import pytest

from headrace.broker.sign_in import token_keys
from headrace.model.settings import SettingError
from headrace.testing import Broker
from tests.support.issuer import AUDIENCE, ISSUER, Issuer
from tests.support.raw import RawClient
from tests.support.sasl import bearer, handshake, say
from tests.support.waiting import until


@pytest.mark.parametrize("size", [10_000, token_keys.DOCUMENT_BYTES_MAX])
def test_a_document_that_comes_in_pieces_is_read_to_its_end(size: int) -> None:
    document = b"k" * size

    assert asyncio.run(_fetched_in_pieces(document)) == document


def test_a_document_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="more than"):
        asyncio.run(_fetched_in_pieces(b"k" * (token_keys.DOCUMENT_BYTES_MAX + 1)))


async def _fetched_in_pieces(document: bytes) -> bytes:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(document) + document[:1000])
        await writer.drain()
        await asyncio.sleep(0.05)  # so that what comes later is not read with it
        writer.write(document[1000:])
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        return await token_keys.fetched(f"http://127.0.0.1:{port}/keys")


def test_nobody_is_followed_to_another_address() -> None:
    async def story() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked = await reader.readuntil(b"\r\n\r\n")
            moved = b"302 Found\r\nLocation: /elsewhere" if asked.startswith(b"GET /keys ") else b"200 OK"
            writer.write(b"HTTP/1.1 %b\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}" % moved)
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            await token_keys.fetched(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/keys")

    with pytest.raises(ValueError, match="it answers 302"):
        asyncio.run(story())


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": "https://ann:hidden@issuer.example/keys",
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    with pytest.raises(SettingError, match="a user or a password in it") as refused, Broker(settings=settings):
        pass

    assert "hidden" not in str(refused.value)


def test_keys_that_could_not_be_had_are_fetched_again_soon_and_nobody_has_to_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_keys, "RETRY_SECONDS", 0.05)
    issuer = Issuer(tmp_path)
    issuer.file.rename(tmp_path / "later.json")
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{issuer.file}",
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "connection.failed.authentication.delay.ms": 1,
    }
    with Broker(settings=settings) as broker:

        def signs_in() -> bool:
            with RawClient(broker.bootstraps["SASL_PLAINTEXT"]) as client:
                handshake(client, "OAUTHBEARER")
                reply = say(client, bearer(issuer.token_without_key_id()))
                return bool(reply.error_code == 0 and not reply.auth_bytes)

        assert not signs_in()
        (tmp_path / "later.json").rename(issuer.file)
        until(signs_in, "the keys are fetched")

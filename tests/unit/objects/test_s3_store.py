"""An object store that speaks S3, moto's server: the contract, conditional writes and uploads by parts included."""

from collections.abc import AsyncIterator, Iterator
from urllib.request import Request, urlopen

import pytest

from headrace.objects.opening import open_object_store
from headrace.objects.store import ObjectStore, StoreAway
from tests.unit.objects.test_object_stores import contract, play

server = pytest.importorskip("moto.server", reason="moto is not installed")
pytest.importorskip("obstore", reason="obstore is not installed")


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    moto = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    address = f"http://{host}:{port}"
    given = {"ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "y", "REGION": "us-east-1", "ENDPOINT_URL": address}
    for name, text in given.items():
        monkeypatch.setenv(f"AWS_{name}", text)
    with urlopen(Request(f"{address}/bucket", method="PUT")):
        yield "s3://bucket/prefix"
    moto.stop()


async def parts_of(size: int) -> AsyncIterator[bytes]:
    for number in range(size):
        yield bytes([number]) * 2**20


async def large(store: ObjectStore) -> None:
    await store.upload("x/0.log", parts_of(10), 10 * 2**20, 30)
    assert await store.size("x/0.log") == 10 * 2**20
    assert await store.get_range("x/0.log", 5 * 2**20 - 1, 5 * 2**20 + 1) == b"\x04\x05"


def test_s3_is_an_object_store(bucket: str) -> None:
    play(contract(open_object_store(bucket)))
    play(large(open_object_store(bucket)))


def test_a_store_that_is_away_is_told_as_such_in_time() -> None:
    async def ask() -> None:
        with pytest.raises(StoreAway):
            await open_object_store("s3://bucket/prefix", timeout_s=0.5).get("manifest.json")

    with pytest.MonkeyPatch.context() as patch:
        for name, text in {"ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "y", "ENDPOINT_URL": "http://127.0.0.1:9"}.items():
            patch.setenv(f"AWS_{name}", text)
        play(ask())

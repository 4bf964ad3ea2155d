"""The three stores behind one fixture: what holds for one holds for all."""

import itertools
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from headrace.host.entropy import SystemEntropy
from headrace.metadata.etcd import EtcdStore
from headrace.metadata.etcd_http import EtcdAddress
from headrace.metadata.memory import MemoryStore
from headrace.metadata.sqlite import SqliteStore
from headrace.metadata.store import MetadataStore
from headrace.testing.etcd import EtcdCluster, etcd_program

OpenStore = Callable[[], Awaitable[MetadataStore]]
_namespaces = itertools.count()


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    if etcd_program() is None:
        pytest.skip("etcd is not installed (Debian: apt install etcd-server)")
    with EtcdCluster(tmp_path_factory.mktemp("etcd")) as cluster:
        yield cluster


@pytest.fixture(params=["memory", "sqlite", pytest.param("etcd", marks=pytest.mark.etcd)])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    """Opens an empty store of each kind, inside the running loop."""

    async def open_memory() -> MetadataStore:
        return MemoryStore()

    async def open_sqlite() -> MetadataStore:
        return await SqliteStore.open(tmp_path / "metadata.db")

    if request.param == "memory":
        return open_memory
    if request.param == "sqlite":
        return open_sqlite
    endpoints = request.getfixturevalue("etcd").endpoints
    namespace = f"test-{next(_namespaces)}"

    async def open_etcd() -> MetadataStore:
        return EtcdStore(EtcdAddress(endpoints=endpoints), SystemEntropy(), namespace)

    return open_etcd

"""A single node's metadata moves into another store, of any kind."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from headrace.controller.entries import BrokerRegistration
from headrace.controller.topics import TopicSpec
from headrace.host.entropy import SystemEntropy
from headrace.metadata.cluster import ClusterMetadata
from headrace.metadata.membership import BrokerMembership
from headrace.metadata.migration import OtherCluster, import_metadata
from headrace.metadata.sqlite import SqliteStore
from headrace.metadata.store import MetadataStore
from headrace.testing.tasks import keep

OpenStore = Callable[[], Awaitable[MetadataStore]]


async def lived_in(path: Path) -> SqliteStore:
    """A store with a cluster in it."""
    store = await SqliteStore.open(path)
    view = ClusterMetadata(store, SystemEntropy())
    await view.start(keep)
    membership = BrokerMembership(view, BrokerRegistration(broker_id=1), on_lost=lambda: None)
    await membership.join(keep)
    await view.create_topic(TopicSpec(name="t", topic_id=view.new_topic_id(), partition_count=150, configs={"a": "1"}))
    await view.alter_broker_configs(None, lambda before: {"b": "2"})
    await view.allocate_producer_ids(1000)
    await membership.leave()
    await view.close()
    return store


def test_everything_that_lasts_is_there_afterwards_and_a_second_import_does_nothing(
    open_store: OpenStore, tmp_path: Path
) -> None:
    async def run() -> None:
        source, target = await lived_in(tmp_path / "single.db"), await open_store()
        assert await import_metadata(source, target)
        assert not await import_metadata(source, target)
        old, new = ClusterMetadata(source, SystemEntropy()), ClusterMetadata(target, SystemEntropy())
        await old.start(keep)
        await new.start(keep)

        assert new.cluster_id == old.cluster_id
        assert new.image.topics["t"] == old.image.topics["t"]
        assert new.image.default_broker_configs == {"b": "2"}
        assert await new.allocate_producer_ids(1) == range(1000, 1001)
        assert new.image.brokers == {}
        for view in (old, new):
            await view.close()
        for store in (source, target):
            await store.close()

    asyncio.run(run())


def test_two_clusters_are_not_mixed(open_store: OpenStore, tmp_path: Path) -> None:
    async def run() -> None:
        source, target = await lived_in(tmp_path / "single.db"), await open_store()
        other = ClusterMetadata(target, SystemEntropy())
        await other.start(keep)
        await other.close()

        with pytest.raises(OtherCluster, match="belongs to cluster"):
            await import_metadata(source, target)
        for store in (source, target):
            await store.close()

    asyncio.run(run())

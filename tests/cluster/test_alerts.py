"""Each alert fires when its trouble is made and clears when it is over.

Real brokers, a real Prometheus, and the rules that people get, with every duration in them shorter.  `make alerts` runs it.
"""

import asyncio
import contextlib
import json
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.broker.app import Broker as RealBroker
from headrace.broker.cluster.peers import PeerUnreachable
from headrace.broker.delaying.delivering import Outlet
from headrace.cli.monitoring.files import monitoring_files
from headrace.controller.entries import Condition, KeyValue, Operation
from headrace.metadata.memory import MemoryStore
from headrace.metadata.store import Listing, StoreUnavailable, TransactionResult
from headrace.model.delay.headers import DELAY_HEADER
from headrace.records.batch import build_batch
from headrace.records.record import Record
from headrace.replication.leader import LeaderState
from headrace.testing import Broker
from headrace.testing.disk import SimulatedDisk, WatchedDisk
from headrace.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.offset_commit import OffsetCommitRequest
from headrace.wire.messages.offset_commit import OffsetCommitRequestPartition as CommittedPartition
from headrace.wire.messages.offset_commit import OffsetCommitRequestTopic as CommittedTopic
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.integration.memory_cluster import MemoryCluster, SharedStore
from tests.integration.test_share_groups_cluster import Worker, begin_early
from tests.support.certificates import Authority
from tests.support.metrics import AT_ANY_PORT
from tests.support.process import free_port
from tests.support.prometheus import Prometheus, all_alerts, hastened
from tests.support.share_requests import ACCEPT, REJECT
from tests.support.waiting import until_async

pytestmark = [
    pytest.mark.skipif("HEADRACE_TEST_ALERTS" not in os.environ, reason="takes minutes: make alerts"),
    pytest.mark.timeout(1800),
]

HASTE = 120  # of the rules: five minutes are two and a half seconds
SCRAPES = 30  # of the scrapes: one each half second
ANSWER_S = 240.0
DISK_BYTES = 10**12
OTHER_CLUSTER = """  - job_name: other
    static_configs:
      - targets: ['127.0.0.1:{port}']
        labels:
          cluster: other
"""


class FillingDisk(WatchedDisk):
    """A disk of which others take a share."""

    taken = 0

    def free_bytes(self, path: Path) -> int:
        return DISK_BYTES - self.taken

    def total_bytes(self, path: Path) -> int:
        return DISK_BYTES


class UnreachableStore(SharedStore):
    """A store of the metadata that can be away, for all."""

    def __init__(self, whole: MemoryStore) -> None:
        super().__init__(whole)
        self.__dict__.setdefault("is_away", False)

    def _reach(self) -> None:
        if self.__dict__["is_away"]:
            raise StoreUnavailable("nobody answers")

    async def get(self, key: str) -> KeyValue | None:
        self._reach()
        return await super().get(key)

    async def list(self, prefix: str) -> Listing:
        self._reach()
        return await super().list(prefix)

    async def transact(self, conditions: Sequence[Condition], operations: Sequence[Operation]) -> TransactionResult:
        self._reach()
        return await super().transact(conditions, operations)

    async def grant_lease(self, ttl_s: float) -> int:
        self._reach()
        return await super().grant_lease(ttl_s)

    async def keep_alive(self, lease: int) -> float:
        self._reach()
        return await super().keep_alive(lease)


class WatchedCluster(MemoryCluster):
    """Three brokers, each with a port of its own for its metrics, also after a restart."""

    hold = UnreachableStore

    def __init__(self, objects: Path) -> None:
        self.watched_disks = {each: FillingDisk(SimulatedDisk(random.Random(each))) for each in (1, 2, 3)}
        settings = {
            "broker.session.timeout.ms": "3000",
            "headrace.remote.url": f"file://{objects}",
            "remote.log.manager.task.interval.ms": "200",
        }
        super().__init__(3, settings, disks=self.watched_disks)
        self.objects = objects
        self._first_port = free_port(in_a_row=3)

    def port(self, broker_id: int) -> int:
        return self._first_port + broker_id - 1

    async def add(self, broker_id: int) -> RealBroker:
        self.settings = {**self.settings, "headrace.metrics.listener": f"127.0.0.1:{self.port(broker_id)}"}
        return await super().add(broker_id)

    async def remove(self, broker_id: int) -> None:
        await self.brokers.pop(broker_id).stop()

    async def create(self, name: str, *replicas: int, **configs: str) -> None:
        assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)
        settings = tuple(CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items())
        topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=(assignment,), configs=settings)
        assert (await self.call(1, CreateTopicsRequest(topics=(topic,), timeout_ms=10_000), 5)).topics[0].error_code == 0
        await self.until(lambda: all(name in broker.image.topics for broker in self.brokers.values()))


class Stage:
    """All that trouble is made with."""

    def __init__(self, cluster: WatchedCluster, prometheus: Prometheus, watched_queries: Any, certificate: Callable[[int], None]):
        self.cluster = cluster
        self.prometheus = prometheus
        self.queries = watched_queries
        self.certificate = certificate
        self.loop_is_kept = False

    async def fire(self, *names: str) -> None:
        await until_async(lambda: self._is(set(names), True), f"{names} fire", ANSWER_S, every_s=0.5)

    async def clear(self, *names: str) -> None:
        await until_async(lambda: self._is(set(names), False), f"{names} clear", ANSWER_S, every_s=0.5)

    async def _is(self, names: set[str], firing: bool) -> bool:
        found = await asyncio.to_thread(self.prometheus.firing)
        return names <= found if firing else not names & found

    async def keep_writing(self) -> None:
        """What producers do all the time, whether or not they are answered."""
        while True:
            for topic in ("orders", "strict"):
                with contextlib.suppress(Exception):
                    leader = self.cluster.image.topics[topic].partitions[0].leader
                    await asyncio.wait_for(self.cluster.produce(leader, topic, "one"), 2)
            if self.loop_is_kept:
                keep_the_loop(0.2)
            await asyncio.sleep(0.05)

    def query_is_behind(self, records: int) -> None:
        source = {"endOffset": {"t": {"0": 0}}, "latestOffset": {"t": {"0": records}}}
        progress = {"id": "1", "name": "copy", "batchId": 4, "numInputRows": 1, "sources": [source]}
        self.queries.onQueryProgress(SimpleNamespace(progress=SimpleNamespace(json=json.dumps(progress))))

    async def delay(self, topic: str, delay_ms: int) -> None:
        """Write a record that is delivered later."""
        record = Record(offset=0, timestamp=1, key=None, value=b"later", headers=((DELAY_HEADER, str(delay_ms).encode()),))
        data = PartitionProduceData(index=0, records=build_batch([record]))
        topics = (TopicProduceData(name=topic, partition_data=(data,)),)
        request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=10_000, topic_data=topics)

        async def is_taken() -> bool:
            leader = self.cluster.image.topics[topic].partitions[0].leader
            answer = await self.cluster.call(leader, request, 9)
            return bool(answer.responses[0].partition_responses[0].error_code == 0)

        await until_async(is_taken, "the record is taken")

    async def commit(self, offset: int) -> None:
        async def is_taken() -> bool:
            found = await self.cluster.call(1, FindCoordinatorRequest(key="billing"), 3)
            if found.error_code:
                return False
            partition = CommittedPartition(partition_index=0, committed_offset=offset, committed_metadata=None)
            request = OffsetCommitRequest(
                group_id="billing", member_id="", topics=(CommittedTopic(name="lagging", partitions=(partition,)),)
            )
            answer = await self.cluster.call(found.node_id, request, 5)
            return bool(answer.topics[0].partitions[0].error_code == 0)

        await until_async(is_taken, "the offset is committed")


def keep_the_loop(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


async def a_broker_stops(stage: Stage) -> None:
    told = ("HeadraceBrokerDown", "HeadraceInSyncSetShrunk", "HeadraceUnderMinimumInSync", "HeadracePartitionsLeaderless")
    await stage.cluster.remove(3)
    await stage.fire(*told, "HeadraceProducersFail")
    await stage.cluster.add(3)
    await stage.clear(*told, "HeadraceProducersFail")


async def a_follower_is_not_heard_of(stage: Stage) -> None:
    heard, LeaderState.on_fetch = LeaderState.on_fetch, lambda *_, **__: False  # type: ignore[method-assign,assignment]
    try:
        await stage.fire("HeadraceReplicationLags")
    finally:
        LeaderState.on_fetch = heard  # type: ignore[method-assign]
    await stage.clear("HeadraceReplicationLags")


async def nobody_in_sync_comes_back(stage: Stage) -> None:
    await stage.cluster.remove(1)
    await stage.cluster.remove(2)
    await stage.cluster.until(lambda: stage.cluster.image.topics["risky"].partitions[0].leader == -1)
    await stage.cluster.add(1)
    await stage.fire("HeadraceUncleanElection")
    await stage.cluster.add(2)
    await stage.clear("HeadraceUncleanElection", "HeadraceBrokerDown")


async def a_disk_fails(stage: Stage) -> None:
    leader = stage.cluster.image.topics["orders"].partitions[0].leader
    disk = stage.cluster.watched_disks[leader]._disk
    assert isinstance(disk, SimulatedDisk)
    disk.fail("sync", lambda path: "orders-0" in str(path))
    await stage.fire("HeadracePartitionsOffline")
    disk.heal()
    await stage.cluster.remove(leader)
    await stage.cluster.add(leader)
    await stage.clear("HeadracePartitionsOffline", "HeadraceBrokerDown")


async def disks_are_slow(stage: Stage) -> None:
    for disk in stage.cluster.watched_disks.values():
        disk.sync_seconds = 0.8
    await stage.fire("HeadraceFlushesSlow")
    for disk in stage.cluster.watched_disks.values():
        disk.sync_seconds = 0.0
    await stage.clear("HeadraceFlushesSlow")


async def a_disk_fills(stage: Stage) -> None:
    disk, steps = stage.cluster.watched_disks[2], 60

    async def is_told() -> bool:
        disk.taken = min(disk.taken + DISK_BYTES // steps, DISK_BYTES * 7 // 10)
        return "HeadraceDiskFills" in await asyncio.to_thread(stage.prometheus.firing)

    await until_async(is_told, "it is foreseen", ANSWER_S, every_s=0.5)
    disk.taken = DISK_BYTES * 95 // 100
    await stage.fire("HeadraceDiskAlmostFull")
    disk.taken = 0
    await stage.clear("HeadraceDiskAlmostFull", "HeadraceDiskFills")


async def the_loop_is_kept(stage: Stage) -> None:
    stage.loop_is_kept = True
    await stage.fire("HeadraceEventLoopLate")
    stage.loop_is_kept = False
    await stage.clear("HeadraceEventLoopLate")


async def the_store_is_away(stage: Stage) -> None:
    stage.cluster.store.__dict__["is_away"] = True
    await stage.fire("HeadraceNoController", "HeadraceMetadataStoreFails")
    stage.cluster.store.__dict__["is_away"] = False
    await stage.clear("HeadraceNoController", "HeadraceMetadataStoreFails")


async def a_group_falls_behind(stage: Stage) -> None:
    leader = stage.cluster.image.topics["lagging"].partitions[0].leader
    partition = stage.cluster.brokers[leader].parts.replicas.find("lagging", 0)
    written = [Record(offset=n, timestamp=1, key=None, value=b"", headers=()) for n in range(10_001)]
    for _ in range(10):
        partition.append(build_batch(written))
    await stage.commit(0)
    await stage.fire("HeadraceConsumerLagRecords", "HeadraceConsumerLagSeconds")
    await stage.commit(100_010)
    await stage.clear("HeadraceConsumerLagRecords", "HeadraceConsumerLagSeconds")


async def a_handler_gives_up(stage: Stage) -> None:
    await stage.cluster.create("orders.dead-letter", 1, 2, 3)
    leader = stage.cluster.image.topics["orders.dead-letter"].partitions[0].leader
    await stage.cluster.produce(leader, "orders.dead-letter", "bad")
    await stage.fire("HeadraceDeadLettersGrow")
    await stage.clear("HeadraceDeadLettersGrow")


async def a_queue_is_left_alone(stage: Stage) -> None:
    await stage.cluster.create("jobs", 1, 2, 3)
    worker = Worker(stage.cluster, "workers")
    await begin_early(stage.cluster, worker.group)
    await worker.join()
    # Of long ago, as `produce` makes them.
    await stage.cluster.produce(worker.leader, "jobs", "one", "two")
    await worker.take(2)
    await worker.say(0, 0, REJECT)
    await stage.fire("HeadraceQueueRecordsGivenUp", "HeadraceQueueBehind")
    await worker.say(1, 1, ACCEPT)
    await stage.clear("HeadraceQueueBehind", "HeadraceQueueRecordsGivenUp")


async def delayed_records_are_held_up(stage: Stage) -> None:
    async def wait(*_: object) -> None:
        raise PeerUnreachable("held up")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Outlet, "send", wait)
        await stage.delay("orders", 100)
        await stage.fire("HeadraceDelayedRecordsLate")
    await stage.clear("HeadraceDelayedRecordsLate")


async def the_object_store_is_away(stage: Stage) -> None:
    stage.cluster.objects.write_text("where the folder should be")
    await stage.cluster.create("archive", 1, 2, 3, remote_storage_enable="true", internal_segment_bytes="300")
    leader = stage.cluster.image.topics["archive"].partitions[0].leader
    for _ in range(9):
        await stage.cluster.produce(leader, "archive", "one" * 30)
    tiering = stage.cluster.brokers[leader].parts.tiering
    assert tiering is not None
    (part,) = tiering.parts.values()
    await until_async(lambda: part.behind_since is not None, "an upload failed")
    part.behind_since = (part.behind_since or 0) - 3600
    await stage.fire("HeadraceUploadsBehind")
    stage.cluster.objects.unlink()
    await stage.clear("HeadraceUploadsBehind")


async def a_query_falls_behind(stage: Stage) -> None:
    stage.query_is_behind(200_000)
    await stage.fire("HeadracePipelineBehind")
    stage.query_is_behind(0)
    await stage.clear("HeadracePipelineBehind")


async def a_certificate_ends_soon(stage: Stage) -> None:
    await stage.fire("HeadraceCertificateExpires")
    stage.certificate(365)
    await stage.clear("HeadraceCertificateExpires")


TROUBLES: dict[Callable[[Stage], Awaitable[None]], tuple[str, ...]] = {
    a_query_falls_behind: ("HeadracePipelineBehind",),
    a_handler_gives_up: ("HeadraceDeadLettersGrow",),
    a_queue_is_left_alone: ("HeadraceQueueRecordsGivenUp", "HeadraceQueueBehind"),
    delayed_records_are_held_up: ("HeadraceDelayedRecordsLate",),
    the_object_store_is_away: ("HeadraceUploadsBehind",),
    a_group_falls_behind: ("HeadraceConsumerLagRecords", "HeadraceConsumerLagSeconds"),
    a_disk_fills: ("HeadraceDiskFills", "HeadraceDiskAlmostFull"),
    disks_are_slow: ("HeadraceFlushesSlow",),
    a_certificate_ends_soon: ("HeadraceCertificateExpires",),
    the_loop_is_kept: ("HeadraceEventLoopLate",),
    a_follower_is_not_heard_of: ("HeadraceReplicationLags",),
    a_broker_stops: (
        "HeadraceBrokerDown",
        "HeadraceInSyncSetShrunk",
        "HeadraceUnderMinimumInSync",
        "HeadracePartitionsLeaderless",
        "HeadraceProducersFail",
    ),
    a_disk_fails: ("HeadracePartitionsOffline",),
    nobody_in_sync_comes_back: ("HeadraceUncleanElection",),
    the_store_is_away: ("HeadraceNoController", "HeadraceMetadataStoreFails"),
}


async def watches_all(prometheus: Prometheus) -> bool:
    """What was there before the trouble has to be known, for anybody to see that it changes."""
    return len(await asyncio.to_thread(prometheus.query, "headrace_cluster_unclean_elections_total")) == 4


@contextlib.asynccontextmanager
async def stage_in(folder: Path) -> AsyncIterator[Stage]:
    metrics = pytest.importorskip("headrace.spark.pipeline.metrics", reason="PySpark is not installed")
    authority = Authority(folder)
    authority.write()

    def certificate(days: int) -> None:
        authority.of_broker(not_after=datetime.now(UTC) + timedelta(days=days))

    certificate(5)
    secured = {
        **AT_ANY_PORT,
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.truststore.location": str(authority.file),
    }
    watched = metrics.Watch()
    exposition = metrics.Exposition(watched, 0)
    try:
        with Broker(settings=secured) as apart:
            assert apart.broker is not None
            assert apart.broker.metrics.address is not None
            cluster = WatchedCluster(folder / "objects")
            async with cluster:
                brokers = [f"127.0.0.1:{cluster.port(each)}" for each in (1, 2, 3)]
                files = dict(monitoring_files(brokers, [f"127.0.0.1:{exposition.port}"]))
                files["prometheus.yml"] += OTHER_CLUSTER.format(port=apart.broker.metrics.address.port)
                files["prometheus.yml"] = hastened(files["prometheus.yml"], SCRAPES)
                files["rules/headrace.yml"] = hastened(files["rules/headrace.yml"], HASTE)
                with Prometheus(folder, files) as prometheus:
                    await until_async(prometheus.is_ready, "Prometheus answers", every_s=0.1)
                    await until_async(lambda: watches_all(prometheus), "all brokers are watched", ANSWER_S, every_s=0.2)
                    yield Stage(cluster, prometheus, watched, certificate)
    finally:
        exposition.close()


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.__name__)
def test_an_alert_fires_while_there_is_trouble_and_clears(trouble: Callable[[Stage], Awaitable[None]], tmp_path: Path) -> None:
    async def story() -> None:
        async with stage_in(tmp_path) as stage:
            await stage.cluster.create("orders", 1, 2, 3, headrace_delay_enable="true")
            await stage.cluster.create("strict", 1, 2, 3, min_insync_replicas="3")
            await stage.cluster.create("alone", 3)
            await stage.cluster.create("lagging", 1, 2, 3)
            await stage.cluster.create("risky", 2, 1, unclean_leader_election_enable="true")
            writing = asyncio.create_task(stage.keep_writing())
            try:
                await trouble(stage)
            finally:
                writing.cancel()

    asyncio.run(story())


def test_there_is_trouble_for_every_alert() -> None:
    assert sorted(name for names in TROUBLES.values() for name in names) == sorted(alert.name for alert in all_alerts())

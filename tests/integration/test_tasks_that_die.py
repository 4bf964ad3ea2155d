"""Every kind of task of a running broker is killed once, and what its rule says happens."""

import asyncio
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from itertools import pairwise

import pytest

from headrace.broker import app
from headrace.broker.administration.group_configs import alter_group
from headrace.broker.app import Broker
from headrace.broker.delaying.delivering import Outlet
from headrace.broker.health import disk_health
from headrace.broker.health.health import Phase
from headrace.broker.supervision import supervision
from headrace.broker.supervision.supervision import BrokerFailed, Rule, Service
from headrace.controller.entries import PartitionState
from headrace.controller.quotas import alter as alter_quotas
from headrace.coordination.schedule.entries import Definition
from headrace.coordination.schedule.shard import Change
from headrace.log.results import RemovedSegment
from headrace.model.errors import ErrorCode
from headrace.model.names import CONSUMER_OFFSETS, SCHEDULES
from headrace.records.batch import build_batch
from headrace.records.record import Record
from headrace.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.integration.memory_cluster import MemoryCluster, has_coordinator
from tests.support.waiting import until_async

# What a running broker has.  A kind that is not here has no test: say what its rule is.
RULES = {
    "metadata watch": Rule.RESTART_OR_END,
    "lease renewal": Rule.RESTART_OR_END,
    "replica roles": Rule.RESTART_OR_END,
    "controller": Rule.RESTART,
    "in-sync sets": Rule.RESTART,
    "disk health": Rule.RESTART,
    "follow broker": Rule.RESTART,
    "connection sweeper": Rule.RESTART,
    "audit trail": Rule.RESTART,
    "expiry": Rule.RESTART,
    "removal": Rule.RESTART,
    "retention": Rule.RESTART,
    "cleaning": Rule.RESTART,
    "checkpoints": Rule.RESTART,
    "shard": Rule.RESTART,
    "commit": Rule.RESTART,
    "delivery": Rule.RESTART,
    "firing": Rule.RESTART,
}
SETTINGS = {
    "headrace.audit": "on",
    "offsets.topic.num.partitions": "1",
    "headrace.delay.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "2",
    "default.replication.factor": "2",
}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "PAUSE_S", 0.01)
    monkeypatch.setattr(disk_health, "CHECK_S", 0.05)


def commit(group: str) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=(OffsetCommitRequestTopic(name="t", partitions=(partition,)),),
    )


@pytest.fixture(autouse=True)
def deliveries_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async def wait(self: Outlet, target: object, batch: bytes) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Outlet, "send", wait)


async def delayed(cluster: MemoryCluster) -> None:
    """Return when a record that was delayed is being delivered."""
    configs = (CreatableTopicConfig(name="headrace.delay.enable", value="true"),)
    topic = CreatableTopic(name="d", num_partitions=1, replication_factor=1, assignments=(), configs=configs)
    await cluster.call(1, CreateTopicsRequest(topics=(topic,), timeout_ms=10_000), 5)
    batch = build_batch([Record(0, 1, None, b"x", (("headrace-delay-ms", b"0"),))])
    data = TopicProduceData(name="d", partition_data=(PartitionProduceData(index=0, records=batch),))
    await cluster.until(lambda: "d" in cluster.image.topics)

    async def is_taken() -> bool:
        leader = cluster.image.topics["d"].partitions[0].leader
        response = await cluster.call(leader, ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=(data,)), 9)
        return bool(response.responses[0].partition_responses[0].error_code == ErrorCode.NONE)

    await until_async(is_taken)
    await cluster.until(lambda: find(cluster, "delivery") is not None)


async def scheduled(cluster: MemoryCluster) -> None:
    """Return when a schedule is being fired, which takes its time."""

    async def wait(target: object, batch: bytes) -> None:
        await asyncio.Event().wait()

    for broker in cluster.brokers.values():
        broker.parts.staging.keep = wait  # type: ignore[method-assign]
    await cluster.brokers[1].parts.topics.ensure(SCHEDULES)
    await cluster.until(lambda: any(broker.parts.schedules.shards.is_loaded(0) for broker in cluster.brokers.values()))
    leader = next(broker for broker in cluster.brokers.values() if broker.parts.schedules.shards.is_loaded(0))
    await leader.parts.schedules.change(Change("s", Definition("s", "0 0 1 1 *", "UTC", "t")))
    await leader.parts.schedules.change(Change("s", run="now"))
    await cluster.until(lambda: find(cluster, "firing") is not None)


@asynccontextmanager
async def busy_cluster() -> AsyncIterator[MemoryCluster]:
    """Two brokers that follow each other, with a coordinator that waits for a commit."""
    async with MemoryCluster(2, SETTINGS) as cluster:
        await cluster.create_topic("t", partitions=2, factor=2)
        await cluster.until(lambda: all(len(state.isr) == 2 for state in cluster.image.topics["t"].partitions))
        await coordinated(cluster)
        await delayed(cluster)
        await scheduled(cluster)
        leader = cluster.brokers[cluster.image.topics[CONSUMER_OFFSETS].partitions[0].leader]
        await cluster.until(lambda: leader.parts.group_coordinator.shards.is_loaded(0))
        partition = leader.parts.replicas.find(CONSUMER_OFFSETS, 0)
        held = asyncio.ensure_future(cluster.call(leader.broker_id, commit("g"), 8))
        partition.advance = lambda: None  # type: ignore[method-assign]
        await cluster.until(lambda: find(cluster, "commit") is not None)
        yield cluster
        del partition.advance
        partition.advance()
        assert (await held).topics[0].partitions[0].error_code in (ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE)


async def coordinated(cluster: MemoryCluster) -> None:
    """Return when the group's coordinator serves."""
    await has_coordinator(cluster, FindCoordinatorRequest(key="g", key_type=0))
    await cluster.until(lambda: len(cluster.image.topics[CONSUMER_OFFSETS].partitions[0].isr) == 2)


def find(cluster: MemoryCluster, kind: str) -> tuple[Broker, Service] | None:
    for broker in cluster.brokers.values():
        for service in broker.supervisor.services():
            if service.kind == kind and service.is_running:
                return broker, service
    return None


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await story()

    asyncio.run(bounded())


def test_every_kind_of_task_that_a_broker_has_is_known_here() -> None:
    async def story() -> None:
        async with busy_cluster() as cluster:
            services = [service for broker in cluster.brokers.values() for service in broker.supervisor.services()]

            assert {service.kind: service.rule for service in services} == RULES

    run(story)


@pytest.mark.parametrize("kind", RULES)
def test_a_task_that_is_killed_is_begun_again_and_everybody_can_see_it(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with busy_cluster() as cluster:
            found = find(cluster, kind)
            assert found is not None
            broker, service = found
            service.kill(ValueError("injected"))
            await cluster.until(lambda: service.lives == 2 and (service.is_running or service.is_over))

            assert broker.condition().state == "DEGRADED"
            assert f"{service.name} failed: ValueError: injected" in broker.condition().reasons
            # The others hear of it with the next look at the disk.
            await cluster.until(lambda: any(service.name in r for r in cluster.image.brokers[broker.broker_id].degraded))
            assert (await cluster.produce(1, "t", "x", partition=_led_by(cluster, 1))).responses[0].partition_responses[
                0
            ].error_code == ErrorCode.NONE

    run(story)
    assert any(record.levelno == logging.ERROR and kind in record.message for record in caplog.records)


def _led_by(cluster: MemoryCluster, broker_id: int) -> int:
    return next(index for index, state in enumerate(cluster.image.topics["t"].partitions) if state.leader == broker_id)


@pytest.mark.parametrize("kind", [kind for kind, rule in RULES.items() if rule is Rule.RESTART_OR_END])
def test_a_task_without_which_there_is_no_broker_ends_it_loudly_when_it_keeps_dying(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with MemoryCluster(2, SETTINGS) as cluster:
            await cluster.create_topic("t", partitions=2, factor=2)
            broker = cluster.brokers.pop(2)
            service = next(service for service in broker.supervisor.services() if service.kind == kind)
            for life in range(1, supervision.DEATHS_MAX + 2):
                await cluster.until(lambda life=life: service.lives == life and service.is_running)  # type: ignore[misc]
                service.kill(ValueError("injected"))
            await cluster.until(lambda: broker.phase is Phase.STOPPING)
            with pytest.raises(BrokerFailed, match=f"{kind} failed: ValueError: injected"):
                await broker.stop()

            await cluster.until(lambda: all(state.leader == 1 for state in cluster.image.topics["t"].partitions))

    run(story)
    assert [record.levelno for record in caplog.records if record.levelno >= logging.CRITICAL] == [logging.CRITICAL]


def test_a_change_that_somebody_fails_over_is_not_lost() -> None:
    """The watch dies of it, and begins again by reading everything."""

    async def story() -> None:
        async with MemoryCluster(1) as cluster:
            broker = cluster.brokers[1]
            failing = [ValueError("oh")]

            def fails(changes: object) -> None:
                if failing:
                    raise failing.pop()

            broker.cluster._listeners.insert(0, fails)
            await cluster.create_topic("t", partitions=1, factor=1)

            assert not failing
            await cluster.until(lambda: any(each.identity.topic == "t" and each.is_leader for each in broker.parts.replicas))
            response = await cluster.produce(1, "t", "x")
            assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE

    run(story)


async def change_settings(broker: Broker) -> Callable[[], bool]:
    await broker.cluster.alter_broker_configs(None, lambda before: {**before, "log.retention.check.interval.ms": "1234"})
    return lambda: broker.config["log.retention.check.interval.ms"] == 1234


async def change_quotas(broker: Broker) -> Callable[[], bool]:
    await broker.cluster.submit(lambda image: [alter_quotas(image, {"topic": "t"}, {"storage_bytes": 1.0})])
    return lambda: broker.parts.quotas.active


async def change_group_settings(broker: Broker) -> Callable[[], bool]:
    await alter_group(
        broker.cluster, broker.live_config, "g", lambda before: {"consumer.session.timeout.ms": "50000"}, validate_only=False
    )
    return lambda: "g" in broker.parts.group_coordinator._own_settings


async def delete_topic(broker: Broker) -> Callable[[], bool]:
    await broker.cluster.delete_topic("t")
    return lambda: broker.parts.group_coordinator._catalog.named("t") is None and not broker.parts.replicas.of_topic("t")


async def catch_up(broker: Broker) -> Callable[[], bool]:
    """What it waited for was deleted."""
    topic = broker.image.topics["t"]
    broker.parts.participation.catching_up.is_over = False
    behind = PartitionState(replicas=(1, 2), leader=2, isr=(2,))
    broker.parts.participation.catching_up._behind = {(topic.topic_id, 0): behind}
    assert not broker.condition().ready
    await broker.cluster.delete_topic("t")
    return lambda: broker.condition().ready


@pytest.mark.parametrize("change", [change_settings, change_quotas, change_group_settings, delete_topic, catch_up])
def test_whoever_did_not_hear_of_a_change_sees_it_when_everything_is_read_again(
    change: Callable[[Broker], Awaitable[Callable[[], bool]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # What the broker tells of its health is a change that others would hear of.
    monkeypatch.setattr(disk_health, "CHECK_S", 60.0)

    async def story() -> None:
        async with MemoryCluster(1) as cluster:
            broker = cluster.brokers[1]
            await cluster.create_topic("t", partitions=1, factor=1)
            failing = [ValueError("oh")]

            def fails(changes: object) -> None:
                if failing:
                    raise failing.pop()

            broker.cluster._listeners.insert(0, fails)
            is_seen = await change(broker)

            assert not failing
            await cluster.until(is_seen, timeout_s=5)

    run(story)


def test_a_replica_that_cannot_take_up_its_role_is_offline_until_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with MemoryCluster(1) as cluster:
            broker = cluster.brokers[1]
            failing = True

            def fails(partition: object) -> None:
                if failing:
                    raise ValueError("oh")

            broker.parts.replica_changes.on_role.append(fails)
            await cluster.create_topic("t", partitions=1, factor=1)
            await cluster.until(lambda: bool(broker.parts.replicas.of_topic("t")))

            assert (await cluster.produce(1, "t", "x")).responses[0].partition_responses[
                0
            ].error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert "the role of t-0 failed: ValueError: oh" in broker.condition().reasons
            failing = False
            await cluster.until(lambda: broker.parts.replicas.find("t", 0).failure is None)
            assert (await cluster.produce(1, "t", "x")).responses[0].partition_responses[0].error_code == ErrorCode.NONE

    run(story)


def test_however_many_replicas_cannot_take_up_their_role_one_comparison_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        async with MemoryCluster(1) as cluster:
            changes = cluster.brokers[1].parts.replica_changes
            moments: list[float] = []
            failing = True
            reconcile = changes._reconcile

            async def counting() -> None:
                moments.append(changes._loop.time())
                await reconcile()

            def fails(partition: object) -> None:
                if failing:
                    raise ValueError("oh")

            monkeypatch.setattr(changes, "_reconcile", counting)
            changes.on_role.append(fails)
            await cluster.create_topic("t", partitions=20, factor=1)
            await cluster.until(lambda: len(moments) >= 4)

            # Each pause is twice as long as the one before, however many failed meanwhile.
            pauses = [after - before for before, after in pairwise(moments[:4])]
            assert all(pause >= supervision.PAUSE_S * 2**n * 0.9 for n, pause in enumerate(pauses, start=1)), pauses
            assert changes._changes.qsize() <= 1
            failing = False
            await cluster.until(lambda: all(partition.failure is None for partition in cluster.brokers[1].parts.replicas))
            assert len(moments) <= 6

    run(story)


def test_work_done_once_that_fails_shows(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with MemoryCluster(1) as cluster:

            async def errand() -> None:
                raise ValueError("oh")

            cluster.brokers[1].spawn(errand())
            await cluster.until(lambda: cluster.brokers[1].condition().state == "DEGRADED")

    run(story)
    assert "errand failed" in caplog.text


def test_a_look_at_the_disk_that_fails_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with MemoryCluster(1) as cluster:
            broker = cluster.brokers[1]

            def fails() -> tuple[int, int]:
                raise ValueError("oh")

            with monkeypatch.context() as patching:
                patching.setattr(broker.storage, "space", fails)
                await cluster.until(lambda: "the look at the disk failed: ValueError: oh" in broker.condition().reasons)

    run(story)


def test_a_file_that_cannot_be_removed_at_once_shows() -> None:
    async def story() -> None:
        async with MemoryCluster(1) as cluster:
            broker = cluster.brokers[1]

            def fails() -> None:
                raise ValueError("oh")

            broker.parts.removal.unlink_soon([RemovedSegment(0, 10, "a test", fails, delay_ms=0)])
            await cluster.until(lambda: "removal failed: ValueError: oh" in broker.condition().reasons)

    run(story)


def test_a_broker_that_ends_by_itself_ends_although_a_task_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "END_SECONDS_MAX", 0.2)
    monkeypatch.setattr(app, "LET_GO_SECONDS_MAX", 0.2)

    async def story() -> None:
        async with MemoryCluster(1) as cluster:
            broker = cluster.brokers.pop(1)
            disk_answers = asyncio.Event()

            async def deaf() -> None:
                while not disk_answers.is_set():
                    with suppress(asyncio.CancelledError):
                        await disk_answers.wait()

            broker.spawn(deaf())
            await asyncio.sleep(0)
            broker.supervisor.on_one_off_death("roles", Rule.END, ValueError("oh"))
            async with asyncio.timeout(10):
                with pytest.raises(BrokerFailed, match="roles failed: ValueError: oh"):
                    await broker.stop()
            disk_answers.set()

    run(story)


HUNG = """
import time
from headrace.broker import app
from headrace.broker.supervision.supervision import Rule
from headrace.model.broker_settings import BrokerConfig

app.END_SECONDS_MAX = app.LET_GO_SECONDS_MAX = app.EXIT_SECONDS_MAX = 0.3

def on_ready(broker):
    broker.loop.run_in_executor(None, time.sleep, 3600)
    broker.supervisor.on_one_off_death("roles", Rule.END, ValueError("oh"))

app.serve(BrokerConfig({"node.id": "1", "listeners": "127.0.0.1:0", "headrace.memory": "true"}), on_ready)
"""


def test_a_broker_that_ends_by_itself_ends_its_process_although_a_thread_hangs_in_the_disk() -> None:
    ended = subprocess.run([sys.executable, "-c", HUNG], capture_output=True, text=True, timeout=30, check=False)

    assert ended.returncode == 1
    assert "the process exits now" in ended.stderr
    assert "roles failed: ValueError: oh" in ended.stderr


TOLD_TO_STOP = """
import os, signal, time
from headrace.broker import app
from headrace.model.broker_settings import BrokerConfig

app.STOP_SECONDS_MAX = app.EXIT_SECONDS_MAX = 0.3

def on_ready(broker):
    broker.loop.run_in_executor(None, time.sleep, 3600)
    os.kill(os.getpid(), signal.SIGTERM)

app.serve(BrokerConfig({"node.id": "1", "listeners": "127.0.0.1:0", "headrace.memory": "true"}), on_ready)
"""


def test_a_broker_that_is_told_to_stop_ends_its_process_although_a_thread_hangs_in_the_disk() -> None:
    ended = subprocess.run([sys.executable, "-c", TOLD_TO_STOP], capture_output=True, text=True, timeout=20, check=False)

    assert ended.returncode == 1
    assert "it was told to stop, and something it waits for does not answer" in ended.stderr

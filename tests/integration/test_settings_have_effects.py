"""Every setting does what it says, or says that it does nothing.

`PROOFS` has a row for each broker and topic setting: a value and a look at the running broker that sees it, or the tests that
show its effect.  A setting without a row fails, and so does one that claims an effect nobody sees.
"""

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.broker.app import Broker as RealBroker
from headrace.broker.coordinators.group_settings import group_settings
from headrace.broker.coordinators.transaction_shell import transaction_settings
from headrace.broker.metadata_store import etcd_address
from headrace.model.broker_settings import BROKER_SETTINGS, BrokerConfig
from headrace.model.errors import ErrorCode
from headrace.model.identity import NO_TOPIC_ID
from headrace.model.settings import Setting
from headrace.model.topic_settings import TOPIC_SETTINGS, LogConfig
from headrace.testing import Broker
from headrace.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.messages.fetch import FetchRequest
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.integration.memory_cluster import MemoryCluster, play
from tests.integration.test_request_limits import create
from tests.support.raw import RawClient, batch, produce

TESTS = Path(__file__).parents[1]


@dataclass(frozen=True)
class Seen:
    """With this value a broker shows something else than without."""

    value: str
    look: Callable[[RealBroker], Any]


@dataclass(frozen=True)
class Told:
    """A file of tests is about it."""

    path: str


HERE = Told("integration/test_settings_have_effects.py")
GROUP_FIELDS = {
    "group.min.session.timeout.ms": ("50", "min_session_timeout_ms"),
    "group.max.session.timeout.ms": ("1000000", "max_session_timeout_ms"),
    "group.initial.rebalance.delay.ms": ("7", "initial_rebalance_delay_ms"),
    "group.max.size": ("7", "max_size"),
    "group.consumer.session.timeout.ms": ("46000", "consumer_session_timeout_ms"),
    "group.consumer.heartbeat.interval.ms": ("6000", "consumer_heartbeat_interval_ms"),
    "group.consumer.max.size": ("7", "consumer_max_size"),
    "group.consumer.assignors": ("range", "consumer_assignors"),
    "group.consumer.assignment.interval.ms": ("70", "consumer_assignment_interval_ms"),
    "group.consumer.migration.policy": ("disabled", "migration_policy"),
    "group.consumer.regex.refresh.interval.ms": ("7000", "consumer_regex_refresh_interval_ms"),
    "offset.metadata.max.bytes": ("7", "offset_metadata_max_bytes"),
    "offsets.retention.minutes": ("7", "offsets_retention_ms"),
    "offsets.retention.check.interval.ms": ("7000", "offsets_retention_check_interval_ms"),
}
TRANSACTION_FIELDS = {
    "transaction.max.timeout.ms": ("7000", "max_timeout_ms"),
    "transactional.id.expiration.ms": ("7000", "transactional_id_expiration_ms"),
    "transaction.two.phase.commit.enable": ("true", "two_phase_commit_enable"),
}
ETCD_FIELDS = {
    "headrace.metadata": ("etcd://h:1", "endpoints"),
    "headrace.metadata.user": ("ann", "user"),
    "headrace.metadata.password": ("secret", "password"),
}


def _internal(name: str, field: str) -> Callable[[RealBroker], Any]:
    return lambda real: getattr(real.topics._as_broker_is_set(name), field)


def _group(field: str) -> Callable[[RealBroker], Any]:
    return lambda real: getattr(group_settings(real.config), field)


def _transaction(field: str) -> Callable[[RealBroker], Any]:
    return lambda real: getattr(transaction_settings(real.config), field)


PROOFS: dict[str, Seen | Told] = {
    # -- the broker's place
    "node.id": Seen("7", lambda real: real.membership.registration.broker_id),
    "broker.rack": Seen("a", lambda real: real.membership.registration.rack),
    "listeners": Told("integration/test_listeners.py"),
    "advertised.listeners": Told("unit/model/test_listener_settings.py"),
    "listener.security.protocol.map": Told("integration/test_listeners.py"),
    "inter.broker.listener.name": Told("integration/test_listeners.py"),
    "headrace.health.listener": Told("integration/test_health.py"),
    "log.dirs": Told("integration/memory_cluster.py"),
    "headrace.memory": Told("integration/memory_cluster.py"),
    "headrace.metadata": HERE,
    "headrace.metadata.namespace": Told("unit/metadata/conftest.py"),
    "headrace.metadata.user": HERE,
    "headrace.metadata.password": HERE,
    "headrace.metadata.ca": HERE,
    "headrace.metadata.certificate": HERE,
    "headrace.metadata.key": HERE,
    "broker.session.timeout.ms": Told("integration/test_lost_lease.py"),
    # -- limits
    "socket.request.max.bytes": Seen("70000", lambda real: real.server.frame_bytes_max),
    "connections.max.idle.ms": Seen("7000", lambda real: real.server._idle_seconds),
    "max.connections": Seen("7", lambda real: real.server._connections_max),
    "headrace.connection.requests.max": Seen("7", lambda real: real.server.requests_max),
    "headrace.connection.reply.bytes.max": Seen("7000", lambda real: real.server.reply_bytes_max),
    "headrace.connections.bytes.max": Told("integration/test_bounded_memory.py"),
    "queued.max.request.bytes": Told("integration/test_bounded_memory.py"),
    "headrace.connection.bytes.per.second.min": Told("integration/test_bounded_memory.py"),
    "headrace.connection.slow.ms": Told("integration/test_bounded_memory.py"),
    "fetch.max.bytes": Seen("7000", lambda real: real.fetch_bytes_max),
    "headrace.partitions.max": Told("integration/test_request_limits.py"),
    "producer.id.expiration.ms": Seen("7000", lambda real: real.topics.config_of("t").producer_id_expiration_ms),
    "headrace.disk.slow.ms": Told("integration/test_degraded.py"),
    # -- topics
    "auto.create.topics.enable": Told("integration/test_sdk_faults.py"),
    "num.partitions": Told("integration/test_sdk_faults.py"),
    "default.replication.factor": Seen("2", lambda real: real.topics._default_factor(real.config)),
    "delete.topic.enable": HERE,
    # -- housekeeping
    "log.retention.check.interval.ms": Told("integration/test_cleaning.py"),
    "log.cleaner.enable": HERE,
    "log.cleaner.backoff.ms": HERE,
    "log.flush.offset.checkpoint.interval.ms": HERE,
    # -- coordinators
    "offsets.topic.num.partitions": Seen("7", _internal("__consumer_offsets", "partition_count")),
    "offsets.topic.replication.factor": Told("integration/test_tasks_that_die.py"),
    "offsets.topic.segment.bytes": Seen("7000000", _internal("__consumer_offsets", "configs")),
    "transaction.state.log.num.partitions": Seen("7", _internal("__transaction_state", "partition_count")),
    "transaction.state.log.replication.factor": HERE,
    "transaction.state.log.min.isr": HERE,
    "transaction.state.log.segment.bytes": Seen("7000000", _internal("__transaction_state", "configs")),
    "offsets.commit.timeout.ms": Seen("7000", lambda real: real.groups.runtime._write_timeout_s),
    "request.timeout.ms": Seen("7000", lambda real: real.transactions.runtime._write_timeout_s),
    "transaction.partition.verification.enable": Told("integration/test_transactions_verification.py"),
    **{name: Seen(value, _group(field)) for name, (value, field) in GROUP_FIELDS.items()},
    **{name: Seen(value, _transaction(field)) for name, (value, field) in TRANSACTION_FIELDS.items()},
    "group.consumer.min.session.timeout.ms": Told("integration/test_group_settings.py"),
    "group.consumer.max.session.timeout.ms": Told("integration/test_group_settings.py"),
    "group.consumer.min.heartbeat.interval.ms": Told("integration/test_group_settings.py"),
    "group.consumer.max.heartbeat.interval.ms": Told("integration/test_group_settings.py"),
    "group.consumer.min.assignment.interval.ms": HERE,
    "group.consumer.max.assignment.interval.ms": Told("integration/test_group_settings.py"),
    # -- replication
    "replica.lag.time.max.ms": Seen("7000", lambda real: real.clustering.leaderships._lag_time_max_s),
    "replica.fetch.wait.max.ms": HERE,
    "replica.fetch.min.bytes": HERE,
    "replica.fetch.max.bytes": HERE,
    "replica.fetch.response.max.bytes": HERE,
    "replica.fetch.backoff.ms": HERE,
    "replica.selector.class": Told("integration/test_cluster_administration.py"),
    "auto.leader.rebalance.enable": HERE,
    "leader.imbalance.check.interval.seconds": HERE,
    "controlled.shutdown.enable": HERE,
    "leader.replication.throttled.rate": Told("integration/test_cluster_administration.py"),
    "follower.replication.throttled.rate": Told("integration/test_cluster_administration.py"),
    # -- topic settings
    "cleanup.policy": Told("integration/test_cleaning.py"),
    "compression.type": Told("unit/log/test_log_contract.py"),
    "delete.retention.ms": Told("integration/test_cleaning.py"),
    "file.delete.delay.ms": HERE,
    "flush.messages": HERE,
    "flush.ms": HERE,
    "follower.replication.throttled.replicas": Told("integration/test_cluster_administration.py"),
    "headrace.flush": Told("integration/test_groups_restart.py"),
    "headrace.ttl.enable": Told("integration/test_cleaning.py"),
    "index.interval.bytes": Told("unit/log/test_segments_and_indexes.py"),
    "leader.replication.throttled.replicas": Told("integration/test_cluster_administration.py"),
    "max.compaction.lag.ms": Told("unit/log/test_compaction_rules.py"),
    "max.message.bytes": Told("unit/log/test_log_contract.py"),
    "memory.full.policy": Told("unit/log/test_retention_rules.py"),
    "memory.max.bytes": Told("unit/log/test_retention_rules.py"),
    "memory.max.messages": Told("unit/log/test_retention_rules.py"),
    "message.timestamp.after.max.ms": Told("unit/log/test_log_contract.py"),
    "message.timestamp.before.max.ms": Told("unit/log/test_log_contract.py"),
    "message.timestamp.type": Told("unit/log/test_log_contract.py"),
    "min.cleanable.dirty.ratio": Told("unit/log/test_compaction_rules.py"),
    "min.compaction.lag.ms": Told("unit/log/test_compaction_rules.py"),
    "min.insync.replicas": Told("integration/test_cluster_failures.py"),
    "retention.bytes": Told("unit/log/test_retention_rules.py"),
    "retention.ms": Told("unit/log/test_retention_rules.py"),
    "segment.bytes": Told("unit/log/test_segments_and_indexes.py"),
    "internal.segment.bytes": Told("integration/test_cleaning.py"),
    "segment.index.bytes": Told("unit/log/test_segments_and_indexes.py"),
    "segment.jitter.ms": Told("unit/log/test_segments_and_indexes.py"),
    "segment.ms": Told("unit/log/test_segments_and_indexes.py"),
    "unclean.leader.election.enable": Told("integration/test_unclean_elections.py"),
}
# The defaults of topic settings: they are proven by what a topic that sets nothing works with.
SYNONYMS = {synonym: setting for setting in TOPIC_SETTINGS for synonym in setting.synonyms}


def settings() -> Iterator[Setting]:
    yield from (setting for setting in BROKER_SETTINGS if setting.name not in SYNONYMS)
    yield from TOPIC_SETTINGS


def test_every_setting_has_a_proof_or_is_marked_as_of_no_effect() -> None:
    unproven = {setting.name for setting in settings() if not setting.compatibility and setting.name not in PROOFS}
    marked = {setting.name for setting in settings() if setting.compatibility and setting.name in PROOFS}
    gone = PROOFS.keys() - {setting.name for setting in settings()}

    assert not unproven, "add a row to PROOFS, or mark it as taken for compatibility only"
    assert not marked, "what has a proof is not of no effect"
    assert not gone


@pytest.mark.parametrize("name", sorted(name for name, proof in PROOFS.items() if isinstance(proof, Told)))
def test_the_tests_that_are_named_are_about_the_setting(name: str) -> None:
    proof = PROOFS[name]
    assert isinstance(proof, Told)
    text = (TESTS / proof.path).read_text()

    field = {"headrace.ttl.enable": "message_ttl_enable", "headrace.metadata.namespace": "namespace"}.get(name)
    forms = {f'"{name}"', name.replace(".", "_"), f"{name}=", field or name}
    assert any(re.search(re.escape(form), text) for form in forms), f"{proof.path} says nothing of {name}"


def test_a_running_broker_shows_every_setting_that_it_was_given() -> None:
    rows = {name: proof for name, proof in PROOFS.items() if isinstance(proof, Seen)}
    given = {name: proof.value for name, proof in rows.items()}
    with Broker() as plain, Broker(settings=given) as other:
        before = {name: plain.run(proof.look) for name, proof in rows.items()}
        after = {name: other.run(proof.look) for name, proof in rows.items()}

    assert not [name for name in rows if before[name] == after[name]]


@pytest.mark.parametrize("name", sorted(name for name in SYNONYMS if not BROKER_SETTINGS[name].compatibility))
def test_a_default_for_topics_is_what_a_topic_works_with_that_sets_nothing(name: str) -> None:
    setting = BROKER_SETTINGS[name]
    default = BrokerConfig().topic_defaults()
    if setting.choices:
        text = next(choice for choice in setting.choices if choice not in str(setting.default))
    elif isinstance(setting.default, bool):
        text = str(not setting.default).lower()
    else:
        text = "0.7" if isinstance(setting.default, float) else "2000000"

    assert BrokerConfig({name: text}).topic_defaults() != default


@pytest.mark.parametrize(("name", "field"), [(name, field) for name, (_, field) in ETCD_FIELDS.items()])
def test_where_the_metadata_lives_is_as_it_is_set(name: str, field: str) -> None:
    plain = etcd_address(BrokerConfig({"headrace.metadata": "etcd://other:1"}))

    changed = etcd_address(BrokerConfig({"headrace.metadata": "etcd://other:1", name: ETCD_FIELDS[name][0]}))

    assert getattr(changed, field) != getattr(plain, field)


def test_the_certificates_for_etcd_are_those_that_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    context = SimpleNamespace(load_cert_chain=lambda *files: loaded.append(files))
    loaded: list[tuple[str | None, ...]] = []
    monkeypatch.setattr("ssl.create_default_context", lambda cafile: loaded.append((cafile,)) or context)
    files = {"headrace.metadata.ca": "a", "headrace.metadata.certificate": "c", "headrace.metadata.key": "k"}

    etcd_address(BrokerConfig({"headrace.metadata": "etcds://h:1", **files}))

    assert loaded == [("a",), ("c", "k")]


def test_a_group_cannot_set_less_than_the_broker_allows() -> None:
    with Broker(settings={"group.consumer.min.assignment.interval.ms": 100}) as broker, RawClient(broker.bootstrap) as client:
        assert alter(client, "consumer.assignment.interval.ms", "99", of=(32, "g")) == ErrorCode.INVALID_CONFIG
        assert alter(client, "consumer.assignment.interval.ms", "100", of=(32, "g")) == ErrorCode.NONE


def test_topics_stay_where_delete_topic_enable_is_false() -> None:
    with Broker(settings={"delete.topic.enable": False}) as broker, RawClient(broker.bootstrap) as client:
        create(client, "t", 1)
        state = DeleteTopicState(name="t", topic_id=NO_TOPIC_ID)

        response = client.call(DeleteTopicsRequest(topics=(state,), timeout_ms=5000), 6)

        assert response.responses[0].error_code == ErrorCode.TOPIC_DELETION_DISABLED


def alter(client: RawClient, name: str, value: str, of: tuple[int, str] = (4, "")) -> int:
    config = AlterableConfig(name=name, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=of[0], resource_name=of[1], configs=(config,))
    return int(client.call(IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False), 1).responses[0].error_code)


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def test_the_cleaner_rests_for_as_long_as_it_is_told_at_run_time() -> None:
    with Broker(settings={"log.cleaner.backoff.ms": 3_600_000}) as broker, RawClient(broker.bootstrap) as client:
        passes: list[float] = []

        async def clean_all() -> None:
            passes.append(time.monotonic())

        def watch(real: RealBroker) -> None:
            real.housekeeping.cleaner.clean_all = clean_all  # type: ignore[method-assign]

        # The loop took the method when it began, an hour's rest ago: begin it again with the one that is watched.
        async def begin_again() -> None:
            real = broker.broker
            assert real is not None
            watch(real)
            await real.housekeeping._scope.close()
            real.housekeeping.start()

        broker.call(begin_again())
        assert not passes

        assert alter(client, "log.cleaner.backoff.ms", "5") == 0

        until(lambda: len(passes) > 2, "the cleaner went on resting")


@pytest.mark.parametrize("enabled", [True, False])
def test_compaction_runs_where_log_cleaner_enable_says_so(enabled: bool) -> None:
    with Broker(settings={"log.cleaner.enable": enabled}) as broker:
        names = broker.run(lambda real: {task.get_name() for task in asyncio.all_tasks()})

        assert any("cleaning" in name for name in names) == enabled


def test_recovery_points_are_written_down_as_often_as_is_set(tmp_path: Path) -> None:
    with Broker(data=tmp_path, settings={"log.flush.offset.checkpoint.interval.ms": 20}) as broker:
        with RawClient(broker.bootstrap) as client:
            create(client, "t", 1)
            client.call(produce("t", batch(b"a")), 9)

        checkpoint = tmp_path / "recovery-point-offset-checkpoint"
        until(lambda: checkpoint.exists() and "t 0 1" in checkpoint.read_text(), "nothing was written down")


@pytest.mark.parametrize(("delay_ms", "stays"), [(3_600_000, True), (1, False)])
def test_the_files_of_removed_segments_stay_for_file_delete_delay_ms(tmp_path: Path, delay_ms: int, stays: bool) -> None:
    given = {"log.segment.delete.delay.ms": delay_ms, "internal.log.segment.bytes": 200}
    with Broker(data=tmp_path, settings=given) as broker, RawClient(broker.bootstrap) as client:
        create(client, "t", 1)
        for _ in range(5):
            client.call(produce("t", batch(b"x" * 100)), 9)
        partition = DeleteRecordsPartition(partition_index=0, offset=4)
        client.call(DeleteRecordsRequest(topics=(DeleteRecordsTopic(name="t", partitions=(partition,)),), timeout_ms=5000), 2)

        def left() -> bool:
            return bool(list((tmp_path / "t-0").glob("*.deleted")))

        if stays:
            assert left()
        else:
            until(lambda: not left(), "the files stay")
    with Broker(data=tmp_path):
        assert not list((tmp_path / "t-0").glob("*.deleted"))


@pytest.mark.parametrize(("name", "value"), [("log.flush.interval.messages", 3), ("log.flush.interval.ms", 30)])
def test_records_are_flushed_at_the_interval_that_is_set(tmp_path: Path, name: str, value: int) -> None:
    never = {"log.flush.interval.messages": 1_000_000, "log.flush.interval.ms": 3_600_000, "headrace.flush": "interval"}
    with Broker(data=tmp_path, settings={**never, name: value}) as broker, RawClient(broker.bootstrap) as client:
        create(client, "t", 1)

        def unflushed(real: RealBroker) -> int:
            (partition,) = real.replicas.of_topic("t")
            return partition.log.unflushed_messages

        client.call(produce("t", batch(b"a", b"b"), acks=1), 9)
        if name.endswith("messages"):
            assert broker.run(unflushed) == 2
            client.call(produce("t", batch(b"c"), acks=1), 9)
        until(lambda: broker.run(unflushed) == 0, "nothing was flushed")


def test_followers_fetch_as_they_are_set() -> None:
    given = {
        "replica.fetch.wait.max.ms": "77",
        "replica.fetch.min.bytes": "7",
        "replica.fetch.max.bytes": "7777",
        "replica.fetch.response.max.bytes": "77777",
    }

    async def story() -> None:
        async with MemoryCluster(2, given) as cluster:
            asked: list[FetchRequest] = []
            for real in cluster.brokers.values():
                call = real.peers.call

                async def heard(broker_id: int, request: Any, *rest: Any, call: Any = call, **more: Any) -> Any:
                    if isinstance(request, FetchRequest):
                        asked.append(request)
                    return await call(broker_id, request, *rest, **more)

                real.peers.call = heard  # type: ignore[method-assign]
            await cluster.create_topic("t", 2, 2)
            await cluster.until(lambda: any(request.max_wait_ms == 77 for request in asked))
            assert {request.min_bytes for request in asked} == {7}
            assert {request.max_bytes for request in asked} == {77_777}
            assert {part.partition_max_bytes for each in asked for topic in each.topics for part in topic.partitions} == {7777}

    play(story)


def test_a_follower_rests_after_a_failed_fetch_for_as_long_as_is_set() -> None:
    async def story() -> None:
        async with MemoryCluster(2, {"replica.fetch.backoff.ms": "123"}) as cluster:
            real = cluster.brokers[1]
            assert real.config["replica.fetch.backoff.ms"] == 123
            # What rests is told by the fetcher's own clock: a third of a second holds no more than three attempts.
            attempts: list[float] = []

            async def fail(*_: Any, **__: Any) -> Any:
                attempts.append(asyncio.get_running_loop().time())
                raise OSError("no")

            await cluster.create_topic("t", 2, 2)
            for each in cluster.brokers.values():
                each.peers.call = fail  # type: ignore[method-assign]
            await cluster.until(lambda: len(attempts) > 4)
            assert attempts[-1] - attempts[0] > 0.123

    play(story)


def test_the_topic_of_transactions_has_as_many_replicas_as_is_set_and_there_are_brokers() -> None:
    given = {"transaction.state.log.replication.factor": "2", "transaction.state.log.min.isr": "2"}

    async def story() -> None:
        async with MemoryCluster(3, given) as cluster:
            await cluster.call(1, FindCoordinatorRequest(key_type=1, coordinator_keys=("pay",)), 4)
            topic = cluster.image.topics["__transaction_state"]
            assert topic.replication_factor == 2
            assert topic.configs["min.insync.replicas"] == "2"

    play(story)


@pytest.mark.parametrize(
    ("enabled", "seconds", "balances"), [("true", "1", True), ("false", "1", False), ("true", "1000000", False)]
)
def test_leadership_is_balanced_where_and_as_often_as_is_set(enabled: str, seconds: str, balances: bool) -> None:
    given = {"auto.leader.rebalance.enable": enabled, "leader.imbalance.check.interval.seconds": seconds}

    async def story() -> None:
        async with MemoryCluster(1, given) as cluster:
            real = cluster.brokers[1]
            controller, long_ago = real.clustering.controller, real.loop.time() - 1000
            controller._balanced_at = long_ago
            await controller._balance()
            assert (controller._balanced_at > long_ago) == balances

    play(story)


@pytest.mark.parametrize(("enabled", "hands_over"), [("true", True), ("false", False)])
def test_a_stopping_broker_hands_over_where_controlled_shutdown_says_so(enabled: str, hands_over: bool) -> None:
    async def story() -> None:
        async with MemoryCluster(2, {"controlled.shutdown.enable": enabled}) as cluster:
            await cluster.create_topic("t", 4, 2)
            leaving = cluster.brokers[2]
            await leaving.clustering.hand_over()
            leaders = {state.leader for state in cluster.image.topics["t"].partitions}
            assert (leaders == {1}) == hands_over

    play(story)


def test_log_config_has_no_field_that_nobody_reads() -> None:
    source = "".join(path.read_text() for path in (TESTS.parent / "src" / "headrace").rglob("*.py") if "model" not in path.parts)
    derived = {"segment_ms", "segment_jitter_ms", "max_compaction_lag_ms", "cleanup_policy", "message_timestamp_before_max_ms"}

    unread = [name for name in LogConfig.__dataclass_fields__ if name not in derived and f".{name}" not in source]

    assert unread == ["preallocate"]

"""Settings, each with a value that makes a difference, and the difference that somebody sees."""

import asyncio
import base64
import importlib
import json
import re
import time
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.broker.app import Broker as RealBroker
from headrace.broker.cluster.metadata_store import etcd_address, open_store
from headrace.host.entropy import SystemEntropy
from headrace.model.broker_settings import BrokerConfig
from headrace.model.errors import ErrorCode
from headrace.model.identity import NO_TOPIC_ID
from headrace.model.settings import SettingError
from headrace.testing import Broker
from headrace.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.messages.init_producer_id import InitProducerIdRequest
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from tests.integration.memory_cluster import MemoryCluster, play
from tests.integration.test_request_limits import create
from tests.support.raw import RawClient, ask_until_created, batch, produce
from tests.support.waiting import until

TESTS = Path(__file__).parents[1]


def test_the_certificates_for_etcd_are_those_that_are_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    importlib.import_module("headrace.metadata.etcd_http")  # which makes contexts of its own when it is loaded
    context = SimpleNamespace(load_cert_chain=lambda *files: loaded.append(files))
    loaded: list[tuple[str | None, ...]] = []
    monkeypatch.setattr("ssl.create_default_context", lambda cafile=None: loaded.append((cafile,)) or context)
    key = tmp_path / "key"
    key.touch(0o600)
    files = {"headrace.metadata.ca": "a", "headrace.metadata.certificate": "c", "headrace.metadata.key": str(key)}

    etcd_address(BrokerConfig({"headrace.metadata": "etcds://h:1", **files}))

    assert loaded == [("a",), ("c", str(key))]
    key.chmod(0o644)
    with pytest.raises(SettingError, match=f"headrace.metadata.key {key} holds a secret, and others may read it"):
        etcd_address(BrokerConfig({"headrace.metadata": "etcds://h:1", **files}))


def test_files_for_etcd_that_cannot_be_used_are_named() -> None:
    with pytest.raises(SettingError, match=r"TLS with etcd cannot be used \(headrace.metadata.ca=/nowhere.pem.*No such file"):
        etcd_address(BrokerConfig({"headrace.metadata": "etcds://h:1", "headrace.metadata.ca": "/nowhere.pem"}))


def test_a_password_for_etcd_is_not_taken_from_its_address_and_not_told() -> None:
    with pytest.raises(SettingError, match=r"give them as headrace.metadata.user and headrace.metadata.password") as refused:
        etcd_address(BrokerConfig({"headrace.metadata": "etcd://h:1,root:hidden@i:1"}))

    assert "hidden" not in str(refused.value)


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


def test_the_cleaner_rests_for_as_long_as_it_is_told_at_run_time() -> None:
    with Broker(settings={"log.cleaner.backoff.ms": 3_600_000}) as broker, RawClient(broker.bootstrap) as client:
        passes: list[float] = []

        async def clean_all() -> None:
            passes.append(time.monotonic())

        def watch(real: RealBroker) -> None:
            real.parts.housekeeping.cleaner.clean_all = clean_all  # type: ignore[method-assign]

        # The loop took the method when it began, an hour's rest ago: begin it again with the one that is watched.
        async def begin_again() -> None:
            real = broker.broker
            assert real is not None
            watch(real)
            await real.parts.housekeeping._scope.close()
            real.parts.housekeeping.start(real.supervisor.scope("housekeeping"))

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


@pytest.mark.parametrize(("name", "value"), [("log.flush.interval.messages", 3), ("log.flush.interval.ms", 30)])
def test_records_are_flushed_at_the_interval_that_is_set(tmp_path: Path, name: str, value: int) -> None:
    never = {"log.flush.interval.messages": 1_000_000, "log.flush.interval.ms": 3_600_000, "headrace.flush": "interval"}
    with Broker(data=tmp_path, settings={**never, name: value}) as broker, RawClient(broker.bootstrap) as client:
        create(client, "t", 1)

        def unflushed(real: RealBroker) -> int:
            (partition,) = real.parts.replicas.of_topic("t")
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
                call = real.parts.peers.call

                async def heard(broker_id: int, request: Any, *rest: Any, call: Any = call, **more: Any) -> Any:
                    if isinstance(request, FetchRequest):
                        asked.append(request)
                    return await call(broker_id, request, *rest, **more)

                real.parts.peers.call = heard  # type: ignore[method-assign]
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
                each.parts.peers.call = fail  # type: ignore[method-assign]
            await cluster.until(lambda: len(attempts) > 4)
            assert attempts[-1] - attempts[0] > 0.123

    play(story)


@pytest.mark.parametrize(
    ("enabled", "seconds", "balances"), [("true", "1", True), ("false", "1", False), ("true", "1000000", False)]
)
def test_leadership_is_balanced_where_and_as_often_as_is_set(enabled: str, seconds: str, balances: bool) -> None:
    given = {"auto.leader.rebalance.enable": enabled, "leader.imbalance.check.interval.seconds": seconds}

    async def story() -> None:
        async with MemoryCluster(1, given) as cluster:
            real = cluster.brokers[1]
            controller, long_ago = real.parts.participation.controller, real.loop.time() - 1000
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
            await leaving.parts.participation.hand_over()
            leaders = {state.leader for state in cluster.image.topics["t"].partitions}
            assert (leaders == {1}) == hands_over

    play(story)


# -- the broker's place


def test_clients_are_told_the_number_and_the_rack_that_are_set() -> None:
    with Broker(settings={"node.id": 7, "broker.rack": "a"}) as broker, RawClient(broker.bootstrap) as client:
        (told,) = client.call(MetadataRequest(topics=()), 12).brokers

        assert (told.node_id, told.rack) == (7, "a")


def test_clients_are_told_what_is_advertised() -> None:
    with Broker(settings={"advertised.listeners": "broker.example:77"}) as broker, RawClient(broker.bootstrap) as client:
        (told,) = client.call(MetadataRequest(topics=()), 12).brokers

        assert (told.host, told.port) == ("broker.example", 77)


@pytest.mark.parametrize("memory", [True, False])
def test_records_are_on_the_disk_where_it_is_set_or_nowhere(tmp_path: Path, memory: bool) -> None:
    async def story() -> None:
        given = {"log.dirs": str(tmp_path / "logs"), "headrace.memory": str(memory).lower(), "listeners": "127.0.0.1:0"}
        real = RealBroker(BrokerConfig(given))
        await real.start()
        await real.parts.topics.ensure("t")
        await real.stop()

    play(story)

    assert (tmp_path / "logs" / "t-0").exists() != memory


def test_etcd_is_asked_where_it_is_by_whom_and_for_what_is_set() -> None:
    asked: list[tuple[str, dict[str, str]]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                size = re.search(r"content-length: (\d+)", head, re.I)
                asked.append((head.split()[1], json.loads(await reader.readexactly(int(size[1]))) if size else {}))
                reply = json.dumps({"token": "t", "etcdserver": "3.6.0"}).encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(reply))
                writer.write(reply)

    async def story() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        given = {
            "headrace.metadata": f"etcd://127.0.0.1:{port}",
            "headrace.metadata.namespace": "other",
            "headrace.metadata.user": "ann",
            "headrace.metadata.password": "secret",
            "log.dirs": "/does/not/exist",
        }
        store = await open_store(BrokerConfig(given), SystemEntropy())
        await store.get("key")
        await store.close()
        server.close()

    play(story)

    assert ("/v3/auth/authenticate", {"name": "ann", "password": "secret"}) in asked
    assert ("/v3/kv/range", {"key": base64.b64encode(b"other/key").decode()}) in asked


# -- limits


def test_a_larger_request_than_is_allowed_ends_its_connection() -> None:
    with Broker(settings={"socket.request.max.bytes": 20_000}) as broker, RawClient(broker.bootstrap) as client:
        ask_until_created(client, "t")
        assert client.call(produce("t", batch(b"x" * 19_000)), 9).responses[0].partition_responses[0].error_code == 0

        client.send_request(produce("t", batch(b"x" * 20_000)), 9)

        assert client.is_closed_by_broker()


def test_a_silent_connection_is_closed_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.broker.network.server.SWEEP_SECONDS", 0.05)
    with Broker(settings={"connections.max.idle.ms": 1000}) as broker, RawClient(broker.bootstrap, timeout=5) as client:
        client.call(MetadataRequest(topics=()), 12)

        assert client.is_closed_by_broker()


def test_one_connection_too_many_is_refused() -> None:
    with Broker(settings={"max.connections": 3}) as broker:
        clients = [RawClient(broker.bootstrap) for _ in range(3)]
        for client in clients:
            client.call(MetadataRequest(topics=()), 12)

        with RawClient(broker.bootstrap) as another:
            assert another.is_closed_by_broker()
        for client in clients:
            client.socket.close()


def fetch(offset: int, *, max_wait_ms: int = 0) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000_000)
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=(FetchTopic(topic="t", partitions=(wanted,)),))


def is_written_behind(requests: list[tuple[Any, int]], settings: dict[str, Any]) -> bool:
    """Whether a client's write is done that it sends behind these requests, while it takes no reply."""
    with Broker(settings=settings) as broker, RawClient(broker.bootstrap) as client:
        ask_until_created(client, "t")
        client.call(produce("t", batch(b"x" * 900_000)), 9)
        for request, version in requests:
            client.send_request(request, version)
            time.sleep(0.02)
        client.send_request(produce("t", batch(b"behind")), 9)
        with suppress(AssertionError):
            until(lambda: broker.run(end_offset) == 2, seconds=0.5)
        return broker.run(end_offset) == 2


def end_offset(real: RealBroker) -> int:
    (partition,) = real.parts.replicas.of_topic("t")
    return partition.log.end_offset


def test_a_connection_with_too_many_requests_under_way_is_not_read() -> None:
    waiting = [(fetch(1, max_wait_ms=60_000), 12)] * 10

    assert is_written_behind(waiting, {})
    assert not is_written_behind(waiting, {"headrace.connection.requests.max": 7})


def test_a_connection_with_too_many_bytes_held_for_it_is_not_read() -> None:
    # Replies leave in the order of their requests: those to the later ones are held behind one that waits.
    every = DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)
    large = [(fetch(1, max_wait_ms=60_000), 12), *[(DescribeConfigsRequest(resources=(every,)), 4)] * 3]

    assert is_written_behind(large, {})
    assert not is_written_behind(large, {"headrace.connection.reply.bytes.max": 2000})


def test_one_reply_carries_no_more_than_is_set() -> None:
    def sizes(settings: dict[str, int]) -> int:
        with Broker(settings=settings) as broker, RawClient(broker.bootstrap) as client:
            ask_until_created(client, "t")
            for _ in range(10):
                client.call(produce("t", batch(b"x" * 1000)), 9)
            wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
            request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=(FetchTopic(topic="t", partitions=(wanted,)),))
            return len(client.call(request, 12).responses[0].partitions[0].records)

    assert 1000 < sizes({"fetch.max.bytes": 3000}) <= 3000
    assert sizes({}) > 10_000


# -- topics


def test_no_topic_is_created_by_naming_it_where_that_is_switched_off() -> None:
    with Broker(settings={"auto.create.topics.enable": False}) as broker, RawClient(broker.bootstrap) as client:
        named = MetadataRequest(topics=(MetadataRequestTopic(name="t"),))
        assert client.call(named, 12).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

        assert alter(client, "auto.create.topics.enable", "true") == ErrorCode.NONE
        assert "t" not in broker.run(lambda real: real.image.topics)
        ask_until_created(client, "t")


def test_a_topic_that_does_not_say_gets_the_replicas_that_are_set() -> None:
    async def story() -> None:
        async with MemoryCluster(3, {"default.replication.factor": "2"}) as cluster:
            await cluster.create_topic("t", 1, -1)
            assert cluster.image.topics["t"].replication_factor == 2

    play(story)


# -- coordinators


def test_the_topic_of_offsets_is_made_as_it_is_set() -> None:
    given = {
        "offsets.topic.num.partitions": "7",
        "offsets.topic.replication.factor": "2",
        "offsets.topic.segment.bytes": "7000000",
    }

    async def story() -> None:
        async with MemoryCluster(3, given) as cluster:
            await cluster.call(1, FindCoordinatorRequest(key_type=0, coordinator_keys=("g",)), 4)
            topic = cluster.image.topics["__consumer_offsets"]
            assert (topic.partition_count, topic.replication_factor) == (7, 2)
            assert topic.configs["segment.bytes"] == "7000000"

    play(story)


def test_the_topic_of_transactions_is_made_as_it_is_set() -> None:
    given = {
        "transaction.state.log.num.partitions": "7",
        "transaction.state.log.replication.factor": "2",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.segment.bytes": "7000000",
    }

    async def story() -> None:
        async with MemoryCluster(3, given) as cluster:
            await cluster.call(1, FindCoordinatorRequest(key_type=1, coordinator_keys=("pay",)), 4)
            topic = cluster.image.topics["__transaction_state"]
            assert (topic.partition_count, topic.replication_factor) == (7, 2)
            assert (topic.configs["min.insync.replicas"], topic.configs["segment.bytes"]) == ("1", "7000000")

    play(story)


def test_the_topic_of_share_groups_states_is_made_as_it_is_set() -> None:
    given = {
        "share.coordinator.state.topic.num.partitions": "7",
        "share.coordinator.state.topic.replication.factor": "2",
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.segment.bytes": "7000000",
    }

    async def story() -> None:
        async with MemoryCluster(3, given) as cluster:
            await cluster.call(1, FindCoordinatorRequest(key_type=2, coordinator_keys=("g:AAAAAAAAAAAAAAAAAAAAAQ:0",)), 6)
            topic = cluster.image.topics["__share_group_state"]
            assert (topic.partition_count, topic.replication_factor) == (7, 2)
            assert (topic.configs["min.insync.replicas"], topic.configs["segment.bytes"]) == ("1", "7000000")
            assert (topic.configs["cleanup.policy"], topic.configs["retention.ms"]) == ("delete", "-1")

    play(story)


@pytest.mark.parametrize(
    ("limit", "value", "beyond"),
    [
        ("group.consumer.min.session.timeout.ms", "40000", "39999"),
        ("group.consumer.max.session.timeout.ms", "70000", "70001"),
        ("group.consumer.min.heartbeat.interval.ms", "4000", "3999"),
        ("group.consumer.max.heartbeat.interval.ms", "16000", "16001"),
        ("group.consumer.min.assignment.interval.ms", "100", "99"),
        ("group.consumer.max.assignment.interval.ms", "14000", "14001"),
    ],
)
def test_a_group_sets_nothing_outside_of_what_the_broker_allows(limit: str, value: str, beyond: str) -> None:
    name = limit.replace("group.", "").replace(".min", "").replace(".max", "")
    needed = {"group.consumer.assignment.interval.ms": 1000}
    with Broker(settings={**needed, limit: value}) as broker, RawClient(broker.bootstrap) as client:
        assert alter(client, name, beyond, of=(32, "g")) == ErrorCode.INVALID_CONFIG
        assert alter(client, name, value, of=(32, "g")) == ErrorCode.NONE


@pytest.mark.parametrize("least", [True, False])
def test_a_member_may_ask_for_sessions_within_the_limits_that_are_set(least: bool) -> None:
    given = {"group.min.session.timeout.ms": 7000} if least else {"group.max.session.timeout.ms": 7000}
    with Broker(settings=given) as broker, RawClient(broker.bootstrap) as client:
        client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=("g",)), 4)
        protocols = (JoinGroupRequestProtocol(name="range", metadata=b""),)
        ask = partial(JoinGroupRequest, group_id="g", member_id="", protocol_type="consumer", protocols=protocols)

        beyond = client.call(ask(session_timeout_ms=6999 if least else 7001), 5)
        assert beyond.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
        assert client.call(ask(session_timeout_ms=7000), 5).error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_an_assignor_that_is_not_set_is_refused() -> None:
    def joining(settings: dict[str, str]) -> int:
        with Broker(settings=settings) as broker, RawClient(broker.bootstrap) as client:
            client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=("g",)), 4)
            request = ConsumerGroupHeartbeatRequest(
                group_id="g",
                member_id="m",
                member_epoch=0,
                rebalance_timeout_ms=1000,
                subscribed_topic_names=("t",),
                server_assignor="uniform",
                topic_partitions=(),
            )
            return int(client.call(request, 0).error_code)

    assert joining({"group.consumer.assignors": "range"}) == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert joining({}) == ErrorCode.NONE


def test_a_producer_may_ask_for_no_longer_transactions_than_is_set() -> None:
    with Broker(settings={"transaction.max.timeout.ms": 7000}) as broker, RawClient(broker.bootstrap) as client:
        client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=("x",)), 4)
        ask = partial(InitProducerIdRequest, transactional_id="x")

        assert client.call(ask(transaction_timeout_ms=7001), 4).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
        assert client.call(ask(transaction_timeout_ms=7000), 4).error_code == ErrorCode.NONE


async def held(cluster: MemoryCluster, key_type: int, topic: str, request: Any, version: int) -> tuple[int, float]:
    """What a coordinator answers whose replicas confirm nothing, and after how long."""
    await cluster.call(1, FindCoordinatorRequest(key_type=key_type, coordinator_keys=("x",)), 4)
    for partition in cluster.brokers[1].parts.replicas.of_topic(topic):
        partition.advance = lambda: None  # type: ignore[method-assign]
    began = time.monotonic()
    answer = await cluster.call(1, request, version)
    code = answer.topics[0].partitions[0].error_code if key_type == 0 else answer.error_code
    return code, time.monotonic() - began


def test_a_commit_that_no_replica_confirms_is_refused_in_time() -> None:
    async def story() -> None:
        async with MemoryCluster(1, {"offsets.commit.timeout.ms": "50", "offsets.topic.num.partitions": "1"}) as cluster:
            await cluster.create_topic("t", 1, 1)
            partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
            topics = (OffsetCommitRequestTopic(name="t", partitions=(partition,)),)
            commit = OffsetCommitRequest(group_id="x", generation_id_or_member_epoch=-1, member_id="", topics=topics)
            code, seconds = await held(cluster, 0, "__consumer_offsets", commit, 8)
            assert code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert seconds < 5

    play(story)


def test_a_transaction_that_no_replica_confirms_is_refused_in_time() -> None:
    async def story() -> None:
        async with MemoryCluster(1, {"request.timeout.ms": "50", "transaction.state.log.num.partitions": "1"}) as cluster:
            request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000)
            code, seconds = await held(cluster, 1, "__transaction_state", request, 4)
            assert code != ErrorCode.NONE
            assert seconds < 5

    play(story)


# -- replication


def test_a_follower_that_lags_for_longer_than_is_set_leaves_the_in_sync_set() -> None:
    async def story() -> None:
        async with MemoryCluster(2, {"replica.lag.time.max.ms": "300"}) as cluster:
            await cluster.create_topic("t", 1, 2)
            state = cluster.image.topics["t"].partitions[0]
            await cluster.until(lambda: len(cluster.image.topics["t"].partitions[0].isr) == 2)

            async def fail(*_: Any, **__: Any) -> Any:
                raise OSError("no")

            cluster.brokers[3 - state.leader].parts.peers.call = fail  # type: ignore[method-assign]
            async with asyncio.timeout(8):
                written = await cluster.produce(state.leader, "t", "x")
            assert written.responses[0].partition_responses[0].error_code == ErrorCode.NONE
            assert cluster.image.topics["t"].partitions[0].isr == (state.leader,)

    play(story)

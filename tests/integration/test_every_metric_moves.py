"""Every metric moves when what it counts happens.

`PROOFS` names for each metric a test, here or beside, that makes it happen and sees the metric move.  One without a row fails,
and so does a row whose test does not speak of the metric.
"""

import gc
import inspect
import logging
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace import Admin
from headrace.broker.audit import trail
from headrace.broker.cluster.peers import PeerUnreachable
from headrace.broker.delaying.delivering import Outlet
from headrace.metrics.log_lines import LimitedRepetition
from headrace.model.errors import ErrorCode
from headrace.records.batch import build_batch
from headrace.records.record import Record
from headrace.testing import Broker
from headrace.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from headrace.wire.messages.delete_topics import DeleteTopicsRequest
from headrace.wire.messages.metadata import MetadataRequest
from tests.integration import test_client_telemetry as client_telemetry
from tests.integration import test_metrics_of_disks_and_replicas as disks_and_replicas
from tests.support.metrics import AT_ANY_PORT, PRODUCE_VERSION, Watch, all_families, fetch, write
from tests.support.raw import RawClient, ask_until_created, batch, frame, produce
from tests.support.share_member import ShareMember
from tests.support.share_requests import ACCEPT, REJECT, RELEASE
from tests.support.waiting import until


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings=AT_ANY_PORT) as broker:
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap) as client:
        yield client


@pytest.fixture
def topic(client: RawClient, request: pytest.FixtureRequest) -> str:
    name = str(request.node.name)[:80]
    ask_until_created(client, name)
    return name


def test_records_that_go_in_and_out(broker: Broker, client: RawClient, topic: str) -> None:
    watch, records = Watch(broker), batch(b"one", b"two", b"three")
    assert write(client, topic, records) is ErrorCode.NONE
    client.call(fetch(topic, 1), 12)

    assert watch.moved("headrace_produced_records_total") == 3
    assert watch.moved("headrace_produced_bytes_total") == len(records)
    assert watch.moved("headrace_consumed_records_total") == 2
    assert watch.moved("headrace_consumed_bytes_total") == len(records)
    assert watch.moved("headrace_log_size_bytes") == len(records)
    assert watch.moved("headrace_batch_size_bytes" + "_sum") == len(records)
    assert watch.moved("headrace_batch_records" + "_bucket", le="4.0") == 1
    one = {"topic": topic, "partition": 0}
    assert watch.moved("headrace_partition_produced_records_total", **one) == 3
    assert watch.moved("headrace_partition_produced_bytes_total", **one) == len(records)
    assert watch.moved("headrace_partition_consumed_records_total", **one) == 2
    assert watch.moved("headrace_partition_consumed_bytes_total", **one) == len(records)
    assert watch.moved("headrace_partition_high_watermark", **one) == 3
    assert watch.moved("headrace_partition_end_offset", **one) == 3
    assert watch.moved("headrace_partition_size_bytes", **one) == len(records)


def test_what_deleted_topics_did_stays_counted(broker: Broker, client: RawClient, topic: str) -> None:
    watch = Watch(broker)
    write(client, topic, batch(b"one"))
    assert watch.moved("headrace_produced_records_total") == 1
    client.call(DeleteTopicsRequest(topic_names=(topic,), timeout_ms=5000), 4)
    until(lambda: watch.now("headrace_partition_end_offset", topic=topic) == 0)

    assert watch.moved("headrace_produced_records_total") == 1


def test_segments_and_where_a_log_begins(broker: Broker, client: RawClient, topic: str) -> None:
    watch = Watch(broker)
    other = f"{topic}-2"
    ask_until_created(client, other)
    write(client, topic, batch(b"one", b"two"))
    broker.run(lambda real: real.parts.replicas.find(topic, 0).log.delete_before(1))

    assert watch.moved("headrace_partition_start_offset", topic=topic) == 1
    assert watch.moved("headrace_log_segments") == 1
    assert watch.moved("headrace_partition_segments", topic=other) == 1


def test_requests_and_their_time(broker: Broker, client: RawClient) -> None:
    watch = Watch(broker)
    for _ in range(5):
        client.call(MetadataRequest(topics=()), 12)

    assert watch.moved("headrace_requests_total", api="Metadata") == 5
    assert watch.moved("headrace_network_received_bytes_total") > 0
    assert watch.moved("headrace_network_sent_bytes_total") > 0
    for phase in ("queue", "work", "wait", "send"):
        named = {"api": "Metadata", "phase": phase}
        assert watch.moved("headrace_request_phase_seconds" + "_count", **named) == 5
        assert watch.moved("headrace_request_phase_seconds" + "_bucket", le="+Inf", **named) == 5
    assert watch.moved("headrace_request_phase_seconds" + "_sum", api="Metadata", phase="work") > 0


def test_a_request_that_waits_is_in_flight_and_its_wait_is_told(broker: Broker, client: RawClient, topic: str) -> None:
    watch = Watch(broker)
    client.send(frame(fetch(topic, max_wait_ms=500), 12))
    until(lambda: watch.moved("headrace_requests_in_flight", api="Fetch") == 1)
    client.receive()

    assert watch.moved("headrace_requests_in_flight", api="Fetch") == 0
    assert watch.moved("headrace_request_phase_seconds_sum", api="Fetch", phase="wait") >= 0.4
    assert watch.moved("headrace_request_phase_seconds_sum", api="Fetch", phase="work") < 0.4


def test_frames_that_arrive_together_wait_for_each_other(broker: Broker, client: RawClient) -> None:
    watch = Watch(broker)
    client.send(frame(MetadataRequest(topics=None), 12) * 20)
    for _ in range(20):
        client.receive()

    assert watch.moved("headrace_requests_total", api="Metadata") == 20
    assert watch.moved("headrace_request_phase_seconds_sum", api="Metadata", phase="queue") > 0


def test_a_request_whose_client_has_gone(broker: Broker, topic: str) -> None:
    watch = Watch(broker)
    with RawClient(broker.bootstrap) as client:
        client.send(frame(fetch(topic, max_wait_ms=30_000), 12))
        until(lambda: watch.moved("headrace_requests_in_flight", api="Fetch") == 1)

    until(lambda: watch.moved("headrace_requests_given_up_total", api="Fetch") == 1)
    assert watch.moved("headrace_requests_in_flight", api="Fetch") == 0


def test_errors_by_api(broker: Broker, client: RawClient) -> None:
    watch = Watch(broker)
    assert write(client, "nowhere", batch(b"one")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    client.call(fetch("nowhere"), 12)
    client.call(fetch("nowhere"), 12)

    error = "UNKNOWN_TOPIC_OR_PARTITION"
    assert watch.moved("headrace_append_failures_total", error=error) == 1
    assert watch.moved("headrace_request_errors_total", api="Produce", error=error) == 1
    assert watch.moved("headrace_request_errors_total", api="Fetch", error=error) == 2
    assert watch.moved("headrace_append_failures_total") == 1


def test_a_batch_that_is_sent_twice(broker: Broker, client: RawClient, topic: str) -> None:
    watch = Watch(broker)
    records = batch(b"one", producer_id=7, producer_epoch=0, base_sequence=0)
    assert write(client, topic, records) is write(client, topic, records) is ErrorCode.NONE

    assert watch.moved("headrace_duplicate_batches_total") == 1
    assert watch.moved("headrace_produced_records_total") == 1


def test_a_batch_that_is_not_what_its_checksum_says(broker: Broker, client: RawClient, topic: str) -> None:
    watch, records = Watch(broker), bytearray(batch(b"one"))
    records[-2] ^= 1
    assert write(client, topic, bytes(records)) is ErrorCode.CORRUPT_MESSAGE

    assert watch.moved("headrace_corrupt_batches_total", where="produce") == 1


def test_who_waits_for_an_append(broker: Broker, client: RawClient, topic: str) -> None:
    watch = Watch(broker)
    broker.run(lambda real: setattr(real.parts.replicas.find(topic, 0), "advance", lambda: None))
    client.send(frame(produce(topic, batch(b"one")), PRODUCE_VERSION))
    until(lambda: watch.moved("headrace_appends_waiting", **{"for": "replicas"}) == 1)

    def go_on(real: Any) -> None:
        partition = real.parts.replicas.find(topic, 0)
        del partition.advance
        partition.advance()

    broker.run(go_on)
    client.receive()
    assert watch.moved("headrace_appends_waiting") == 0


def test_connections_and_those_who_make_them(broker: Broker) -> None:
    watch = Watch(broker)
    named = {"client_id": "somebody", "user": "ANONYMOUS"}
    with RawClient(broker.bootstrap, client_id="somebody") as client:
        client.call(MetadataRequest(topics=()), 12)

        assert watch.moved("headrace_connections", listener="PLAINTEXT") == 1
        assert watch.moved("headrace_connections_opened_total", listener="PLAINTEXT") == 1
        assert watch.now("headrace_client_connections", **named) == 1
        assert watch.now("headrace_client_requests_total", **named) == 1
        received = watch.now("headrace_client_received_bytes_total", **named)
        sent = watch.now("headrace_client_sent_bytes_total", **named)
        assert received > 0
        assert sent > 0
    until(lambda: watch.moved("headrace_connections") == 0)

    assert watch.now("headrace_client_requests_total", **named) == 1
    assert watch.now("headrace_client_received_bytes_total", **named) == received
    assert watch.now("headrace_client_sent_bytes_total", **named) == sent


def test_connections_that_are_not_kept(broker: Broker) -> None:
    watch = Watch(broker)
    with RawClient(broker.bootstrap) as client:
        client.send(struct.pack(">ihhi", 8, 32_000, 0, 1))
        assert client.is_closed_by_broker()

    assert watch.moved("headrace_requests_unreadable_total") == 1
    assert watch.moved("headrace_connections_cut_off_total") == 1


def test_connections_that_are_refused() -> None:
    with Broker(settings={**AT_ANY_PORT, "max.connections": 1}) as broker:
        watch = Watch(broker)
        with RawClient(broker.bootstrap) as first:
            first.call(MetadataRequest(topics=()), 12)
            with socket.create_connection(first.socket.getpeername()) as second:
                assert second.recv(1) == b""

        assert watch.moved("headrace_connections_refused_total") == 1


def test_a_request_that_fails_in_the_broker(broker: Broker, client: RawClient) -> None:
    watch = Watch(broker)
    assert broker.broker is not None
    server = broker.broker.server

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    start, server.start = server.start, fail
    client.send(frame(MetadataRequest(topics=()), 12))
    assert client.is_closed_by_broker()
    server.start = start

    assert watch.moved("headrace_requests_failed_total") == 1


def test_memory_of_connections(broker: Broker, client: RawClient) -> None:
    watch = Watch(broker)
    client.send(frame(produce("t", batch(bytes(100_000))), PRODUCE_VERSION)[:-10])

    until(lambda: watch.moved("headrace_connections_memory_bytes", kind="requests") > 50_000)
    assert broker.broker is not None
    assert watch.now("headrace_connections_memory_limit_bytes") == broker.broker.server.memory.limit


def test_time_for_which_clients_had_to_wait(client: RawClient, topic: str, broker: Broker) -> None:
    watch = Watch(broker)
    entity = EntityData(entity_type="client-id", entity_name="greedy")
    limit = OpData(key="producer_byte_rate", value=1000.0, remove=False)
    client.call(AlterClientQuotasRequest(entries=(EntryData(entity=(entity,), ops=(limit,)),), validate_only=False), 1)
    until(lambda: broker.run(lambda real: real.parts.quotas.active))
    with RawClient(broker.bootstrap, client_id="greedy") as greedy:
        told_ms = greedy.call(produce(topic, batch(bytes(30_000))), PRODUCE_VERSION).throttle_time_ms

    assert told_ms > 0
    assert watch.moved("headrace_throttled_seconds_total", quota="produce") == pytest.approx(told_ms / 1000, abs=0.01)


def test_the_process(broker: Broker) -> None:
    watch = Watch(broker)
    began = time.process_time()
    while time.process_time() - began < 0.05:
        sum(range(1000))

    assert watch.moved("process_cpu_seconds_total") > 0
    assert watch.now("process_resident_memory_bytes") > 10_000_000
    assert watch.now("process_virtual_memory_bytes") > watch.now("process_resident_memory_bytes")
    assert watch.now("process_max_fds") > watch.now("process_open_fds") > 3
    assert watch.now("process_start_time_seconds") == pytest.approx(time.time(), abs=86_400)
    assert watch.now("headrace_process_threads") >= 2
    assert watch.now("python_info", implementation="cpython") == 1
    before = watch.now("process_open_fds")
    with socket.socket(), socket.socket(), socket.socket():
        assert watch.now("process_open_fds") == before + 3


def test_garbage(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(broker)
    circle: list[Any] = []
    circle.append(circle)
    del circle
    gc.collect()

    assert watch.moved("python_gc_collections_total", generation=2) >= 1
    assert watch.moved("python_gc_objects_collected_total", generation=2) >= 1
    assert watch.moved("headrace_gc_pause_seconds_total") > 0
    monkeypatch.setattr(
        "headrace.broker.metrics.collectors.process.garbage_statistics",
        lambda: [{"collections": 0, "collected": 0, "uncollectable": 3}],
    )
    assert watch.now("python_gc_objects_uncollectable_total") == 3


def test_a_loop_that_is_late(broker: Broker) -> None:
    watch = Watch(broker)

    def keep_the_loop() -> None:
        began = time.monotonic()
        while time.monotonic() - began < 0.3:
            pass

    broker.run(lambda real: keep_the_loop())

    until(lambda: watch.moved("headrace_loop_delay_seconds" + "_sum") > 0.1)


def test_log_lines_and_those_that_say_the_same_again(broker: Broker) -> None:
    watch, limit = Watch(broker), LimitedRepetition(1)
    for number in range(3):
        limit.filter(logging.LogRecord("headrace", logging.ERROR, "file", 1, "lost %d", (number,), None))

    assert watch.moved("headrace_log_lines_total", level="ERROR") == 3
    assert watch.moved("headrace_log_lines_left_out_total") == 2


def test_groups_and_how_far_they_are_behind(broker: Broker, client: RawClient, topic: str) -> None:
    watch = Watch(broker)
    write(client, topic, batch(b"one", b"two", b"three"))
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = until(lambda: consumer.poll(0.1))
    consumer.commit(found, asynchronous=False)

    named = {"group": topic, "topic": topic, "partition": 0}
    assert watch.moved("headrace_groups", protocol="classic", state="Stable") == 1
    assert watch.moved("headrace_group_members") == 1
    assert watch.now("headrace_group_members_by_group", group=topic) == 1
    assert watch.moved("headrace_group_offsets") == 1
    assert watch.moved("headrace_group_rebalance_seconds" + "_count") >= 1
    assert watch.now("headrace_group_committed_offset", **named) == 1
    assert watch.now("headrace_group_lag_records", **named) == 2
    assert watch.now("headrace_groups_lag_records_max") >= 2
    written_at = 1_700_000_000
    assert watch.now("headrace_group_lag_seconds", **named) == pytest.approx(time.time() - written_at, abs=60)
    consumer.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
    assert watch.now("headrace_group_lag_records", **named) == 0
    assert watch.now("headrace_group_lag_seconds", **named) == 0
    consumer.close()


def test_transactions(broker: Broker, topic: str) -> None:
    watch = Watch(broker)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"one")
    producer.flush(30)
    assert watch.moved("headrace_transactions_open") == 1
    until(lambda: watch.now("headrace_transactions_oldest_seconds") > 0)
    producer.commit_transaction(30)

    until(lambda: watch.moved("headrace_transactions_total", outcome="committed") == 1)
    assert watch.moved("headrace_transactions_open") == 0
    producer.begin_transaction()
    producer.produce(topic, b"two")
    producer.flush(30)
    producer.abort_transaction(30)
    until(lambda: watch.moved("headrace_transactions_total", outcome="aborted") == 1)


def test_share_groups_at_work(broker: Broker, client: RawClient, topic: str) -> None:
    watch = Watch(broker)
    member = ShareMember(client, topic, topic).join()
    member.produce(b"a", b"b", b"c", b"d")
    member.take()
    for offset, word in enumerate((ACCEPT, RELEASE, REJECT)):
        assert member.say(offset, offset, word) == ErrorCode.NONE

    assert watch.moved("headrace_groups", protocol="share", state="Stable") == 1
    assert watch.moved("headrace_share_sessions") == 1
    assert watch.moved("headrace_share_records_in_flight") == 1
    assert watch.moved("headrace_share_deliveries_total") == 4
    for outcome in ("accepted", "released", "given_up"):
        assert watch.moved("headrace_share_outcomes_total", outcome=outcome) == 1
    assert watch.now("headrace_share_group_lag_records", group=topic, topic=topic, partition=0) == 2


def test_sign_ins_denials_and_certificates() -> None:
    with Broker(users={"ann": "secret"}, tls=True, settings={**AT_ANY_PORT, "authorizer": "acl"}) as broker:
        watch = Watch(broker)
        for password in ("secret", "wrong"):
            client = Producer({**broker.client_config("ann"), "sasl.password": password, "logger": logging.getLogger("quiet")})
            outcome = "succeeded" if password == "secret" else "failed"
            until(lambda: client.poll(0.05) or watch.moved("headrace_sign_ins_total", outcome=outcome) >= 1)  # noqa: B023
            if password == "secret":
                client.produce("t", b"one")
                until(lambda: client.poll(0.05) or watch.moved("headrace_denials_total") >= 1)  # noqa: B023
                client.purge()
        assert watch.now("headrace_certificate_expiry_seconds") > time.time()
        host, port = broker.bootstrap.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            stranger.recv(100)
        until(lambda: gc.collect() >= 0 and watch.moved("headrace_tls_handshake_failures_total") >= 1)


def test_events_of_the_audit_trail_that_are_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "copies"
    folder.mkdir()
    settings = {**AT_ANY_PORT, "authorizer": "acl", "headrace.audit.file": str(folder / "audit.jsonl")}
    with Broker(settings=settings) as broker:
        watch = Watch(broker)
        rmtree(folder)
        monkeypatch.setattr(trail, "WAITING_MAX", 0)
        with RawClient(broker.bootstrap) as client:
            client.call(produce("forbidden", batch(b"one")), PRODUCE_VERSION)

        until(lambda: watch.moved("headrace_audit_lost_events_total", of="topic") >= 1)
        until(lambda: watch.moved("headrace_audit_lost_events_total", of="copies") >= 1)


def test_delayed_records(broker: Broker, client: RawClient) -> None:
    with Admin(bootstrap=broker.bootstrap) as admin:
        admin.create_topic("delayed", settings={"headrace.delay.enable": "true"})
    watch, due_ms = Watch(broker), broker.clock.wall_ms() + 60_000
    later = Record(0, 1, None, b"x", (("headrace-deliver-at", b"%d" % due_ms),))
    assert write(client, "delayed", build_batch([later, later])) is ErrorCode.NONE

    assert watch.moved("headrace_delayed_records") == 2
    assert watch.now("headrace_delayed_records_by_topic", topic="delayed") == 2
    assert watch.now("headrace_delayed_next_due_timestamp_seconds") == due_ms / 1000
    assert watch.now("headrace_delayed_overdue_seconds") == 0
    with held_up(broker):
        broker.clock.advance(minutes=2)
        assert watch.now("headrace_delayed_overdue_seconds") >= 60
    until(lambda: watch.moved("headrace_delayed_delivered_total") == 2)
    assert watch.moved("headrace_delayed_late_seconds" + "_count") == 2
    assert watch.moved("headrace_delayed_late_seconds" + "_sum") >= 120


@contextmanager
def held_up(broker: Broker) -> Iterator[None]:
    """Nothing that is due is delivered for a while."""

    async def wait(self: Outlet, target: object, batch: bytes) -> None:
        raise PeerUnreachable("held up")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Outlet, "send", wait)
        yield


PROOFS: dict[Callable[..., None], tuple[str, ...]] = {
    test_delayed_records: (
        "headrace_delayed_records",
        "headrace_delayed_records_by_topic",
        "headrace_delayed_next_due_timestamp_seconds",
        "headrace_delayed_overdue_seconds",
        "headrace_delayed_delivered_total",
        "headrace_delayed_late_seconds",
    ),
    test_records_that_go_in_and_out: (
        "headrace_produced_records_total",
        "headrace_produced_bytes_total",
        "headrace_consumed_records_total",
        "headrace_consumed_bytes_total",
        "headrace_log_size_bytes",
        "headrace_batch_size_bytes",
        "headrace_batch_records",
        "headrace_partition_produced_records_total",
        "headrace_partition_produced_bytes_total",
        "headrace_partition_consumed_records_total",
        "headrace_partition_consumed_bytes_total",
        "headrace_partition_high_watermark",
        "headrace_partition_end_offset",
        "headrace_partition_size_bytes",
    ),
    test_segments_and_where_a_log_begins: (
        "headrace_log_segments",
        "headrace_partition_segments",
        "headrace_partition_start_offset",
    ),
    test_requests_and_their_time: (
        "headrace_requests_total",
        "headrace_request_phase_seconds",
        "headrace_network_received_bytes_total",
        "headrace_network_sent_bytes_total",
    ),
    test_a_request_that_waits_is_in_flight_and_its_wait_is_told: ("headrace_requests_in_flight",),
    test_a_request_whose_client_has_gone: ("headrace_requests_given_up_total",),
    test_errors_by_api: ("headrace_request_errors_total", "headrace_append_failures_total"),
    test_a_batch_that_is_sent_twice: ("headrace_duplicate_batches_total",),
    test_a_batch_that_is_not_what_its_checksum_says: ("headrace_corrupt_batches_total",),
    test_who_waits_for_an_append: ("headrace_appends_waiting",),
    test_connections_and_those_who_make_them: (
        "headrace_connections",
        "headrace_connections_opened_total",
        "headrace_client_connections",
        "headrace_client_requests_total",
        "headrace_client_received_bytes_total",
        "headrace_client_sent_bytes_total",
    ),
    test_connections_that_are_not_kept: ("headrace_requests_unreadable_total", "headrace_connections_cut_off_total"),
    test_connections_that_are_refused: ("headrace_connections_refused_total",),
    test_a_request_that_fails_in_the_broker: ("headrace_requests_failed_total",),
    test_memory_of_connections: ("headrace_connections_memory_bytes", "headrace_connections_memory_limit_bytes"),
    test_time_for_which_clients_had_to_wait: ("headrace_throttled_seconds_total",),
    test_the_process: (
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_virtual_memory_bytes",
        "process_open_fds",
        "process_max_fds",
        "process_start_time_seconds",
        "headrace_process_threads",
        "python_info",
    ),
    test_garbage: (
        "python_gc_collections_total",
        "python_gc_objects_collected_total",
        "python_gc_objects_uncollectable_total",
        "headrace_gc_pause_seconds_total",
    ),
    disks_and_replicas.test_what_is_not_flushed: ("headrace_unflushed_records",),
    disks_and_replicas.test_what_followers_copy: (
        "headrace_replicated_out_bytes_total",
        "headrace_replicated_in_bytes_total",
        "headrace_fetch_sessions",
        "headrace_fetch_session_partitions",
    ),
    disks_and_replicas.test_flushes_and_a_disk_that_fails: (
        "headrace_flush_seconds",
        "headrace_flush_failures_total",
        "headrace_partitions_offline",
    ),
    disks_and_replicas.test_reads_that_wait_for_the_disk: ("headrace_cold_read_seconds",),
    disks_and_replicas.test_room_on_the_disk: (
        "headrace_disk_size_bytes",
        "headrace_disk_free_bytes",
        "headrace_disk_writable_bytes",
    ),
    disks_and_replicas.test_segments_that_go_and_logs_that_are_compacted: (
        "headrace_removed_segments_total",
        "headrace_removed_bytes_total",
        "headrace_removals_waiting",
        "headrace_cleaning_seconds",
        "headrace_cleaned_bytes_total",
        "headrace_cleaning_freed_bytes_total",
        "headrace_cleaning_backlog_bytes",
    ),
    disks_and_replicas.test_a_compaction_that_fails: ("headrace_cleaning_failures_total",),
    disks_and_replicas.test_replicas_that_fall_behind_and_come_back: (
        "headrace_partitions",
        "headrace_partitions_led",
        "headrace_partitions_by_in_sync",
        "headrace_partitions_under_replicated",
        "headrace_partitions_under_minimum",
        "headrace_elections_total",
        "headrace_in_sync_shrinks_total",
        "headrace_in_sync_expansions_total",
        "headrace_replication_lag_records",
        "headrace_replication_lag_bytes",
        "headrace_partition_leader",
        "headrace_partition_in_sync_replicas",
        "headrace_partition_replicas",
        "headrace_partition_replication_lag_records",
        "headrace_partition_replication_lag_bytes",
    ),
    disks_and_replicas.test_for_how_long_a_follower_has_been_behind: (
        "headrace_replication_lag_seconds",
        "headrace_partition_replication_lag_seconds",
    ),
    disks_and_replicas.test_the_cluster_as_a_broker_knows_it: (
        "headrace_cluster_brokers",
        "headrace_cluster_topics",
        "headrace_cluster_brokers_degraded",
        "headrace_cluster_has_controller",
        "headrace_controller",
        "headrace_controller_partitions_leaderless",
        "headrace_controller_partitions_moving",
        "headrace_cluster_unclean_elections_total",
        "headrace_lease_left_seconds",
        "headrace_metadata_round_trip_seconds",
        "headrace_metadata_failures_total",
        "headrace_metadata_revision",
    ),
    test_groups_and_how_far_they_are_behind: (
        "headrace_groups",
        "headrace_group_members",
        "headrace_group_members_by_group",
        "headrace_group_offsets",
        "headrace_group_rebalance_seconds",
        "headrace_group_committed_offset",
        "headrace_group_lag_records",
        "headrace_group_lag_seconds",
        "headrace_groups_lag_records_max",
    ),
    test_transactions: (
        "headrace_transactions_open",
        "headrace_transactions_oldest_seconds",
        "headrace_transactions_total",
    ),
    test_share_groups_at_work: (
        "headrace_share_sessions",
        "headrace_share_records_in_flight",
        "headrace_share_deliveries_total",
        "headrace_share_outcomes_total",
        "headrace_share_group_lag_records",
    ),
    test_sign_ins_denials_and_certificates: (
        "headrace_sign_ins_total",
        "headrace_denials_total",
        "headrace_certificate_expiry_seconds",
        "headrace_tls_handshake_failures_total",
    ),
    test_events_of_the_audit_trail_that_are_lost: ("headrace_audit_lost_events_total",),
    test_a_loop_that_is_late: ("headrace_loop_delay_seconds",),
    test_log_lines_and_those_that_say_the_same_again: ("headrace_log_lines_total", "headrace_log_lines_left_out_total"),
    client_telemetry.test_what_it_tells_is_shown_whatever_it_is_packed_with: (
        "headrace_client_metric",
        "headrace_client_counter_total",
        "headrace_client_telemetry_pushes_total",
        "headrace_client_telemetry_series",
    ),
    client_telemetry.test_who_comes_too_early_is_told_so_and_not_heard: ("headrace_client_telemetry_instances",),
    client_telemetry.test_series_beyond_the_limit_are_counted_and_not_kept: ("headrace_client_telemetry_dropped_total",),
}


def test_every_metric_has_a_proof() -> None:
    proven = [name for names in PROOFS.values() for name in names]

    assert sorted(proven) == sorted(family.name for family in all_families())


@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: proof.__name__)
def test_a_proof_speaks_of_the_metrics_that_it_proves(proof: Callable[..., None]) -> None:
    source = inspect.getsource(proof)

    assert not [name for name in PROOFS[proof] if f'"{name}"' not in source]

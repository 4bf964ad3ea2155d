"""Every metric moves when what it counts happens.

`PROOFS` names for each metric a test, here or beside, that makes it happen and sees the metric move.  One without a row fails,
and so does a row whose test does not speak of the metric.
"""

import gc
import inspect
import logging
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.broker.parts import Host
from headrace.controller.entries import UNCLEAN_ELECTIONS, ConditionalWrite, Put, UncleanElections, partition_key
from headrace.metadata.store import LeaseLost
from headrace.model.errors import ErrorCode
from headrace.records.batch import build_batch
from headrace.records.record import Record
from headrace.replication.leader import LeaderState
from headrace.testing import Broker
from headrace.testing.disk import SimulatedDisk
from headrace.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from headrace.wire.messages.delete_topics import DeleteTopicsRequest
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.messages.metadata import MetadataRequest
from tests.integration.memory_cluster import MemoryCluster, play
from tests.support.metrics import AT_ANY_PORT, ClusterWatch, Watch, all_families
from tests.support.raw import RawClient, ask_until_created, batch, frame, produce
from tests.support.waiting import until, until_async

VERSION = 9


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


def fetch(topic: str, offset: int = 0, *, max_wait_ms: int = 0) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000_000)
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=(FetchTopic(topic=topic, partitions=(wanted,)),))


def write(client: RawClient, topic: str, records: bytes) -> ErrorCode:
    return ErrorCode(client.call(produce(topic, records), VERSION).responses[0].partition_responses[0].error_code)


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
    client.send(frame(produce(topic, batch(b"one")), VERSION))
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
    client.send(frame(produce("t", batch(bytes(100_000))), VERSION)[:-10])

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
        told_ms = greedy.call(produce(topic, batch(bytes(30_000))), VERSION).throttle_time_ms

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


def test_what_is_not_flushed() -> None:
    with Broker(memory=False, settings={**AT_ANY_PORT, "headrace.flush": "os"}) as broker:
        watch = Watch(broker)
        with RawClient(broker.bootstrap) as client:
            ask_until_created(client, "t")
            write(client, "t", batch(b"one", b"two"))

        assert watch.moved("headrace_unflushed_records") >= 2


def test_what_followers_copy() -> None:
    async def story() -> None:
        async with MemoryCluster(2) as cluster:
            await cluster.create_topic("t", 1, 2)
            led_by = cluster.image.topics["t"].partitions[0].leader
            leader, follower = cluster.brokers[led_by], cluster.brokers[3 - led_by]
            of_leader, of_follower = await ClusterWatch.of(leader), await ClusterWatch.of(follower)
            await cluster.produce(led_by, "t", "one")

            written = await of_leader.moved("headrace_produced_bytes_total")
            assert written > 0
            assert await of_leader.moved("headrace_replicated_out_bytes_total") == written
            assert await of_follower.moved("headrace_replicated_in_bytes_total") == written
            assert await of_leader.now("headrace_fetch_sessions") == 1
            assert await of_leader.now("headrace_fetch_session_partitions") >= 1
            assert await of_follower.now("headrace_partition_end_offset", topic="t") == 1

    play(story)


def test_flushes_and_a_disk_that_fails(tmp_path: Path) -> None:
    disk = SimulatedDisk(random.Random(1))
    (tmp_path / "data").mkdir()
    with Broker(data=tmp_path / "data", host=Host(disk=disk, worker_processes=False), settings=AT_ANY_PORT) as broker:
        with RawClient(broker.bootstrap) as client:
            ask_until_created(client, "t")
            watch = Watch(broker)
            assert write(client, "t", batch(b"one")) is ErrorCode.NONE
            assert watch.moved("headrace_flush_seconds" + "_count") == 1

            disk.fail("sync", lambda path: "t-0" in str(path))
            assert write(client, "t", batch(b"two")) is ErrorCode.KAFKA_STORAGE_ERROR
        assert watch.moved("headrace_flush_failures_total") == 1
        assert watch.moved("headrace_partitions_offline") == 1


def test_reads_that_wait_for_the_disk() -> None:
    with Broker(memory=False, host=Host(page_cache_bytes=0), settings=AT_ANY_PORT) as broker:
        with RawClient(broker.bootstrap) as client:
            ask_until_created(client, "t")
            for _ in range(3):
                write(client, "t", batch(bytes(10_000)))
            watch = Watch(broker)
            client.call(fetch("t"), 12)

        assert watch.moved("headrace_cold_read_seconds" + "_count") == 1


def test_room_on_the_disk() -> None:
    with Broker(memory=False, settings=AT_ANY_PORT) as broker:
        watch = Watch(broker)
        total, free, left = broker.run(lambda real: (real.parts.space.total, real.parts.space.free, real.parts.space.left))
        assert watch.now("headrace_disk_size_bytes") == total
        assert watch.now("headrace_disk_free_bytes") == pytest.approx(free, rel=0.1)
        assert 0 < watch.now("headrace_disk_writable_bytes") == pytest.approx(left, rel=0.1)


def test_segments_that_go_and_logs_that_are_compacted() -> None:
    with Broker(memory=False, settings={**AT_ANY_PORT, "log.cleanup.policy": "compact", "log.cleaner.enable": False}) as broker:
        with RawClient(broker.bootstrap) as client:
            ask_until_created(client, "t")
            watch = Watch(broker)
            for _ in range(3):
                records = [Record(0, 1_700_000_000_000, b"key", bytes(1000), ())]
                assert write(client, "t", build_batch(records)) is ErrorCode.NONE
                broker.run(lambda real: real.parts.replicas.find("t", 0).log.roll())
        dirty = watch.moved("headrace_cleaning_backlog_bytes")
        assert dirty > 3000

        partition = broker.run(lambda real: real.parts.replicas.find("t", 0))
        assert broker.broker is not None
        cleaner = broker.broker.parts.housekeeping.cleaner
        assert broker.call(cleaner.clean(partition))
        assert watch.moved("headrace_cleaning_seconds" + "_count") == 1
        assert watch.moved("headrace_cleaned_bytes_total") == dirty
        assert 1000 < watch.moved("headrace_cleaning_freed_bytes_total") < dirty
        assert watch.moved("headrace_cleaning_backlog_bytes") < dirty
        assert watch.moved("headrace_removed_segments_total", reason="compaction") == 3
        assert watch.moved("headrace_removed_bytes_total", reason="compaction") == dirty
        assert watch.now("headrace_removals_waiting") > 0


def test_a_compaction_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker(memory=False, settings={**AT_ANY_PORT, "log.cleanup.policy": "compact", "log.cleaner.enable": False}) as broker:
        with RawClient(broker.bootstrap) as client:
            ask_until_created(client, "t")
            for _ in range(2):
                write(client, "t", build_batch([Record(0, 1_700_000_000_000, b"key", b"value", ())]))
                broker.run(lambda real: real.parts.replicas.find("t", 0).log.roll())
        watch = Watch(broker)
        assert broker.broker is not None
        cleaner = broker.broker.parts.housekeeping.cleaner

        async def fail(*_: object) -> None:
            raise OSError("no")

        monkeypatch.setattr(cleaner, "_call_elsewhere", fail)
        assert not broker.call(cleaner.clean(broker.run(lambda real: real.parts.replicas.find("t", 0))))

        assert watch.moved("headrace_cleaning_failures_total") == 1


def test_replicas_that_fall_behind_and_come_back() -> None:
    async def story() -> None:
        async with MemoryCluster(2, {"min.insync.replicas": "2"}) as cluster:
            at_start = [await ClusterWatch.of(broker) for broker in cluster.brokers.values()]
            await cluster.create_topic("t", 1, 2)
            await cluster.until(lambda: len(cluster.image.topics["t"].partitions[0].isr) == 2)
            elections = [await each.moved("headrace_elections_total", kind="clean") for each in at_start]
            assert sum(elections) == 1
            led_by = cluster.image.topics["t"].partitions[0].leader
            gone = 3 - led_by
            leader = cluster.brokers[led_by]
            watch = await ClusterWatch.of(leader)
            partition = leader.parts.replicas.find("t", 0)
            assert await watch.now("headrace_partitions") == await watch.now("headrace_partitions_led") == 1
            one = {"topic": "t", "partition": 0}
            assert await watch.now("headrace_partition_leader", **one) == 1
            assert await watch.now("headrace_partition_in_sync_replicas", **one) == 2
            assert await watch.now("headrace_partition_replicas", **one) == 2
            assert await watch.now("headrace_partitions_by_in_sync", in_sync=2) == 1

            await cluster.brokers.pop(gone).stop()
            await cluster.until(lambda: partition.is_leader and len(partition.state.isr) == 1)
            assert await watch.now("headrace_partitions_by_in_sync", in_sync=1) == 1
            assert await watch.now("headrace_partitions_under_replicated") == 1
            assert await watch.now("headrace_partitions_under_minimum") == 1
            assert await watch.moved("headrace_in_sync_shrinks_total") == 1

            appended = partition.append(batch(b"one", b"two"))
            named = {"follower": gone}
            assert await watch.now("headrace_replication_lag_records", **named) == 2
            assert await watch.now("headrace_replication_lag_bytes", **named) == partition.log.size_bytes
            assert await watch.now("headrace_partition_replication_lag_records", **one, **named) == 2
            assert await watch.now("headrace_partition_replication_lag_bytes", **one, **named) == partition.log.size_bytes
            assert appended.last_offset == 1
            await cluster.add(gone)
            await cluster.until(lambda: len(partition.state.isr) == 2)
            assert await watch.moved("headrace_in_sync_expansions_total") == 1
            assert await watch.now("headrace_replication_lag_records", **named) == 0

    play(story)


def test_for_how_long_a_follower_has_been_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with MemoryCluster(2) as cluster:
            await cluster.create_topic("t", 1, 2)
            await cluster.until(lambda: len(cluster.image.topics["t"].partitions[0].isr) == 2)
            leader = cluster.brokers[cluster.image.topics["t"].partitions[0].leader]
            watch = await ClusterWatch.of(leader)
            partition = leader.parts.replicas.find("t", 0)
            # It goes on to fetch, and its leader does not hear of it.
            monkeypatch.setattr(LeaderState, "on_fetch", lambda *_: False)
            partition.append(batch(b"one"))

            async def is_late(name: str) -> bool:
                return await watch.now(name) >= 0.2

            await until_async(lambda: is_late("headrace_replication_lag_seconds"))
            await until_async(lambda: is_late("headrace_partition_replication_lag_seconds"))

    play(story)


def test_the_cluster_as_a_broker_knows_it() -> None:
    async def story() -> None:
        async with MemoryCluster(2) as cluster:
            controller = cluster.brokers[cluster.image.controller_id]
            other = cluster.brokers[3 - cluster.image.controller_id]
            watch, of_other = await ClusterWatch.of(controller), await ClusterWatch.of(other)
            assert await watch.now("headrace_cluster_brokers") == 2
            assert await watch.now("headrace_controller") == 1
            assert await of_other.now("headrace_controller") == 0
            assert await of_other.now("headrace_cluster_has_controller") == 1
            assert 0 < await watch.now("headrace_lease_left_seconds") <= 10
            await cluster.create_topic("t", 2, 1)
            assert await watch.moved("headrace_cluster_topics") == 1
            assert await watch.moved("headrace_metadata_revision") > 0
            assert await watch.moved("headrace_metadata_round_trip_seconds" + "_count", operation="transact") > 0
            with pytest.raises(LeaseLost):
                await controller.cluster.store.keep_alive(987_654)
            assert await watch.moved("headrace_metadata_failures_total", operation="keep_alive") == 1

            await other.parts.membership.update(degraded=("its disk is slow",))
            await cluster.until(lambda: bool(controller.image.brokers[other.broker_id].degraded))
            assert await watch.now("headrace_cluster_brokers_degraded") == 1
            await controller.cluster.submit(
                lambda image: [ConditionalWrite((), (Put(UNCLEAN_ELECTIONS, UncleanElections(count=3).to_value()),))]
            )
            assert await watch.now("headrace_cluster_unclean_elections_total") == 3
            moving = replace(controller.image.topics["t"].partitions[0], adding=(9,))
            key = partition_key(controller.image.topics["t"].topic_id, 0)
            await controller.cluster.submit(lambda image: [ConditionalWrite((), (Put(key, moving.to_value()),))])
            assert await watch.now("headrace_controller_partitions_moving") == 1
            await cluster.brokers.pop(other.broker_id).stop()
            await cluster.until(lambda: len(controller.image.brokers) == 1)

            async def has_no_leader() -> bool:
                return await watch.now("headrace_controller_partitions_leaderless") == 1

            await until_async(has_no_leader)

    play(story)


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


PROOFS: dict[Callable[..., None], tuple[str, ...]] = {
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
    test_what_is_not_flushed: ("headrace_unflushed_records",),
    test_what_followers_copy: (
        "headrace_replicated_out_bytes_total",
        "headrace_replicated_in_bytes_total",
        "headrace_fetch_sessions",
        "headrace_fetch_session_partitions",
    ),
    test_flushes_and_a_disk_that_fails: (
        "headrace_flush_seconds",
        "headrace_flush_failures_total",
        "headrace_partitions_offline",
    ),
    test_reads_that_wait_for_the_disk: ("headrace_cold_read_seconds",),
    test_room_on_the_disk: ("headrace_disk_size_bytes", "headrace_disk_free_bytes", "headrace_disk_writable_bytes"),
    test_segments_that_go_and_logs_that_are_compacted: (
        "headrace_removed_segments_total",
        "headrace_removed_bytes_total",
        "headrace_removals_waiting",
        "headrace_cleaning_seconds",
        "headrace_cleaned_bytes_total",
        "headrace_cleaning_freed_bytes_total",
        "headrace_cleaning_backlog_bytes",
    ),
    test_a_compaction_that_fails: ("headrace_cleaning_failures_total",),
    test_replicas_that_fall_behind_and_come_back: (
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
    test_for_how_long_a_follower_has_been_behind: (
        "headrace_replication_lag_seconds",
        "headrace_partition_replication_lag_seconds",
    ),
    test_the_cluster_as_a_broker_knows_it: (
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
    test_sign_ins_denials_and_certificates: (
        "headrace_sign_ins_total",
        "headrace_denials_total",
        "headrace_certificate_expiry_seconds",
        "headrace_tls_handshake_failures_total",
    ),
    test_a_loop_that_is_late: ("headrace_loop_delay_seconds",),
}


def test_every_metric_has_a_proof() -> None:
    proven = [name for names in PROOFS.values() for name in names]

    assert sorted(proven) == sorted(family.name for family in all_families())


@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: proof.__name__)
def test_a_proof_speaks_of_the_metrics_that_it_proves(proof: Callable[..., None]) -> None:
    source = inspect.getsource(proof)

    assert not [name for name in PROOFS[proof] if f'"{name}"' not in source]

"""Metrics of the disk, of replicas and of the cluster move when what they count happens; `PROOFS` beside names them."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.broker.parts import Host
from headrace.controller.entries import UNCLEAN_ELECTIONS, ConditionalWrite, Put, UncleanElections, partition_key
from headrace.metadata.store import LeaseLost
from headrace.model.errors import ErrorCode
from headrace.records.batch import build_batch
from headrace.records.record import Record
from headrace.replication.leader import LeaderState
from headrace.testing import Broker
from headrace.testing.disk import SimulatedDisk
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.integration.memory_cluster import MemoryCluster, has_coordinator, play
from tests.support.metrics import AT_ANY_PORT, ClusterWatch, Watch, fetch, write
from tests.support.raw import RawClient, ask_until_created, batch
from tests.support.waiting import until_async


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


def test_lag_is_told_also_of_partitions_without_a_replica_at_the_coordinator() -> None:
    async def story() -> None:
        async with MemoryCluster(2) as cluster:
            await cluster.create_topic("t", 2, 1)
            leaders = [partition.leader for partition in cluster.image.topics["t"].partitions]
            assert sorted(leaders) == [1, 2]
            for index, leader in enumerate(leaders):
                await cluster.produce(leader, "t", "one", "two", "three", partition=index)
            await has_coordinator(cluster, FindCoordinatorRequest(key="g", key_type=0))
            found = await cluster.call(1, FindCoordinatorRequest(key="g", key_type=0), 3)
            partitions = tuple(
                OffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata=None)
                for index in (0, 1)
            )
            commit = OffsetCommitRequest(group_id="g", topics=(OffsetCommitRequestTopic(name="t", partitions=partitions),))
            answer = await cluster.call(found.node_id, commit, 8)
            assert {each.error_code for each in answer.topics[0].partitions} == {ErrorCode.NONE}

            watch = await ClusterWatch.of(cluster.brokers[found.node_id])
            others = [await ClusterWatch.of(broker) for broker in cluster.brokers.values()]
            for index in (0, 1):
                one = {"group": "g", "topic": "t", "partition": index}
                assert await watch.now("headrace_group_lag_records", **one) == 2
                assert await watch.now("headrace_group_committed_offset", **one) == 1
                # The records' time is that of 1970.
                assert await watch.now("headrace_group_lag_seconds", **one) > 1e9
            assert await watch.now("headrace_groups_lag_records_max") == 2
            assert sum([await each.moved("headrace_consumed_records_total") for each in others]) == 0

    play(story)

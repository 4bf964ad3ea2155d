"""A full disk: writes are refused with a clear error, everything else goes on, and so do writes when there is room."""

import asyncio
import contextlib
import errno
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

sys.path.insert(0, str(Path(__file__).parent))

import headrace
from headrace.broker.parts import Host
from headrace.model.errors import ErrorCode
from headrace.records.batch import build_batch
from headrace.records.record import Record
from headrace.testing import Broker
from headrace.testing.disk import SimulatedDisk
from headrace.wire.messages.delete_topics import DeleteTopicsRequest
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from headrace.wire.messages.produce import PartitionProduceResponse
from tests.integration.memory_cluster import MemoryCluster, play
from tests.integration.test_deleted_records import delete
from tests.integration.test_failing_disks import all_offsets
from tests.integration.test_fetch_and_produce import append, create
from tests.integration.test_health import ask, settings
from tests.support.process import BrokerProcess, free_port
from tests.support.raw import RawClient, batch, produce
from tests.support.waiting import until

SECONDS_MAX = 20.0
MIB = 1024 * 1024


def attempt(client: RawClient, topic: str, size: int = 1000) -> PartitionProduceResponse:
    answer: PartitionProduceResponse = client.call(produce(topic, batch(b"v" * size)), 9).responses[0].partition_responses[0]
    return answer


def is_written(client: RawClient, topic: str) -> bool:
    return attempt(client, topic).error_code == ErrorCode.NONE


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(random.Random(3))


@pytest.fixture
def health_port() -> int:
    return free_port()


@pytest.fixture
def broker(disk: SimulatedDisk, tmp_path: Path, health_port: int) -> Iterator[Broker]:
    # The metadata's file is a real one: only the logs are on the simulated disk.
    (tmp_path / "data").mkdir()
    host = Host(disk=disk, worker_processes=False)
    with Broker(
        data=tmp_path / "data", host=host, settings={**settings(health_port), "log.dir.reserved.bytes": "200000"}
    ) as running:
        yield running


def fill(broker: Broker, client: RawClient, disk: SimulatedDisk, topic: str) -> PartitionProduceResponse:
    """Write until nothing more is taken; the refusal."""
    disk.capacity_bytes = 1_000_000
    until(lambda: broker.run(lambda real: real.parts.space.total == disk.capacity_bytes))
    for _ in range(10_000):
        answer = attempt(client, topic, 9000)
        if answer.error_code != ErrorCode.NONE:
            return answer
    raise AssertionError("the disk is never full")


def test_below_the_reserve_writes_are_refused_with_a_reason_and_go_on_by_themselves_when_there_is_room(
    broker: Broker, disk: SimulatedDisk, health_port: int
) -> None:
    with RawClient(broker.bootstrap) as client:
        create(client, "t")
        until(lambda: broker.run(lambda real: real.parts.space.total > 0))
        broker.run(lambda real: real.parts.space.measured(disk.total_bytes(Path("/")), 10))
        refusal = attempt(client, "t")

        assert refusal.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "disk is full: 10 bytes are free in" in str(refusal.error_message)
        assert "195.3 KiB are reserved (log.dir.reserved.bytes)" in str(refusal.error_message)
        until(lambda: is_written(client, "t"))
        status, body = ask(health_port, "/ready")
        assert (status, body["ready"], body["state"], body["reasons"]) == (200, True, "HEALTHY", [])


def test_what_is_delayed_takes_nothing_of_the_reserve(broker: Broker, disk: SimulatedDisk) -> None:
    later = build_batch([Record(0, 1, b"k", b"x", (("headrace-delay-ms", b"3600000"),))])
    with RawClient(broker.bootstrap) as client, headrace.Admin(broker.bootstrap) as admin:
        admin.create_topic("t", settings={"headrace.delay.enable": "true"})
        assert client.call(produce("t", later), 9).responses[0].partition_responses[0].error_code == ErrorCode.NONE
        until(lambda: broker.run(lambda real: real.parts.space.total > 0))
        broker.run(lambda real: real.parts.space.measured(disk.total_bytes(Path("/")), 150_000))

        assert client.call(produce("t", later), 9).responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_full_disk_is_read_emptied_and_written_again_without_a_restart(
    broker: Broker, disk: SimulatedDisk, health_port: int
) -> None:
    with RawClient(broker.bootstrap) as client:
        create(client, "t", internal_segment_bytes="20000")
        refusal = fill(broker, client, disk, "t")
        count = len(all_offsets(client, "t"))
        status, body = ask(health_port, "/ready")

        assert refusal.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "disk is full" in str(refusal.error_message)
        assert count > 50
        assert status == 200
        assert (body["ready"], body["state"]) == (True, "DEGRADED")
        assert "disk is full" in body["reasons"][0]
        assert delete(client, "t", count).low_watermark == count
        until(lambda: is_written(client, "t"))
        until(lambda: ask(health_port, "/ready")[1]["state"] == "HEALTHY")


def test_retention_goes_on_and_makes_room(broker: Broker, disk: SimulatedDisk) -> None:
    with RawClient(broker.bootstrap) as client:
        create(client, "t", internal_segment_bytes="20000", retention_bytes="40000")
        fill(broker, client, disk, "t")
        broker.housekeep()

        until(lambda: is_written(client, "t"))


def test_groups_commit_offsets_out_of_the_reserve(broker: Broker, disk: SimulatedDisk) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "enable.auto.commit": False})
    try:
        with RawClient(broker.bootstrap) as client:
            create(client, "t")
            append(client, "t", b"a", b"b")
            consumer.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)
            fill(broker, client, disk, "t")
            consumer.commit(offsets=[TopicPartition("t", 0, 2)], asynchronous=False)
            assert consumer.committed([TopicPartition("t", 0)], timeout=10)[0].offset == 2
            assert attempt(client, "t").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    finally:
        consumer.close()


def test_produce_says_within_seconds_that_it_waits_for_room_and_goes_on_when_there_is_some(
    broker: Broker, disk: SimulatedDisk
) -> None:
    with RawClient(broker.bootstrap) as client:
        create(client, "t")
        fill(broker, client, disk, "t")
    command = [sys.executable, "-m", "headrace", "produce", "t", "--bootstrap", broker.bootstrap]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write("late\n")
        process.stdin.close()
        began = time.monotonic()
        said = process.stderr.readline()
        waited = time.monotonic() - began
        disk.heal()
        ended = process.stderr.read()

    assert said.startswith("Waiting for room: the disk of broker 1 is full: ")
    assert "are reserved (log.dir.reserved.bytes)" in said
    assert waited < 15
    assert ended == "1 record written to t.\n"
    assert process.returncode == 0


def test_a_producer_of_the_sdk_is_told_that_the_disk_is_full_and_what_to_do(broker: Broker, disk: SimulatedDisk) -> None:
    with RawClient(broker.bootstrap) as client:
        create(client, "t")
        fill(broker, client, disk, "t")

    with headrace.Producer(broker.bootstrap, delivery_timeout=1, linger=0) as producer:
        one, many = producer.send("t", b"late"), producer.send_many("t", [b"later", b"latest"])
        with pytest.raises(headrace.DeliveryTimeout, match=r"the disk of broker 1 is full: .* free some room there"):
            one.result(15)
        with pytest.raises(headrace.BatchFailed, match=r"the disk of broker 1 is full: .* free some room there"):
            many.result(15)


def test_producers_are_told_that_a_topic_is_not_made_since_the_disk_is_full(broker: Broker, disk: SimulatedDisk) -> None:
    with RawClient(broker.bootstrap) as client:
        create(client, "t")
        fill(broker, client, disk, "t")
    soon = "topic.metadata.propagation.max.ms"
    command = [sys.executable, "-m", "headrace", "produce", "u", "--bootstrap", broker.bootstrap, "-X", f"{soon}=200"]

    with headrace.Producer(broker.bootstrap, linger=0, librdkafka={soon: 200}) as producer:
        late = producer.send("u", b"late")
        with pytest.raises(
            headrace.DeliveryFailed, match=r"'u' was not written: the topic does not exist, .* broker 1 is full: "
        ):
            late.result(15)
    ended = subprocess.run(command, input="late\n", capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "the topic does not exist, and none is made without room on the disk: the disk of broker 1 is full: " in ended.stderr


def test_a_commit_without_room_sends_nobody_looking_for_another_coordinator(broker: Broker, disk: SimulatedDisk) -> None:
    with RawClient(broker.bootstrap) as client:
        create(client, "t")
        until(lambda: commit(client, "g", "t", 1) == ErrorCode.NONE)
        disk.fail("write", lambda path: path.suffix == ".log", error=errno.ENOSPC)
        codes = [commit(client, "g", "t", offset) for offset in (2, 3)]
        disk.heal()

        # The first was tried, the second was not even begun.
        assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
        until(lambda: commit(client, "g", "t", 4) == ErrorCode.NONE)


def test_a_write_that_does_not_fit_leaves_nothing_torn_and_the_partition_readable(broker: Broker, disk: SimulatedDisk) -> None:
    with RawClient(broker.bootstrap) as client:
        create(client, "t")
        append(client, "t", b"a")
        disk.fail("write", lambda path: "t-0" in str(path), error=errno.ENOSPC)
        refusal = attempt(client, "t")
        read = all_offsets(client, "t")
        disk.heal()

        assert refusal.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert read == [0]
        until(lambda: is_written(client, "t"))
        assert broker.run(lambda real: real.parts.replicas.find("t", 0).failure) is None


def test_on_a_full_disk_no_topic_is_made_for_clients_or_for_groups(broker: Broker, disk: SimulatedDisk) -> None:
    with RawClient(broker.bootstrap) as client:
        create(client, "t")
        fill(broker, client, disk, "t")
        refused = client.call(create_request("u"), 5).topics[0]
        coordinator = client.call(FindCoordinatorRequest(coordinator_keys=("g",), key_type=0), 4).coordinators[0]

        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "The disk is full on broker 1: no partition is made until there is room" in refused.error_message
        assert coordinator.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert "The disk is full on broker 1" in coordinator.error_message
        assert broker.run(lambda real: sorted(real.image.topics)) == ["t"]
        disk.heal()
        until(lambda: client.call(create_request("u"), 5).topics[0].error_code == ErrorCode.NONE)


def test_a_topic_created_on_a_full_disk_comes_to_be_when_there_is_room(broker: Broker, disk: SimulatedDisk) -> None:
    with RawClient(broker.bootstrap) as client:
        disk.fail("make_directory", error=errno.ENOSPC)
        disk.fail("open", lambda path: not disk.exists(path), error=errno.ENOSPC)
        create(client, "t")
        assert attempt(client, "t").error_code == ErrorCode.KAFKA_STORAGE_ERROR
        disk.heal()

        until(lambda: is_written(client, "t"))


def test_a_log_that_waits_for_room_is_told_of_once_however_often_it_is_tried(
    broker: Broker, disk: SimulatedDisk, caplog: pytest.LogCaptureFixture
) -> None:
    tries = []

    def is_tried(path: Path) -> bool:
        tries.append(path)
        return "t-0" in str(path)

    with RawClient(broker.bootstrap) as client:
        disk.fail("make_directory", is_tried, error=errno.ENOSPC)
        create(client, "t")
        until(lambda: len(tries) > 3)
        disk.heal()
        until(lambda: is_written(client, "t"))

    assert len([record for record in caplog.records if "t-0" in record.message and record.levelname != "INFO"]) == 1


def test_a_follower_with_a_full_disk_leaves_the_in_sync_set_and_comes_back() -> None:
    async def story() -> None:
        media = {broker_id: SimulatedDisk(random.Random(broker_id)) for broker_id in (1, 2)}
        async with MemoryCluster(2, {"replica.lag.time.max.ms": "60000"}, disks=media) as cluster:
            await cluster.create_topic("t", factor=2)
            leader = cluster.image.topics["t"].partitions[0].leader
            follower = 3 - leader
            await cluster.produce(leader, "t", "a")
            await cluster.until(lambda: len(cluster.image.topics["t"].partitions[0].isr) == 2)
            media[follower].fail("write", lambda path: path.suffix == ".log", error=errno.ENOSPC)
            alone = await asyncio.wait_for(cluster.produce(leader, "t", "b"), 10)
            left = cluster.image.topics["t"].partitions[0].isr
            media[follower].heal()
            await cluster.until(lambda: len(cluster.image.topics["t"].partitions[0].isr) == 2)

            assert alone.responses[0].partition_responses[0].error_code == ErrorCode.NONE
            assert left == (leader,)
            assert cluster.brokers[follower].parts.replicas.find("t", 0).log.end_offset == 2

    play(story)


def test_a_leader_with_a_full_disk_lets_one_in_sync_lead_that_has_room_and_stays_where_nobody_has() -> None:
    async def story() -> None:
        media = {broker_id: SimulatedDisk(random.Random(broker_id)) for broker_id in (1, 2)}
        async with MemoryCluster(2, disks=media) as cluster:
            await cluster.create_topic("t", factor=2)
            leader = cluster.image.topics["t"].partitions[0].leader
            other = 3 - leader
            await cluster.produce(leader, "t", "a")
            await cluster.until(lambda: len(cluster.image.topics["t"].partitions[0].isr) == 2)
            media[leader].capacity_bytes = 1
            await cluster.until(lambda: cluster.image.topics["t"].partitions[0].leader == other)
            moved = await cluster.produce(other, "t", "b")
            media[other].capacity_bytes = 1
            await cluster.until(lambda: cluster.brokers[other].parts.space.is_short)
            refused = await cluster.produce(other, "t", "c")

            assert moved.responses[0].partition_responses[0].error_code == ErrorCode.NONE
            assert refused.responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert cluster.image.topics["t"].partitions[0].leader == other
            for disk in media.values():
                disk.heal()
            await cluster.until(lambda: len(cluster.image.topics["t"].partitions[0].isr) == 2)

    play(story)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "small"
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={32 * MIB}", "headrace-test", str(path)]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield path
    subprocess.run(["umount", str(path)], check=True)


def test_a_disk_of_the_machine_that_has_no_byte_left_stops_nobody_for_good(small_disk: Path, tmp_path: Path) -> None:
    with BrokerProcess(small_disk / "data") as broker, RawClient(broker.bootstrap) as client:
        create(client, "t")
        append(client, "t", b"before")
        filler = small_disk / "filler"
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
        delivered: list[KafkaError | None] = []

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            delivered.append(error)

        producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
        producer.produce("t", b"x" * 100_000, on_delivery=on_delivery)
        until(lambda: attempt(client, "t").error_code == ErrorCode.KAFKA_STORAGE_ERROR)
        written = all_offsets(client, "t")
        refused = client.call(create_request("u"), 5).topics[0]
        assert attempt(client, "t").error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert all_offsets(client, "t") == written
        assert delivered == []
        filler.unlink()

        assert producer.flush(SECONDS_MAX) == 0
        assert delivered == [None]
        assert "Traceback" not in broker.output()
        assert refused.error_code != ErrorCode.NONE
        assert "disk is full" in refused.error_message
        until(
            lambda: client.call(create_request("u"), 5).topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        )
        until(lambda: is_written(client, "u"))
        assert broker.stop() == 0
        broker.start()
        with RawClient(broker.bootstrap) as again:
            assert len(all_offsets(again, "t")) == len(written) + 1


def fill_up(path: Path) -> Path:
    """Another process takes every byte there is."""
    filler = path / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    assert os.statvfs(path).f_bavail == 0
    return filler


def test_a_broker_starts_on_a_disk_without_a_free_byte_and_serves_reads_deletions_and_settings(
    small_disk: Path, tmp_path: Path
) -> None:
    broker = BrokerProcess(small_disk / "data")
    broker.log_path = tmp_path / "broker.log"
    with broker:
        with RawClient(broker.bootstrap) as client:
            create(client, "t")
            create(client, "u")
            append(client, "t", b"before")
        broker.kill()
        filler = fill_up(small_disk)
        broker.start()
        with RawClient(broker.bootstrap) as client:
            assert all_offsets(client, "t") == [0]
            until(lambda: attempt(client, "t").error_code == ErrorCode.KAFKA_STORAGE_ERROR)
            assert delete(client, "t", 1).low_watermark == 1
            assert delete_topic(client, "u") == ErrorCode.NONE
            assert alter(client, "t", "retention.bytes", "1000") == ErrorCode.NONE
            filler.unlink()
            until(lambda: is_written(client, "t"))
            until(lambda: (small_disk / "data" / "reserve").exists())
        assert "Traceback" not in broker.output()


def test_deletions_and_settings_go_on_while_the_disk_has_no_free_byte(small_disk: Path, tmp_path: Path) -> None:
    broker = BrokerProcess(small_disk / "data")
    broker.log_path = tmp_path / "broker.log"
    with broker, RawClient(broker.bootstrap) as client:
        for number in range(10):
            create(client, f"t{number}")
        fill_up(small_disk)
        for number in range(10):
            assert alter(client, f"t{number}", "retention.bytes", "1000") == ErrorCode.NONE
            assert delete_topic(client, f"t{number}") == ErrorCode.NONE


def test_a_start_without_any_room_says_what_to_do(small_disk: Path, tmp_path: Path) -> None:
    broker = BrokerProcess(small_disk / "data")
    broker.log_path = tmp_path / "broker.log"
    with broker, RawClient(broker.bootstrap) as client:
        create(client, "t")
    (small_disk / "data" / "reserve").unlink()
    fill_up(small_disk)

    with pytest.raises(RuntimeError, match="the disk is full, and a broker needs 1 MiB to start: free some room on it"):
        broker.start()


def commit(client: RawClient, group: str, topic: str, offset: int) -> int:
    client.call(FindCoordinatorRequest(key=group), 3)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    topics = (OffsetCommitRequestTopic(name=topic, partitions=(partition,)),)
    code: int = client.call(OffsetCommitRequest(group_id=group, topics=topics), 9).topics[0].partitions[0].error_code
    return code


def delete_topic(client: RawClient, name: str) -> int:
    code: int = client.call(DeleteTopicsRequest(topic_names=(name,), timeout_ms=5000), 5).responses[0].error_code
    return code


def alter(client: RawClient, topic: str, setting: str, value: str) -> int:
    config = AlterableConfig(name=setting, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=(config,))
    code: int = client.call(IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False), 1).responses[0].error_code
    return code


def create_request(name: str) -> "object":
    from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=())
    return CreateTopicsRequest(topics=(topic,), timeout_ms=5000)

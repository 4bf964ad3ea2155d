"""DeleteRecords: once it is answered, no crash brings the records back, on no replica."""

import asyncio
import random
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from headrace.broker.parts import Host
from headrace.model.errors import ErrorCode
from headrace.model.names import CONSUMER_OFFSETS
from headrace.testing import Broker
from headrace.testing.disk import SimulatedDisk
from headrace.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tests.integration.memory_cluster import MemoryCluster, play
from tests.integration.test_fetch_and_produce import append, create, fetch
from tests.support.process import BrokerProcess
from tests.support.raw import RawClient


def deletion(topic: str, offset: int, timeout_ms: int = 10_000) -> DeleteRecordsRequest:
    where = DeleteRecordsPartition(partition_index=0, offset=offset)
    return DeleteRecordsRequest(topics=(DeleteRecordsTopic(name=topic, partitions=(where,)),), timeout_ms=timeout_ms)


def delete(client: RawClient, topic: str, offset: int) -> Any:
    return client.call(deletion(topic, offset), 2).topics[0].partitions[0]


def log_start(client: RawClient, topic: str) -> int:
    return int(client.call(fetch(topic, 9), 12).responses[0].partitions[0].log_start_offset)


def test_deleted_records_stay_deleted_after_kill_minus_nine(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        for round_ in range(2):
            with RawClient(broker.bootstrap) as client:
                if round_ == 0:
                    create(client, "t")
                    for number in range(9):
                        append(client, "t", b"%d" % number)
                assert delete(client, "t", 3 + round_).low_watermark == 3 + round_
                broker.kill()
            broker.start()
            with RawClient(broker.bootstrap) as client:
                assert log_start(client, "t") == 3 + round_
                assert client.call(fetch("t", 0), 12).responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_deleted_records_stay_deleted_after_a_power_failure(tmp_path: Path) -> None:
    for seed in range(5):
        disk = SimulatedDisk(random.Random(seed))
        (tmp_path / str(seed)).mkdir()
        broker = Broker(data=tmp_path / str(seed), host=Host(disk=disk, worker_processes=False))
        broker.start()
        with RawClient(broker.bootstrap) as client:
            create(client, "t", internal_segment_bytes="300")
            for number in range(9):
                append(client, "t", b"%d" % number * 50)
            assert delete(client, "t", 7).low_watermark == 7
        broker.abandon()
        disk.crash()
        broker.start()
        with RawClient(broker.bootstrap) as client:
            assert log_start(client, "t") == 7, f"seed {seed}"
        broker.stop()


def test_a_log_start_that_cannot_be_written_down_is_told_and_may_be_tried_again(tmp_path: Path) -> None:
    disk = SimulatedDisk(random.Random(1))
    (tmp_path / "data").mkdir()
    with (
        Broker(data=tmp_path / "data", host=Host(disk=disk, worker_processes=False)) as broker,
        RawClient(broker.bootstrap) as client,
    ):
        create(client, "t")
        for number in range(9):
            append(client, "t", b"%d" % number)
        disk.fail("write", "log-start-offset-checkpoint.tmp")
        refused = delete(client, "t", 3)
        disk.heal()

        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert delete(client, "t", 3).low_watermark == 3
        append(client, "t", b"the log goes on")


def test_records_of_internal_topics_cannot_be_deleted() -> None:
    with Broker() as broker, RawClient(broker.bootstrap) as client:
        assert delete(client, CONSUMER_OFFSETS, 0).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def disks(count: int = 2) -> dict[int, SimulatedDisk]:
    return {broker_id: SimulatedDisk(random.Random(broker_id)) for broker_id in range(1, count + 1)}


def test_a_deletion_is_answered_when_it_is_durable_on_every_living_replica() -> None:
    async def story() -> None:
        media = disks()
        async with MemoryCluster(2, disks=media) as cluster:
            await cluster.create_topic("t", factor=2)
            leader = cluster.image.topics["t"].partitions[0].leader
            follower = 3 - leader
            await cluster.produce(leader, "t", "a", "b", "c")
            replica = cluster.brokers[follower].parts.replicas.find("t", 0)
            await cluster.until(lambda: replica.high_watermark == 3)
            fault = media[follower].fail("write", "log-start-offset-checkpoint.tmp")
            asked = asyncio.ensure_future(cluster.call(leader, deletion("t", 2, 1500), 2))
            await cluster.until(lambda: replica.log.start_offset == 2 and fault.hits > 0)
            # A follower that has grown tells its leader in its next fetch where it ends, and where it begins.
            await cluster.produce(leader, "t", "d")
            await cluster.until(lambda: replica.high_watermark == 4)
            late = (await asked).topics[0].partitions[0]
            media[follower].heal()
            done = (await cluster.call(leader, deletion("t", 2), 2)).topics[0].partitions[0]

            assert (late.error_code, late.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 0)
            assert (done.error_code, done.low_watermark) == (ErrorCode.NONE, 2)
            # Whatever happens to the follower now, it begins there.
            text = media[follower].read_bytes(Path(f"/data/{follower}/log-start-offset-checkpoint"))
            assert b"t 0 2" in text

    play(story)


def test_a_deletion_is_answered_also_where_retention_was_faster_on_a_follower() -> None:
    async def story() -> None:
        async with MemoryCluster(2, disks=disks()) as cluster:
            await cluster.create_topic("t", factor=2)
            leader = cluster.image.topics["t"].partitions[0].leader
            follower = cluster.brokers[3 - leader].parts.replicas.find
            await cluster.produce(leader, "t", "a", "b", "c")
            await cluster.until(lambda: follower("t", 0).high_watermark == 3)
            follower("t", 0).log.delete_before(2)
            done = (await cluster.call(leader, deletion("t", 2), 2)).topics[0].partitions[0]

            assert (done.error_code, done.low_watermark) == (ErrorCode.NONE, 2)

    play(story)


def test_a_deletion_does_not_wait_for_a_replica_whose_broker_is_gone() -> None:
    async def story() -> None:
        async with MemoryCluster(2) as cluster:
            await cluster.create_topic("t", factor=2)
            leader = cluster.image.topics["t"].partitions[0].leader
            await cluster.produce(leader, "t", "a", "b", "c")
            await cluster.brokers.pop(3 - leader).stop()
            await cluster.until(lambda: cluster.brokers[leader].image.brokers.keys() == {leader})
            done = (await cluster.call(leader, deletion("t", 2), 2)).topics[0].partitions[0]

            assert (done.error_code, done.low_watermark) == (ErrorCode.NONE, 2)

    play(story)

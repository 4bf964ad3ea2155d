"""Tiered topics in a cluster: new leaders and new replicas go on behind what is in the store, and copy none of it."""

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from headrace.broker.app import Broker
from headrace.log.log import Log
from headrace.records.batch import iterate_batches
from headrace.testing.disk import SimulatedDisk
from headrace.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tests.integration.memory_cluster import MemoryCluster, play
from tests.support.waiting import until_async

CONFIGS = {
    "remote.storage.enable": "true",
    "retention.ms": "-1",
    "internal.segment.bytes": "300",
    "local.retention.ms": "1",
    "file.delete.delay.ms": "0",
}


def log_of(broker: Broker) -> Log:
    log = broker.parts.replicas.find("t", 0).log
    assert isinstance(log, Log)
    return log


async def create(cluster: MemoryCluster, *replicas: int) -> None:
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)
    configs = tuple(CreatableTopicConfig(name=name, value=value) for name, value in CONFIGS.items())
    topic = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=(assignment,), configs=configs)
    assert (await cluster.call(1, CreateTopicsRequest(topics=(topic,), timeout_ms=10_000), 5)).topics[0].error_code == 0
    await cluster.until(lambda: all("t" in broker.image.topics for broker in cluster.brokers.values()))


async def read_all(cluster: MemoryCluster, broker_id: int, end: int) -> list[int]:
    offsets: list[int] = []
    while not offsets or offsets[-1] < end - 1:
        data = await cluster.fetch(broker_id, "t", offsets[-1] + 1 if offsets else 0)
        assert data.error_code == 0
        assert not isinstance(data.records, list)
        offsets += [header.base_offset for header, _ in iterate_batches(data.records)] if data.records else []
    return offsets


def test_a_new_replica_begins_behind_the_store_and_can_lead(tmp_path: Path) -> None:
    async def story() -> None:
        disks = {each: SimulatedDisk(random.Random(each)) for each in (1, 2, 3)}
        settings = {"headrace.remote.url": f"file://{tmp_path}", "remote.log.manager.task.interval.ms": "20"}
        async with MemoryCluster(3, settings, disks=disks) as cluster:
            await create(cluster, 1, 2)
            for number in range(12):
                await cluster.produce(1, "t", f"{number:03d}" * 30)
            for broker in (cluster.brokers[1], cluster.brokers[2]):
                await until_async(lambda broker=broker: log_of(broker).state.local_start >= 10, "leader and follower let go")
                assert log_of(broker).start_offset == 0

            wanted = ReassignablePartition(partition_index=0, replicas=(3,))
            moved = AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(name="t", partitions=(wanted,)),))
            await cluster.call(1, moved, 0)
            await cluster.until(lambda: cluster.image.topics["t"].partitions[0].leader == 3)

            new = log_of(cluster.brokers[3])
            assert new.state.local_start >= 10, "it copied nothing of what is in the store"
            await cluster.until(lambda: cluster.brokers[3].parts.replicas.find("t", 0).is_leader)
            assert (await cluster.produce(3, "t", "more")).responses[0].partition_responses[0].base_offset == 12
            assert await read_all(cluster, 3, 13) == list(range(13))
            assert next(epoch for epoch, _ in new.epochs) == 0

    play(story)

"""From one node to three without losing data, and a broker whose disk was replaced."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.broker.cluster.peers import Peers
from headrace.model.errors import ErrorCode
from headrace.testing.cluster import BrokerProcess, ProcessCluster
from headrace.testing.etcd import etcd_program, free_port
from headrace.testing.histories import Load, check, create_topic, leader_of, read_all, wait_for_in_sync
from headrace.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)

pytestmark = [
    pytest.mark.etcd,
    pytest.mark.slow,
    pytest.mark.skipif(etcd_program() is None, reason="etcd is not installed (Debian: apt install etcd-server)"),
]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ProcessCluster]:
    with ProcessCluster(tmp_path / "cluster") as running:
        yield running


def move(broker: BrokerProcess, topic: str, partitions: int, replicas: tuple[int, ...]) -> None:
    async def call() -> None:
        peers = Peers("test", lambda _: ("127.0.0.1", broker.port))
        wanted = tuple(ReassignablePartition(partition_index=index, replicas=replicas) for index in range(partitions))
        request = AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(name=topic, partitions=wanted),))
        response = await peers.call(broker.broker_id, request, 0, timeout=20)
        assert all(answer.error_code == ErrorCode.NONE for answer in response.responses[0].partitions), response
        peers.close()

    asyncio.run(call())


def test_a_single_node_becomes_a_cluster_of_three_with_its_data(tmp_path: Path) -> None:
    data = tmp_path / "single"
    single = BrokerProcess(1, free_port(), data, {"node.id": "1"})
    single.start()
    try:
        single.wait_until_ready()
        create_topic(single.address, "t", 2, 1)
        with Load(single.address, "t", 2) as load:
            load.wait_for(200)
        assert single.stop() == 0
    finally:
        single.kill()
    (tmp_path / "cluster").mkdir()
    shutil.move(data, tmp_path / "cluster" / "broker-1")
    # The node that has the data starts first: the cluster gets its name.
    with ProcessCluster(tmp_path / "cluster", broker_count=1) as cluster:
        for broker_id in (2, 3):
            cluster.add(broker_id).wait_until_ready()
        move(cluster.brokers[1], "t", 2, (2, 3, 1))
        wait_for_in_sync(cluster.bootstrap, "t", 3)
        cluster.brokers[1].kill()
        rest = f"{cluster.brokers[2].address},{cluster.brokers[3].address}"

        check(load, read_all(rest, "t", 2))


def test_a_broker_that_comes_back_with_an_empty_disk_leads_nothing_until_it_has_everything(cluster: ProcessCluster) -> None:
    # One replica is enough here: it is to show, alone, that it has everything.
    create_topic(cluster.bootstrap, "t", 3, 3, min_insync_replicas="1")
    with Load(cluster.bootstrap, "t", 3) as load:
        load.wait_for(100)
        victim = leader_of(cluster.bootstrap, "t")
        cluster.brokers[victim].kill()
        shutil.rmtree(cluster.brokers[victim].directory)
        cluster.brokers[victim].start()
        cluster.brokers[victim].wait_until_ready()
        wait_for_in_sync(cluster.bootstrap, "t", 3)
        load.wait_for(50)
    for broker_id, broker in cluster.brokers.items():
        if broker_id != victim:
            assert broker.stop() == 0

    check(load, read_all(cluster.brokers[victim].address, "t", 3))

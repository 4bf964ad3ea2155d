"""Unclean elections are counted in the metadata store, once each, and anybody can see how many there were."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from headrace.cli.output import iso_time
from headrace.controller.entries import UNCLEAN_ELECTIONS, Condition, Operation, Put, UncleanElections
from headrace.metadata.memory import MemoryStore
from headrace.metadata.store import StoreUnavailable, TransactionResult
from headrace.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from headrace.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.integration.memory_cluster import MemoryCluster, SharedStore, play
from tests.support.waiting import stays_async


class ForgetfulStore(SharedStore):
    """Takes the first transaction that counts an unclean election, and fails before it can say so."""

    def __init__(self, whole: MemoryStore) -> None:
        super().__init__(whole)
        self.__dict__.setdefault("answers_lost", 0)

    async def transact(self, conditions: Sequence[Condition], operations: Sequence[Operation]) -> TransactionResult:
        result = await super().transact(conditions, operations)
        counts = any(isinstance(operation, Put) and operation.key == UNCLEAN_ELECTIONS for operation in operations)
        if counts and not self.__dict__["answers_lost"]:
            self.__dict__["answers_lost"] += 1
            raise StoreUnavailable("the connection was lost")
        return result


class ForgetfulCluster(MemoryCluster):
    hold = ForgetfulStore


async def create(cluster: MemoryCluster, unclean: str, partitions: int) -> None:
    """Partitions on brokers 1 and 2, which 2 leads."""
    topic = CreatableTopic(
        name="t",
        num_partitions=-1,
        replication_factor=-1,
        assignments=tuple(CreatableReplicaAssignment(partition_index=n, broker_ids=(2, 1)) for n in range(partitions)),
        configs=(CreatableTopicConfig(name="unclean.leader.election.enable", value=unclean),),
    )
    response = await cluster.call(3, CreateTopicsRequest(topics=(topic,), timeout_ms=10_000), 5)
    assert response.topics[0].error_code == 0, response
    await cluster.until(lambda: all("t" in broker.image.topics for broker in cluster.brokers.values()))


async def lose_both(cluster: MemoryCluster) -> None:
    """One after the other, so that the second was alone in sync; only the first comes back."""
    for broker_id in (1, 2):
        gone = cluster.brokers.pop(broker_id)
        await gone.stop()
    await cluster.until(lambda: cluster.image.topics["t"].partitions[0].leader == -1)
    await cluster.add(1)


async def told(cluster: MemoryCluster, broker_id: int) -> UncleanElections:
    resource = DescribeConfigsResource(
        resource_type=4, resource_name=str(broker_id), configuration_keys=("headrace.unclean.elections",)
    )
    answer: Any = await cluster.call(broker_id, DescribeConfigsRequest(resources=(resource,)), 4)
    return UncleanElections.from_value(answer.results[0].configs[0].value.encode())


async def status(cluster: MemoryCluster, *options: str) -> str:
    host, port = cluster.brokers[3].address
    command = [sys.executable, "-m", "headrace", "cluster", "status", "-b", f"{host}:{port}", *options]
    asked = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    output, remarks = await asked.communicate()
    assert asked.returncode == 0, remarks.decode()
    return " ".join((output if options else output + remarks).decode().split())


def test_each_is_counted_once_though_the_stores_answer_is_lost() -> None:
    async def story() -> None:
        async with ForgetfulCluster(3) as cluster:
            await create(cluster, "true", 5)
            await lose_both(cluster)
            await cluster.until(lambda: all(state.leader == 1 for state in cluster.image.topics["t"].partitions))

            counted = cluster.image.unclean_elections
            assert cluster.store.__dict__["answers_lost"] == 1
            assert counted.count == 5
            assert counted.last is not None
            assert (counted.last.topic, counted.last.leader) == ("t", 1)
            assert [await told(cluster, broker) for broker in cluster.brokers] == [counted] * 2
            # What a broker that starts later reads is the same: the count outlives every controller.
            await cluster.add(4)
            assert await told(cluster, 4) == counted

            words, facts = await asyncio.gather(status(cluster), status(cluster, "--json"))
            assert "unclean elections: 5; the last gave t-" in words
            assert f"to broker 1 at {iso_time(counted.last.at_ms)}" in words
            assert json.loads(facts)["unclean_elections"] == json.loads(counted.to_value())

    play(story)


def test_where_the_topic_does_not_allow_one_there_is_none() -> None:
    async def story() -> None:
        async with MemoryCluster(3) as cluster:
            await create(cluster, "false", 1)
            await lose_both(cluster)
            await cluster.until(lambda: cluster.image.is_admitted(1))

            await stays_async(lambda: cluster.image.topics["t"].partitions[0].leader == -1, 0.05)
            assert cluster.image.unclean_elections == UncleanElections()

    play(story)

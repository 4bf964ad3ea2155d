"""Delayed records among several brokers: who leads what waits, and who leads what it is for, come and go."""

import asyncio
import time
from typing import Any

import pytest

from headrace.broker.delaying import delivering
from headrace.model.errors import ErrorCode
from headrace.model.names import DELAYED
from headrace.records.batch import build_batch, iterate_batches
from headrace.records.record import Record, read_records
from headrace.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.integration.memory_cluster import MemoryCluster, play
from tests.support.waiting import until_async

SETTINGS = {"broker.session.timeout.ms": "2000", "headrace.delay.topic.num.partitions": "1"}
PARTITIONS = 3


async def make_topic(cluster: MemoryCluster, partitions: int = PARTITIONS) -> None:
    config = CreatableTopicConfig(name="headrace.delay.enable", value="true")
    topic = CreatableTopic(name="t", num_partitions=partitions, replication_factor=3, assignments=(), configs=(config,))
    await cluster.call(1, CreateTopicsRequest(topics=(topic,), timeout_ms=10_000), 5)
    await cluster.until(lambda: all(len(state.isr) == 3 for state in cluster.image.topics["t"].partitions))


async def send(cluster: MemoryCluster, index: int, *texts: bytes, sequence: int, delay_ms: int) -> None:
    """Until it is acknowledged, as producers do."""
    headers = (("headrace-delay-ms", b"%d" % delay_ms),)
    records = [Record(0, 1, b"k", text, headers) for text in texts]
    batch = build_batch(records, producer_id=77, producer_epoch=0, base_sequence=sequence)
    topics = (TopicProduceData(name="t", partition_data=(PartitionProduceData(index=index, records=batch),)),)
    request = ProduceRequest(acks=-1, timeout_ms=3000, topic_data=topics)

    async def is_taken() -> bool:
        leader = cluster.image.topics["t"].partitions[index].leader
        if leader not in cluster.brokers:
            return False
        try:
            response = await cluster.call(leader, request, 9)
        except Exception:
            return False
        return bool(response.responses[0].partition_responses[0].error_code == ErrorCode.NONE)

    await until_async(is_taken)


def delivered(cluster: MemoryCluster, index: int) -> list[bytes]:
    leader = cluster.image.topics["t"].partitions[index].leader
    if leader not in cluster.brokers:
        return []
    log = cluster.brokers[leader].parts.replicas.find("t", index).log
    data = log.read(0, max_bytes=1 << 20, up_to=log.end_offset, at_least_one=True, as_stored=True).data
    return [record.value or b"" for _, batch in iterate_batches(data) for record in read_records(batch)]


def leader_of_waiting(cluster: MemoryCluster) -> int:
    return cluster.image.topics[DELAYED].partitions[0].leader


async def crash(cluster: MemoryCluster, broker_id: int) -> None:
    """Nothing is handed over or finished."""
    await cluster.brokers.pop(broker_id)._let_go()


def test_what_waits_at_one_broker_is_for_partitions_of_all_of_them() -> None:
    async def story() -> None:
        async with MemoryCluster(3, SETTINGS) as cluster:
            await make_topic(cluster)
            leaders = {state.leader for state in cluster.image.topics["t"].partitions}
            assert len(leaders) == 3
            for index in range(PARTITIONS):
                await send(cluster, index, b"second", sequence=0, delay_ms=2500)
                await send(cluster, index, b"first", sequence=1, delay_ms=1000)
            await cluster.until(lambda: all(delivered(cluster, n) == [b"first", b"second"] for n in range(PARTITIONS)))

    play(story)


@pytest.mark.parametrize("who", ["of what waits", "of what it is for"])
def test_a_leader_that_goes_loses_nothing_and_doubles_nothing(who: str) -> None:
    async def story() -> None:
        async with MemoryCluster(3, SETTINGS) as cluster:
            await make_topic(cluster)
            expected: dict[int, set[bytes]] = {index: set() for index in range(PARTITIONS)}
            for round_number in range(6):
                for index in range(PARTITIONS):
                    text = b"%d of %d" % (round_number, index)
                    await send(cluster, index, text, sequence=round_number, delay_ms=[0, 400, 100][round_number % 3])
                    expected[index].add(text)
                if round_number == 2:
                    leader = leader_of_waiting(cluster)
                    gone = leader if who == "of what waits" else cluster.image.topics["t"].partitions[0].leader
                    await crash(cluster, gone)
                    await cluster.until(lambda gone=gone: leader_of_waiting(cluster) in cluster.brokers)  # type: ignore[misc]
            await cluster.until(lambda: all(set(delivered(cluster, n)) == expected[n] for n in range(PARTITIONS)))
            for index in range(PARTITIONS):
                found = delivered(cluster, index)
                assert len(found) == len(set(found)), "delivered twice"

    play(story)


def test_a_delivery_whose_answer_is_lost_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader of what waits dies after the target has it, and before it knows: its successor sends it again."""
    send_whole = delivering.Outlet.send
    sent: list[int] = []

    async def send_and_lose(self: Any, target: Any, batch: bytes) -> None:
        await send_whole(self, target, batch)
        sent.append(self._broker_id)
        if len(sent) == 1:
            await asyncio.Event().wait()

    monkeypatch.setattr(delivering.Outlet, "send", send_and_lose)

    async def story() -> None:
        async with MemoryCluster(3, SETTINGS) as cluster:
            await make_topic(cluster, 1)
            await send(cluster, 0, b"a", b"b", sequence=0, delay_ms=0)
            await cluster.until(lambda: len(sent) == 1)
            await crash(cluster, leader_of_waiting(cluster))
            await send(cluster, 0, b"c", sequence=2, delay_ms=0)

            await cluster.until(lambda: len(sent) >= 3)
            await cluster.until(lambda: delivered(cluster, 0) == [b"a", b"b", b"c"])
            assert len(set(sent)) > 1

    play(story)


def test_the_topic_of_what_waits_is_made_as_it_is_set() -> None:
    given = {"headrace.delay.topic.num.partitions": "7", "headrace.delay.topic.replication.factor": "2"}

    async def story() -> None:
        async with MemoryCluster(3, given) as cluster:
            await make_topic(cluster)
            await send(cluster, 0, b"x", sequence=0, delay_ms=60_000)
            topic = cluster.image.topics[DELAYED]
            assert (topic.partition_count, topic.replication_factor) == (7, 2)
            assert topic.configs["min.insync.replicas"] == "1"

    play(story)


def test_a_clock_that_is_set_ahead_delivers_nothing_before_it_is_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(confirmed_after_ms: str) -> None:
        settings = {**SETTINGS, "headrace.delay.clock.confirm.ms": confirmed_after_ms}
        async with MemoryCluster(3, settings) as cluster:
            await make_topic(cluster, 1)
            await send(cluster, 0, b"x", sequence=0, delay_ms=3_000_000)
            for broker in cluster.brokers.values():
                monkeypatch.setattr(type(broker.clock), "wall_ms", lambda self: time.time_ns() // 1_000_000 + 3_600_000)
                broker.parts.delays.look_at_clock()
                for led in broker.parts.delays.shards.loaded():
                    led.shard.tick(broker.parts.delays.now())
            # What is sent now goes by a clock that is not believed, too.
            await send(cluster, 0, b"y", sequence=1, delay_ms=0)
            expected = [b"y"] if int(confirmed_after_ms) else [b"x", b"y"]
            await cluster.until(lambda: len(delivered(cluster, 0)) == len(expected))
            assert sorted(delivered(cluster, 0)) == expected

    play(lambda: story("600000"))
    monkeypatch.undo()
    play(lambda: story("0"))


@pytest.mark.parametrize("codec", ["producer", "gzip"])
def test_what_waited_is_delivered_also_where_clients_could_not_write_it_any_more(codec: str) -> None:
    """Delays are switched off meanwhile, and a batch of what is due is larger than clients' may be."""
    settings = {"headrace.delay.enable": "false", "max.message.bytes": "150", "compression.type": codec}

    async def story() -> None:
        async with MemoryCluster(3, SETTINGS) as cluster:
            await make_topic(cluster)
            for index in range(PARTITIONS):
                await send(cluster, index, b"a" * 100, b"b" * 100, sequence=0, delay_ms=2500)
            configs = tuple(AlterableConfig(name=name, config_operation=0, value=value) for name, value in settings.items())
            topic = AlterConfigsResource(resource_type=2, resource_name="t", configs=configs)
            await cluster.call(1, IncrementalAlterConfigsRequest(resources=(topic,), validate_only=False), 1)
            assert all(delivered(cluster, index) == [] for index in range(PARTITIONS))

            await cluster.until(lambda: all(delivered(cluster, n) == [b"a" * 100, b"b" * 100] for n in range(PARTITIONS)))

    play(story)

"""Moving replicas, choosing leaders, quotas, nearby reads and forgetting brokers, over the wire on a cluster in memory."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from headrace.model.errors import ErrorCode
from headrace.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from headrace.wire.messages.alter_partition import AlterPartitionRequest, PartitionData, TopicData
from headrace.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from headrace.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from headrace.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests.integration.memory_cluster import MemoryCluster, play


def reassign(replicas: tuple[int, ...] | None, topic: str = "t") -> AlterPartitionReassignmentsRequest:
    partition = ReassignablePartition(partition_index=0, replicas=replicas)
    return AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(name=topic, partitions=(partition,)),))


async def move(cluster: MemoryCluster, replicas: tuple[int, ...] | None, topic: str = "t") -> ErrorCode:
    response = await cluster.call(1, reassign(replicas, topic), 0)
    return ErrorCode(response.responses[0].partitions[0].error_code)


def test_a_partition_moves_with_its_records_and_the_old_replicas_go() -> None:
    async def story() -> None:
        async with MemoryCluster(4) as cluster:
            await cluster.create_topic("t", factor=2)
            before = cluster.image.topics["t"].partitions[0]
            target = tuple(broker for broker in (1, 2, 3, 4) if broker not in before.replicas)
            await cluster.produce(before.leader, "t", "a", "b", "c")

            assert await move(cluster, target) is ErrorCode.NONE
            await cluster.until(lambda: cluster.image.topics["t"].partitions[0].replicas == target)
            state = cluster.image.topics["t"].partitions[0]
            assert state.leader in target
            assert set(state.isr) == set(target)
            leader = cluster.brokers[state.leader].parts.replicas.find("t", 0)
            await cluster.until(lambda: leader.is_leader)
            # A new leader may have heard less of the high watermark than consumers had, until its follower asks.
            await cluster.until(lambda: leader.high_watermark == 3)
            assert (await cluster.fetch(state.leader, "t")).high_watermark == 3
            await cluster.until(lambda: not any(cluster.brokers[b].parts.replicas.of_topic("t") for b in before.replicas))
            listing = await cluster.call(1, ListPartitionReassignmentsRequest(), 0)
            assert listing.topics == ()

    play(story)


def test_a_move_to_a_broker_that_is_down_is_listed_and_can_be_cancelled() -> None:
    async def story() -> None:
        async with MemoryCluster(4) as cluster:
            await cluster.create_topic("t", factor=1)
            home = cluster.image.topics["t"].partitions[0].replicas
            away = next(broker for broker in (2, 3, 4) if broker not in home)
            await cluster.brokers.pop(away).stop()
            assert await move(cluster, (away,)) is ErrorCode.NONE
            listing = await cluster.call(1, ListPartitionReassignmentsRequest(), 0)

            assert listing.topics[0].partitions[0].adding_replicas == (away,)
            assert listing.topics[0].partitions[0].removing_replicas == home
            assert await move(cluster, None) is ErrorCode.NONE
            assert cluster.image.topics["t"].partitions[0].replicas == home
            assert await move(cluster, None) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
            assert await move(cluster, (9,)) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
            assert await move(cluster, (1,), topic="nobody") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    play(story)


def test_leadership_goes_back_to_the_preferred_replica_when_asked() -> None:
    async def story() -> None:
        async with MemoryCluster(3) as cluster:
            await cluster.create_topic("t")
            preferred = cluster.image.topics["t"].partitions[0].replicas[0]
            await cluster.brokers.pop(preferred).stop()
            assert cluster.image.topics["t"].partitions[0].leader != preferred
            await cluster.add(preferred)
            await cluster.until(lambda: preferred in cluster.image.topics["t"].partitions[0].isr)
            asked = ElectLeadersRequest(topic_partitions=(TopicPartitions(topic="t", partitions=(0, 7)),))
            any_broker = next(iter(cluster.brokers))
            response = await cluster.call(any_broker, asked, 2)
            codes = [ErrorCode(result.error_code) for result in response.replica_election_results[0].partition_result]

            assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
            assert cluster.image.topics["t"].partitions[0].leader == preferred
            again = await cluster.call(any_broker, ElectLeadersRequest(topic_partitions=None), 2)
            assert again.replica_election_results == ()

    play(story)


def test_a_writer_over_its_quota_is_told_to_wait_and_is_not_heard_meanwhile() -> None:
    async def story() -> None:
        async with MemoryCluster(1) as cluster:
            await cluster.create_topic("t", factor=1)
            entity = (EntityData(entity_type="client-id", entity_name="test"),)
            change = OpData(key="producer_byte_rate", value=1000.0, remove=False)
            request = AlterClientQuotasRequest(entries=(EntryData(entity=entity, ops=(change,)),), validate_only=False)
            assert (await cluster.call(1, request, 1)).entries[0].error_code == ErrorCode.NONE
            wanted = ComponentData(entity_type="client-id", match_type=0, match="test")
            described = await cluster.call(1, DescribeClientQuotasRequest(components=(wanted,), strict=True), 1)
            assert [(value.key, value.value) for value in described.entries[0].values] == [("producer_byte_rate", 1000.0)]
            loop = cluster.brokers[1].loop
            first = await cluster.produce(1, "t", "x" * 1400)
            began = loop.time()
            second = await cluster.produce(1, "t", "y")

            assert 300 <= first.throttle_time_ms <= 600
            assert loop.time() - began >= 0.3
            assert second.responses[0].partition_responses[0].error_code == ErrorCode.NONE

    play(story)


def test_a_topic_that_used_up_its_storage_takes_no_more() -> None:
    async def story() -> None:
        async with MemoryCluster(1) as cluster:
            await cluster.create_topic("t", factor=1)
            entity = (EntityData(entity_type="topic", entity_name="t"),)
            change = OpData(key="storage_bytes", value=500.0, remove=False)
            request = AlterClientQuotasRequest(entries=(EntryData(entity=entity, ops=(change,)),), validate_only=False)
            assert (await cluster.call(1, request, 1)).entries[0].error_code == ErrorCode.NONE
            fits = await cluster.produce(1, "t", "x" * 600)
            refused = await cluster.produce(1, "t", "y")

            assert fits.responses[0].partition_responses[0].error_code == ErrorCode.NONE
            assert refused.responses[0].partition_responses[0].error_code == ErrorCode.POLICY_VIOLATION

    play(story)


def test_a_consumer_is_sent_to_the_replica_in_its_rack_and_served_there() -> None:
    async def story() -> None:
        racks = {1: "a", 2: "b", 3: "c"}
        async with MemoryCluster(3, settings={"replica.selector.class": "rack"}, racks=racks) as cluster:
            await cluster.create_topic("t")
            leader = cluster.image.topics["t"].partitions[0].leader
            nearby = leader % 3 + 1
            await cluster.produce(leader, "t", "a", "b")
            await cluster.until(lambda: cluster.brokers[nearby].parts.replicas.find("t", 0).high_watermark == 2)
            sent_on = await cluster.fetch(leader, "t", rack=racks[nearby])
            at_home = await cluster.fetch(leader, "t", rack=racks[leader])
            there = await cluster.fetch(nearby, "t", rack=racks[nearby])

            assert sent_on.preferred_read_replica == nearby
            assert not sent_on.records
            assert at_home.preferred_read_replica == -1
            assert there.error_code == ErrorCode.NONE
            assert bytes(there.records or b"") == bytes(at_home.records or b"")  # type: ignore[arg-type]

    play(story)


def test_without_the_setting_followers_serve_no_consumer() -> None:
    async def story() -> None:
        async with MemoryCluster(2) as cluster:
            await cluster.create_topic("t", factor=2)
            leader = cluster.image.topics["t"].partitions[0].leader

            assert (await cluster.fetch(3 - leader, "t")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    play(story)


def test_an_in_sync_change_over_the_wire_is_held_to_the_same_rules() -> None:
    async def story() -> None:
        async with MemoryCluster(2) as cluster:
            await cluster.create_topic("t", factor=2)
            topic = cluster.image.topics["t"]
            state = topic.partitions[0]
            epoch = cluster.image.brokers[state.leader].epoch
            wanted = PartitionData(partition_index=0, leader_epoch=state.leader_epoch, new_isr=(state.leader,), partition_epoch=0)
            data = TopicData(topic_id=topic.topic_id, partitions=(wanted,))
            stale = AlterPartitionRequest(broker_id=state.leader, broker_epoch=epoch - 1, topics=(data,))
            right = AlterPartitionRequest(broker_id=state.leader, broker_epoch=epoch, topics=(data,))

            assert (await cluster.call(1, stale, 2)).error_code == ErrorCode.STALE_BROKER_EPOCH
            answer = (await cluster.call(1, right, 2)).topics[0].partitions[0]
            assert (answer.error_code, answer.isr) == (ErrorCode.NONE, (state.leader,))
            # The follower is well, so its leader lets it in again.
            await cluster.until(lambda: len(cluster.image.topics["t"].partitions[0].isr) == 2)

    play(story)


def test_a_broker_is_forgotten_only_when_it_is_gone() -> None:
    async def story() -> None:
        async with MemoryCluster(2) as cluster:
            alive = await cluster.call(1, UnregisterBrokerRequest(broker_id=2), 0)
            await cluster.brokers.pop(2).stop()
            gone = await cluster.call(1, UnregisterBrokerRequest(broker_id=2), 0)
            again = await cluster.call(1, UnregisterBrokerRequest(broker_id=2), 0)

            assert alive.error_code == ErrorCode.INVALID_REQUEST
            assert gone.error_code == ErrorCode.NONE
            assert again.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED

    play(story)


def test_a_throttled_move_takes_its_time_and_arrives() -> None:
    async def story() -> None:
        async with MemoryCluster(2) as cluster:
            await cluster.create_topic("t", factor=1)
            home = cluster.image.topics["t"].partitions[0].replicas[0]
            away = 3 - home
            for _ in range(6):
                await cluster.produce(home, "t", "x" * 10_000)
            settings = {"leader.replication.throttled.replicas": "*", "follower.replication.throttled.replicas": f"0:{away}"}
            await cluster.brokers[1].cluster.alter_topic_configs("t", lambda before: {**before, **settings})
            rates = {"leader.replication.throttled.rate": "40000", "follower.replication.throttled.rate": "40000"}
            await cluster.brokers[1].cluster.alter_broker_configs(None, lambda before: rates)
            await cluster.until(lambda: cluster.brokers[away].config["follower.replication.throttled.rate"] == 40_000)
            loop = cluster.brokers[1].loop
            began = loop.time()
            assert await move(cluster, (away,)) is ErrorCode.NONE
            for _ in range(6):
                await cluster.produce(home, "t", "y" * 10_000)
            await cluster.until(lambda: cluster.image.topics["t"].partitions[0].replicas == (away,))

            # 120 kB at 40 kB/s, with a second's worth for free.
            assert 0.5 < loop.time() - began < 15

    play(story)

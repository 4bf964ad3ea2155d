"""Followers fetch in sessions: idle partitions cost nothing, and nothing is forgotten for being idle."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from headrace.broker.app import Broker
from headrace.broker.following import fetcher as replica_fetcher
from headrace.broker.following import sessions as replica_sessions
from headrace.broker.following.sessions import ReplicaSession
from headrace.model.errors import ErrorCode
from headrace.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from headrace.wire.messages.fetch import FetchRequest, FetchTopic, ReplicaState
from tests.integration.memory_cluster import MemoryCluster, play
from tests.support.raw import batch
from tests.support.waiting import stays_async

FETCH_VERSION = 17


def is_settled(leader: Broker, size: int) -> bool:
    """Whether the follower has named everything, and heard all there is to hear."""
    return any(len(session) == size and not session.due for session in leader.parts.sessions)


def end_offset(broker: Broker, topic: str, partition: int = 0) -> int:
    return broker.parts.replicas.find(topic, partition).log.end_offset


def test_idle_partitions_are_in_the_session_and_not_in_the_requests() -> None:
    async def story() -> None:
        async with MemoryCluster(2) as cluster:
            await cluster.create_topic("t", partitions=100, factor=2)
            leader, follower = cluster.brokers[1], cluster.brokers[2]
            led = [index for index, state in enumerate(cluster.image.topics["t"].partitions) if state.leader == 1]
            await cluster.until(lambda: is_settled(leader, len(led)))
            named: list[int] = []
            take = ReplicaSession.take

            def count(session: ReplicaSession, request: FetchRequest) -> None:
                named.append(sum(len(topic.partitions) for topic in request.topics))
                take(session, request)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(ReplicaSession, "take", count)
                response = await cluster.produce(1, "t", "a", "b", partition=led[0])
                await cluster.until(lambda: follower.parts.replicas.find("t", led[0]).high_watermark == 2)

            assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE
            assert end_offset(follower, "t", led[0]) == 2
            assert max(named) <= 2

    play(story)


def test_what_was_cut_behind_the_sessions_back_leaves_no_hole() -> None:
    async def story() -> None:
        async with MemoryCluster(2) as cluster:
            await cluster.create_topic("t", factor=2)
            leader = cluster.brokers[cluster.image.topics["t"].partitions[0].leader]
            follower = cluster.brokers[3 - leader.broker_id].parts.replicas.find("t", 0)
            for value in ("a", "b", "c"):
                await cluster.produce(leader.broker_id, "t", value)
            await cluster.until(lambda: is_settled(leader, 1))
            # As mending does it.  The leader goes on to believe that everything up to 3 is there.
            follower.log.truncate_to(1)
            follower.on_truncated()
            await cluster.produce(leader.broker_id, "t", "d")
            await cluster.until(lambda: follower.log.end_offset == 4)

            ours = leader.parts.replicas.find("t", 0).log
            whole = follower.log.read(0, max_bytes=1 << 20, up_to=4, at_least_one=True)
            assert bytes(whole.data) == bytes(ours.read(0, max_bytes=1 << 20, up_to=4, at_least_one=True).data)

    play(story)


def test_a_follower_that_had_to_cut_its_log_hears_of_the_high_watermark_though_nobody_writes() -> None:
    async def story() -> None:
        async with MemoryCluster(2) as cluster:
            await cluster.create_topic("t", factor=2)
            leader = cluster.brokers[cluster.image.topics["t"].partitions[0].leader]
            broker = cluster.brokers[3 - leader.broker_id]
            follower = broker.parts.replicas.find("t", 0)
            await cluster.produce(leader.broker_id, "t", "a", "b")
            await cluster.until(lambda: is_settled(leader, 1))
            # As after a crash: a tail that nobody else has, and no high watermark written down.
            follower.log.append(batch(b"c"), follower.leader_epoch)
            follower.high_watermark = 0
            broker.parts.participation.fetchers.on_role(follower)

            await cluster.until(lambda: follower.high_watermark == 2)
            assert follower.log.end_offset == 2

    play(story)


def test_many_partitions_are_named_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_fetcher, "NAMED_MAX", 7)
    sizes: list[int] = []
    take = ReplicaSession.take

    def count(session: ReplicaSession, request: FetchRequest) -> None:
        sizes.append(sum(len(topic.partitions) for topic in request.topics))
        take(session, request)

    monkeypatch.setattr(ReplicaSession, "take", count)

    async def story() -> None:
        async with MemoryCluster(2) as cluster:
            await cluster.create_topic("t", partitions=60, factor=2)
            led = [index for index, state in enumerate(cluster.image.topics["t"].partitions) if state.leader == 1]
            await cluster.until(lambda: is_settled(cluster.brokers[1], len(led)))

            assert max(sizes) == 7
            for index in led:
                response = await cluster.produce(1, "t", "a", partition=index)
                assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE

    play(story)


def test_a_leader_that_stopped_and_went_on_knows_how_far_its_followers_are() -> None:
    async def story() -> None:
        async with MemoryCluster(2, settings={"replica.lag.time.max.ms": "600"}) as cluster:
            await cluster.create_topic("t", factor=2)
            leader = cluster.brokers[cluster.image.topics["t"].partitions[0].leader]
            await cluster.produce(leader.broker_id, "t", "a")
            before = cluster.image.topics["t"].partitions[0]
            may_lead, leader.parts.replica_changes.may_lead = leader.parts.replica_changes.may_lead, lambda: False
            # Both in one turn of the loop: no follower hears of it.
            partition = leader.parts.replicas.find("t", 0)
            leader.parts.replica_changes._assume_role(partition)
            assert not partition.is_leader
            leader.parts.replica_changes.may_lead = may_lead
            leader.parts.replica_changes._assume_role(partition)

            # The in-sync set is not even doubted.
            await stays_async(lambda: cluster.image.topics["t"].partitions[0] == before, 1.5)
            response = await cluster.produce(leader.broker_id, "t", "b")
            assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE

    play(story)


def test_a_log_start_reaches_followers_of_an_idle_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_sessions, "LOOK_AROUND_S", 0.1)

    async def story() -> None:
        async with MemoryCluster(2) as cluster:
            await cluster.create_topic("t", factor=2)
            leader = cluster.image.topics["t"].partitions[0].leader
            follower = cluster.brokers[3 - leader].parts.replicas.find("t", 0)
            await cluster.produce(leader, "t", "a", "b", "c")
            await cluster.until(lambda: follower.high_watermark == 3)
            wanted = DeleteRecordsPartition(partition_index=0, offset=3)
            request = DeleteRecordsRequest(topics=(DeleteRecordsTopic(name="t", partitions=(wanted,)),), timeout_ms=5_000)
            await cluster.call(leader, request, 2)

            await cluster.until(lambda: follower.log.start_offset == 3)

    play(story)


def test_a_request_out_of_turn_ends_the_session() -> None:
    def request(session_id: int, epoch: int, follower: int = 9) -> FetchRequest:
        return FetchRequest(
            replica_state=ReplicaState(replica_id=follower, replica_epoch=1) if follower >= 0 else ReplicaState(),
            max_wait_ms=0,
            min_bytes=1,
            session_id=session_id,
            session_epoch=epoch,
            topics=(),
        )

    async def story() -> None:
        async with MemoryCluster(1) as cluster:
            begun = await cluster.call(1, request(0, 0), FETCH_VERSION)
            right = await cluster.call(1, request(begun.session_id, 1), FETCH_VERSION)
            again = await cluster.call(1, request(begun.session_id, 1), FETCH_VERSION)
            unknown = await cluster.call(1, request(begun.session_id + 1, 1), FETCH_VERSION)
            consumer = await cluster.call(1, request(0, 0, follower=-1), FETCH_VERSION)

            assert begun.session_id > 0
            assert (right.error_code, right.session_id) == (ErrorCode.NONE, begun.session_id)
            assert again.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
            assert unknown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            assert (consumer.error_code, consumer.session_id) == (ErrorCode.NONE, 0)

    play(story)


def test_a_follower_goes_on_after_its_leader_forgot_the_session() -> None:
    async def story() -> None:
        async with MemoryCluster(2) as cluster:
            await cluster.create_topic("t", factor=2)
            leader = cluster.brokers[cluster.image.topics["t"].partitions[0].leader]
            follower = cluster.brokers[3 - leader.broker_id]
            await cluster.produce(leader.broker_id, "t", "a")
            # Somebody else in its name: the follower's next request is out of turn.
            wanted = FetchTopic(topic_id=leader.image.topics["t"].topic_id, partitions=())
            stranger = FetchRequest(
                replica_state=ReplicaState(replica_id=follower.broker_id, replica_epoch=1),
                max_wait_ms=0,
                min_bytes=1,
                session_id=0,
                session_epoch=0,
                topics=(wanted,),
            )
            await cluster.call(leader.broker_id, stranger, FETCH_VERSION)
            await cluster.produce(leader.broker_id, "t", "b")

            await cluster.until(lambda: end_offset(follower, "t") == 2)

    play(story)


def test_a_partition_is_one_entry_however_often_it_is_named() -> None:
    async def story() -> None:
        async with MemoryCluster(2) as cluster:
            await cluster.create_topic("t", factor=2)
            leader = cluster.brokers[cluster.image.topics["t"].partitions[0].leader]
            partition = leader.parts.replicas.find("t", 0)
            for number in range(5):
                await cluster.produce(leader.broker_id, "t", str(number))
            before = len(partition.on_high_watermark)
            await cluster.produce(leader.broker_id, "t", "more")

            assert len(partition.on_high_watermark) == before

    play(story)

"""A broker that is killed and started again has lost no committed offset and no member."""

import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.compat.group_members import WAIT_S, MemberProcess, SteadyProducer, shares, wait_for
from tests.support.process import BrokerProcess
from tests.support.raw import RawClient

SETTINGS = {
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "offsets.topic.num.partitions": "4",
}
PARTITIONS = 6
GROUP = "readers"


def make_topic(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(WAIT_S)


def commit(client: RawClient, topic: str, offsets: dict[int, int], group: str = GROUP) -> None:
    partitions = tuple(
        OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata="")
        for partition, offset in offsets.items()
    )
    topics = (OffsetCommitRequestTopic(name=topic, partitions=partitions),)
    reply = client.call(OffsetCommitRequest(group_id=group, topics=topics), 9)
    assert {each.error_code for each in reply.topics[0].partitions} == {0}


def fetch(client: RawClient) -> dict[int, int]:
    client.call(FindCoordinatorRequest(key=GROUP), 3)
    reply = client.call(OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=GROUP, topics=None),)), 9)
    return {each.partition_index: each.committed_offset for topic in reply.groups[0].topics for each in topic.partitions}


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["eager", "cooperative", "consumer"])
@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_members_go_on_with_what_they_have_when_the_broker_comes_back(
    tmp_path: Path, topic: str, protocol: str, end: str
) -> None:
    session = {} if protocol == "consumer" else {"session.timeout.ms": 20_000, "heartbeat.interval.ms": 300}
    with BrokerProcess(tmp_path / "data", SETTINGS) as broker:
        make_topic(broker.bootstrap, topic, PARTITIONS)
        members = [MemberProcess(broker.bootstrap, topic, GROUP, protocol, **session) for _ in range(2)]
        try:
            wait_for(lambda: shares(members) == [3, 3], what=lambda: [member.owned for member in members])
            settled = time.monotonic()
            broker.kill() if end == "killed" else broker.stop()
            broker.start()
            producer = SteadyProducer(broker.bootstrap, topic, PARTITIONS, per_second=50)
            wait_for(lambda: len(producer.acknowledged) >= 50)
            sent = {number for *_, number in producer.stop()}
            wait_for(lambda: sent <= {number for member in members for *_, number in member.handled()})

            assert [member.revoked_since(settled) for member in members] == [set(), set()]
            assert shares(members) == [3, 3]
            with RawClient(broker.bootstrap) as client:
                wait_for(lambda: sum(fetch(client).values()) == len(sent), what=lambda: fetch(client))
        finally:
            for member in members:
                member.kill()


def test_an_acknowledged_commit_survives_kill_9(tmp_path: Path, topic: str) -> None:
    with BrokerProcess(tmp_path / "data", SETTINGS) as broker:
        make_topic(broker.bootstrap, topic, PARTITIONS)
        offset = 0
        for _ in range(5):
            with RawClient(broker.bootstrap) as client:
                wait_for(lambda client=client: client.call(FindCoordinatorRequest(key=GROUP), 3).error_code == 0)
                for _ in range(40):
                    offset += 1
                    commit(client, topic, dict.fromkeys(range(PARTITIONS), offset))
            broker.kill()
            broker.start()
            with RawClient(broker.bootstrap) as client:
                assert fetch(client) == dict.fromkeys(range(PARTITIONS), offset)


@pytest.mark.slow
def test_tens_of_thousands_of_committed_offsets_are_there_after_a_crash(tmp_path: Path, topic: str) -> None:
    partitions, groups = 100, [f"{GROUP}-{number}" for number in range(250)]
    # Hundreds of flushes one after the other are not the point here, and the system keeps what a killed process has written.
    settings = {**SETTINGS, "offsets.topic.num.partitions": "1", "headrace.flush": "os"}
    with BrokerProcess(tmp_path / "data", settings) as broker:
        make_topic(broker.bootstrap, topic, partitions)
        with RawClient(broker.bootstrap) as client:
            client.call(FindCoordinatorRequest(key=GROUP), 3)
            for group in groups:
                commit(client, topic, dict.fromkeys(range(partitions), 7), group)
        broker.kill()
        broker.start()
        with RawClient(broker.bootstrap) as client:
            request = OffsetFetchRequest(groups=tuple(OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups))
            wait_for(lambda: not any(group.error_code for group in client.call(request, 9).groups))
            answered = client.call(request, 9).groups

            # How long it takes is a figure of `make bench`.
            offsets = [each.committed_offset for group in answered for found in group.topics for each in found.partitions]
            assert (len(offsets), set(offsets)) == (25_000, {7})

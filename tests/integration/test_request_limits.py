"""What a client may not ask of a broker: to touch the broker's own topics, or to create partitions without end."""

import gc
import weakref
from collections.abc import Iterator
from uuid import UUID

import pytest

from headrace.broker.housekeeping import housekeeping
from headrace.broker.partitions.partition import Partition
from headrace.host.clock import SystemClock
from headrace.log.memory.memory_log import MemoryLog
from headrace.model.errors import ErrorCode
from headrace.model.identity import NO_TOPIC_ID
from headrace.model.topic_settings import LogConfig
from headrace.testing import Broker
from headrace.wire.messages.alter_partition import AlterPartitionRequest, PartitionData, TopicData
from headrace.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headrace.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.messages.describe_groups import DescribeGroupsRequest
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from tests.support.raw import RawClient, batch
from tests.support.waiting import until

LIMIT = 60
UNKNOWN = UUID(int=7)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"headrace.partitions.max": LIMIT}) as running:
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap) as connected:
        yield connected


def create(client: RawClient, name: str, partitions: int, *, assigned: bool = False) -> CreatableTopicResult:
    replicas = tuple(CreatableReplicaAssignment(partition_index=index, broker_ids=(1,)) for index in range(partitions))
    topic = CreatableTopic(
        name=name,
        num_partitions=-1 if assigned else partitions,
        replication_factor=-1,
        assignments=replicas if assigned else (),
        configs=(),
    )
    (result,) = client.call(CreateTopicsRequest(topics=(topic,)), 7).topics
    assert isinstance(result, CreatableTopicResult)
    return result


def grow(client: RawClient, name: str, count: int) -> tuple[int, str | None]:
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    request = CreatePartitionsRequest(topics=(topic,), timeout_ms=5000, validate_only=False)
    (result,) = client.call(request, 3).results
    return result.error_code, result.error_message


def delete(client: RawClient, name: str | None = None, topic_id: UUID = NO_TOPIC_ID) -> int:
    response = client.call(DeleteTopicsRequest(topics=(DeleteTopicState(name=name, topic_id=topic_id),), timeout_ms=5000), 6)
    return int(response.responses[0].error_code)


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("topic", [(UNKNOWN, None), (UNKNOWN, "t"), (UUID(int=0), None)])
def test_metadata_by_id_is_refused_in_versions_whose_replies_cannot_answer_it(
    client: RawClient, version: int, topic: tuple[UUID, str | None]
) -> None:
    asked = MetadataRequestTopic(topic_id=topic[0], name=topic[1])

    (answer,) = client.call(MetadataRequest(topics=(asked,)), version).topics

    assert (answer.error_code, answer.name) == (ErrorCode.INVALID_REQUEST, topic[1] or "")


@pytest.mark.parametrize("version", [2, 3, 4])
def test_offsets_may_be_kept_for_ever(client: RawClient, version: int) -> None:
    create(client, "offsets", 1)
    client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=("forever",)), 4)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata="")
    request = OffsetCommitRequest(
        group_id="forever",
        generation_id_or_member_epoch=-1,
        member_id="",
        retention_time_ms=2**63 - 1,
        topics=(OffsetCommitRequestTopic(name="offsets", partitions=(partition,)),),
    )

    response = client.call(request, version)

    assert response.topics[0].partitions[0].error_code == 0


def test_a_member_whose_name_is_as_long_as_a_string_can_be_gets_an_id_that_fits(client: RawClient) -> None:
    client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=("long",)), 4)
    request = JoinGroupRequest(
        group_id="long",
        session_timeout_ms=6000,
        rebalance_timeout_ms=1000,
        member_id="",
        group_instance_id="i" * 32_767,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
    )

    response = client.call(request, 7)

    assert response.error_code == 0
    assert response.member_id.startswith("iii")


def test_an_error_that_names_a_very_long_topic_fits_into_its_reply(client: RawClient) -> None:
    code, message = grow(client, "y" * 32_767, 3)

    assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert message is not None
    assert len(message) < 2000


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_the_brokers_own_topics_can_neither_be_grown_nor_deleted(broker: Broker, client: RawClient, name: str) -> None:
    client.call(FindCoordinatorRequest(key_type=int(name == "__transaction_state"), coordinator_keys=("g",)), 4)
    topic = broker.run(lambda real: real.image.topics[name])

    code, message = grow(client, name, 10)

    assert code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert name in (message or "")
    assert delete(client, name) == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert delete(client, topic_id=topic.topic_id) == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert broker.run(lambda real: real.image.topics[name].partition_count) == 4


@pytest.mark.parametrize("assigned", [False, True])
def test_a_broker_holds_as_many_partitions_as_its_setting_allows(client: RawClient, assigned: bool) -> None:
    refused = create(client, "large", LIMIT + 1, assigned=assigned)

    assert refused.error_code == ErrorCode.POLICY_VIOLATION
    assert "headrace.partitions.max=60" in (refused.error_message or "")
    assert create(client, "small", 2, assigned=assigned).error_code == 0
    assert grow(client, "small", LIMIT + 2)[0] == ErrorCode.POLICY_VIOLATION
    assert grow(client, "small", 3)[0] == 0
    assert delete(client, "small") == 0


def test_one_request_creates_no_more_partitions_than_kafka_lets_it(client: RawClient) -> None:
    half = CreatableTopic(name="half", num_partitions=5001, replication_factor=-1, assignments=(), configs=())
    other = CreatableTopic(name="other", num_partitions=5000, replication_factor=-1, assignments=(), configs=())

    response = client.call(CreateTopicsRequest(topics=(half, other), validate_only=True), 7)

    assert [topic.error_code for topic in response.topics] == [ErrorCode.POLICY_VIOLATION] * 2
    assert "10000" in response.topics[0].error_message


def test_groups_work_where_topics_are_at_their_limit() -> None:
    with Broker(settings={"headrace.partitions.max": 3}) as broker, RawClient(broker.bootstrap) as client:
        assert create(client, "all", 3).error_code == 0
        assert create(client, "more", 1).error_code == ErrorCode.POLICY_VIOLATION

        found = client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=("g",)), 4)

        assert found.coordinators[0].error_code == 0


def test_partitions_of_a_deleted_topic_leave_nothing_behind(broker: Broker, client: RawClient) -> None:
    before = _partitions(broker)
    assert create(client, "passing", 30).error_code == 0

    assert delete(client, "passing") == 0

    assert _partitions(broker) == before


def test_memory_is_given_back_once_when_many_partitions_have_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    given_back: list[int] = []
    monkeypatch.setattr(housekeeping, "give_memory_back", lambda: given_back.append(1))
    monkeypatch.setattr(housekeeping, "QUIET_S", 0.05)
    monkeypatch.setattr(housekeeping, "REMOVED_BEFORE_TRIM", 20)
    with Broker() as broker, RawClient(broker.bootstrap) as client:
        create(client, "few", 19)
        delete(client, "few")
        create(client, "many", 50)
        assert not given_back

        delete(client, "many")

        until(lambda: given_back)
    assert given_back == [1]


def test_a_deleted_log_in_memory_goes_without_a_search_for_circles() -> None:
    log = MemoryLog(LogConfig(), clock=SystemClock())
    log.append(batch(b"x"), leader_epoch=0)
    gone = weakref.ref(log)
    gc.disable()
    try:
        log.delete()
        del log
        assert gone() is None
    finally:
        gc.enable()


def _partitions(broker: Broker) -> int:
    def count(_: object) -> int:
        gc.collect()
        return sum(isinstance(item, Partition) and item.identity.topic == "passing" for item in gc.get_objects())

    return broker.run(count)


@pytest.mark.parametrize("index", [-1, -2, 30])
def test_no_partition_has_a_negative_number_for_its_in_sync_set_either(broker: Broker, client: RawClient, index: int) -> None:
    create(client, "in-sync", 2)
    topic_id, epoch = broker.run(lambda real: (real.image.topics["in-sync"].topic_id, real.image.brokers[1].epoch))
    wanted = PartitionData(partition_index=index, leader_epoch=0, new_isr_with_epochs=(), partition_epoch=0)
    topics = (TopicData(topic_id=topic_id, partitions=(wanted,)),)

    answer = client.call(AlterPartitionRequest(broker_id=1, broker_epoch=epoch, topics=topics), 3)

    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    delete(client, "in-sync")


@pytest.mark.parametrize("version", DescribeGroupsRequest.api.versions)
def test_a_group_whose_name_is_as_long_as_a_name_can_be_is_described(client: RawClient, version: int) -> None:
    client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=("g",)), 4)
    name = "g" * 32_767

    (group,) = client.call(DescribeGroupsRequest(groups=(name,)), version).groups

    assert (group.group_id, group.members) == (name, ())

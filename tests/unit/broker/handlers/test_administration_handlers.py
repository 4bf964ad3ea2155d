"""Handlers of administration, each called with just what it touches."""

import asyncio
from typing import Any

import pytest

from headrace.broker.cluster.peers import PeerUnreachable
from headrace.broker.handlers import (
    alter_replica_log_dirs,
    api_versions,
    delete_topics,
    describe_cluster,
    describe_quorum,
    describe_user_scram_credentials,
    list_config_resources,
)
from headrace.broker.network.throttling import Throttling
from headrace.controller.entries import BrokerRegistration, Endpoint, PartitionState
from headrace.controller.image import ClusterImage, Topic
from headrace.controller.quotas import entity_name
from headrace.host.clock import SystemClock
from headrace.model.broker_settings import BrokerConfig
from headrace.model.errors import ErrorCode, StorageError
from headrace.model.identity import NO_TOPIC_ID
from headrace.model.live_config import LiveConfig
from headrace.security.quotas import Quotas
from headrace.wire.codec import encode
from headrace.wire.messages.alter_replica_log_dirs import AlterReplicaLogDir, AlterReplicaLogDirsRequest, AlterReplicaLogDirTopic
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.messages.describe_cluster import DescribeClusterRequest
from headrace.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
)
from headrace.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from headrace.wire.messages.list_config_resources import ListConfigResourcesRequest
from tests.unit.broker.handlers.requests import FakeConnection, context_of

UNTOUCHED: Any = None


def registered(broker_id: int, host: str = "there") -> BrokerRegistration:
    return BrokerRegistration(broker_id=broker_id, endpoints={"PLAINTEXT": Endpoint(host=host, port=9092)})


def unthrottled() -> Throttling:
    return Throttling(Quotas(dict, lambda: 1), UNTOUCHED, lambda: 0.0, UNTOUCHED)


def test_a_broker_that_may_not_delete_topics_does_not_even_look_for_them() -> None:
    config = LiveConfig(BrokerConfig({"delete.topic.enable": "false"}))
    request = DeleteTopicsRequest(topics=(DeleteTopicState(name="t", topic_id=NO_TOPIC_ID),), timeout_ms=1000)

    response = asyncio.run(
        delete_topics.handle(request, context_of(request, 6), topics=UNTOUCHED, throttling=unthrottled(), config=config)
    )

    assert [each.error_code for each in response.responses] == [ErrorCode.TOPIC_DELETION_DISABLED]


def test_deletions_beyond_the_rate_of_a_client_wait_and_the_connection_rests() -> None:
    class Deletable:
        def __init__(self) -> None:
            self.deleted: list[str] = []

        async def delete(self, name: str, topic_id: Any, before: Any) -> Topic:
            topic = Topic(name, topic_id, {}, [PartitionState(replicas=(1,))] * 20)
            before(topic)
            self.deleted.append(name)
            return topic

    limits = {entity_name({"client-id": "client"}): {"controller_mutation_rate": "1"}}
    throttling = Throttling(Quotas(lambda: limits, lambda: 1), UNTOUCHED, lambda: 0.0, UNTOUCHED)
    topics: Any = Deletable()
    connection = FakeConnection()
    request = DeleteTopicsRequest(
        topics=tuple(DeleteTopicState(name=name, topic_id=NO_TOPIC_ID) for name in ("a", "b")), timeout_ms=1000
    )

    response = asyncio.run(
        delete_topics.handle(request, context_of(request, 6, connection), topics, throttling, LiveConfig(BrokerConfig()))
    )

    assert topics.deleted == ["a"]
    assert [each.error_code for each in response.responses] == [ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    assert connection.rests == [pytest.approx(response.throttle_time_ms / 1000, abs=0.001)]


def test_brokers_that_are_away_are_told_of_only_to_those_who_ask_for_them() -> None:
    image = ClusterImage(cluster_id="c", members={1: registered(1), 2: registered(2)}, brokers={1: registered(1)})

    def told(*, fenced: bool) -> dict[int, bool]:
        request = DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=fenced)
        response = describe_cluster.handle(request, context_of(request, 2), lambda: image, broker_id=1)
        return {each.broker_id: each.is_fenced for each in response.brokers}

    assert told(fenced=False) == {1: False}
    assert told(fenced=True) == {1: False, 2: True}


def test_a_client_that_reached_another_cluster_is_told_to_look_again() -> None:
    request = ApiVersionsRequest(client_software_name="c", client_software_version="1", cluster_id="another", node_id=1)

    response = api_versions.handle(
        request, context_of(request, 5), lambda: ClusterImage(cluster_id="this"), broker_id=1, versions={3: range(2, 5)}
    )

    assert response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED
    assert [(each.api_key, each.min_version, each.max_version) for each in response.api_keys] == [(3, 2, 4)]


def test_a_broker_that_does_not_answer_is_a_voter_of_whom_nothing_is_known() -> None:
    class Silent:
        async def call(self, broker_id: int, *request: Any, **options: Any) -> Any:
            raise PeerUnreachable(f"broker {broker_id} is not there")

    image = ClusterImage(revision=7, controller_id=1, brokers={1: registered(1), 2: registered(2)})
    topic = DescribeQuorumRequestTopic(
        topic_name="__cluster_metadata", partitions=(DescribeQuorumRequestPartition(partition_index=0),)
    )
    request = DescribeQuorumRequest(topics=(topic,))
    peers: Any = Silent()

    response = asyncio.run(
        describe_quorum.handle(request, context_of(request, 2), lambda: image, peers, SystemClock(), broker_id=1)
    )

    voters = response.topics[0].partitions[0].current_voters
    assert {each.replica_id: each.log_end_offset for each in voters} == {1: 7, 2: -1}


def test_nothing_moves_to_a_log_directory_that_is_gone() -> None:
    class Named:
        name = "/data"

    class Health:
        lost = StorageError("/data", "it is gone")

    storage: Any = Named()
    health: Any = Health()
    topic = AlterReplicaLogDirTopic(name="t", partitions=(0,))
    request = AlterReplicaLogDirsRequest(dirs=(AlterReplicaLogDir(path="/data", topics=(topic,)),))

    response = alter_replica_log_dirs.handle(request, context_of(request, 2), UNTOUCHED, storage, health)

    assert response.results[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_in_its_first_version_only_client_metrics_are_listed() -> None:
    image = ClusterImage(topics={"t": Topic("t", NO_TOPIC_ID, {}, [])}, group_configs={"g": {}})

    def listed(version: int) -> set[str]:
        request = ListConfigResourcesRequest()
        response = list_config_resources.handle(request, context_of(request, version), lambda: image)
        return {each.resource_name for each in response.config_resources}

    assert listed(0) == set()
    assert listed(1) == {"t", "g"}


def test_a_name_as_long_as_names_can_be_is_answered() -> None:
    request = DescribeUserScramCredentialsRequest(users=(UserName(name="x" * 32_767),))

    response = describe_user_scram_credentials.handle(request, context_of(request, 0), ClusterImage)

    assert response.results[0].error_code == ErrorCode.RESOURCE_NOT_FOUND
    assert encode(response, 0)

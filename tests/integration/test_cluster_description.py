"""What the broker says of the cluster: quorum, features, directories, resources with settings, and what a client may do."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.model.errors import ErrorCode
from headrace.testing import Broker
from headrace.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.describe_cluster import DescribeClusterRequest
from headrace.wire.messages.describe_groups import DescribeGroupsRequest
from headrace.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from headrace.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
)
from headrace.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from headrace.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.list_config_resources import ListConfigResourcesRequest
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.integration.memory_cluster import MemoryCluster, play
from tests.integration.test_fetch_and_produce import create
from tests.support.raw import RawClient

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
NOT_ASKED = -(2**31)
# As Apache Kafka 4.3.1 without an authorizer answers them.
ALL_ON_A_TOPIC, ALL_ON_A_GROUP, ALL_ON_THE_CLUSTER = 3576, 3400, 8096
COORDINATOR_TO_COME = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


@pytest.fixture
def client(broker: Broker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap) as raw:
        yield raw


# --- the quorum


def quorum_of(name: str = "__cluster_metadata", partition: int = 0) -> DescribeQuorumRequest:
    partitions = (DescribeQuorumRequestPartition(partition_index=partition),)
    return DescribeQuorumRequest(topics=(DescribeQuorumRequestTopic(topic_name=name, partitions=partitions),))


def features_epoch(client: RawClient) -> int:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    return int(client.call(request, 4).finalized_features_epoch)


def test_a_single_broker_leads_itself_at_the_stores_revision(client: RawClient, broker: Broker) -> None:
    before = features_epoch(client)
    reply = client.call(quorum_of(), 2)
    after = features_epoch(client)

    (partition,) = reply.topics[0].partitions
    (voter,) = partition.current_voters
    assert (reply.error_code, partition.error_code) == (ErrorCode.NONE, ErrorCode.NONE)
    assert (partition.leader_id, voter.replica_id) == (1, 1)
    assert partition.leader_epoch >= 1
    assert before <= partition.high_watermark == voter.log_end_offset <= after
    assert voter.last_caught_up_timestamp == voter.last_fetch_timestamp > 0
    assert partition.observers == ()
    (listener,) = reply.nodes[0].listeners
    assert f"{listener.host}:{listener.port}" == broker.bootstrap


@pytest.mark.parametrize(("name", "partition"), [("__cluster_metadata", 1), ("events", 0)])
def test_only_the_metadata_has_a_quorum(client: RawClient, name: str, partition: int) -> None:
    reply = client.call(quorum_of(name, partition), 2)

    assert reply.topics[0].topic_name == name
    assert reply.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_quorum_of_no_topic_is_empty(client: RawClient, version: int) -> None:
    assert client.call(DescribeQuorumRequest(topics=()), version).topics == ()


def test_every_broker_of_a_cluster_is_a_voter_and_the_controller_leads_them() -> None:
    async def story() -> None:
        async with MemoryCluster(3) as cluster:
            leader = next(iter(cluster.brokers.values())).image.controller_id
            asked = next(broker_id for broker_id in cluster.brokers if broker_id != leader)

            partition = await _quorum(cluster, asked)

            assert partition.leader_id == leader
            assert [voter.replica_id for voter in partition.current_voters] == [1, 2, 3]
            assert min(voter.log_end_offset for voter in partition.current_voters) > 0
            assert partition.high_watermark == max(voter.log_end_offset for voter in partition.current_voters)

    play(story)


def test_a_voter_that_is_away_is_told_with_nothing_known_of_it() -> None:
    async def story() -> None:
        async with MemoryCluster(3) as cluster:
            leader = next(iter(cluster.brokers.values())).image.controller_id
            gone = next(broker_id for broker_id in cluster.brokers if broker_id != leader)
            await cluster.brokers[gone].stop()

            partition = await _quorum(cluster, leader)

            states = {voter.replica_id: voter for voter in partition.current_voters}
            assert set(states) == {1, 2, 3}
            assert states[gone].log_end_offset == states[gone].last_fetch_timestamp == -1
            assert states[leader].log_end_offset > 0

    play(story)


async def _quorum(cluster: MemoryCluster, broker_id: int) -> Any:
    reply = await cluster.call(broker_id, quorum_of(), 2)
    return reply.topics[0].partitions[0]


# --- features


def test_each_feature_runs_at_the_one_level_that_is_supported(client: RawClient) -> None:
    reply = client.call(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4)

    supported = {feature.name: (feature.min_version, feature.max_version) for feature in reply.supported_features}
    finalized = {feature.name: (feature.min_version_level, feature.max_version_level) for feature in reply.finalized_features}
    assert supported == finalized
    assert {name: most for name, (_, most) in finalized.items()} == {
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "share.version": 1,
        "transaction.version": 2,
    }


def update(*updates: tuple[str, int, int]) -> UpdateFeaturesRequest:
    return UpdateFeaturesRequest(
        feature_updates=tuple(
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in updates
        )
    )


@pytest.mark.parametrize("kind", [UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE])
def test_an_update_to_the_level_at_which_a_feature_runs_succeeds(client: RawClient, kind: int) -> None:
    old = client.call(update(("group.version", 1, kind)), 1)
    new = client.call(update(("group.version", 1, kind)), 2)

    assert (old.error_code, new.error_code) == (ErrorCode.NONE, ErrorCode.NONE)
    assert [(result.feature, result.error_code) for result in old.results] == [("group.version", ErrorCode.NONE)]


@pytest.mark.parametrize(
    "wrong",
    [
        ("transaction.version", 3, UPGRADE),
        ("transaction.version", 1, SAFE_DOWNGRADE),
        ("group.version", 0, UNSAFE_DOWNGRADE),
        ("group.version", -1, UPGRADE),
        ("metadata.version", 30, UPGRADE),
        ("group.version", 1, 0),
        ("group.version", 1, 77),
    ],
)
def test_an_update_to_any_other_level_is_refused_by_name_with_all_others(client: RawClient, wrong: tuple[str, int, int]) -> None:
    reply = client.call(update(("group.version", 1, UPGRADE), wrong), 2)

    assert reply.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert f"version {wrong[1]} for feature {wrong[0]}" in reply.error_message


def test_the_first_version_knows_only_whether_a_downgrade_is_allowed(client: RawClient) -> None:
    key = FeatureUpdateKey(feature="group.version", max_version_level=1, allow_downgrade=True)

    assert client.call(UpdateFeaturesRequest(feature_updates=(key,)), 0).error_code == ErrorCode.NONE


# --- directories


def move(path: str, topic: str, *partitions: int) -> AlterReplicaLogDirsRequest:
    topics = (AlterReplicaLogDirTopic(name=topic, partitions=partitions),)
    return AlterReplicaLogDirsRequest(dirs=(AlterReplicaLogDir(path=path, topics=topics),))


def codes(reply: Any) -> list[int]:
    return [partition.error_code for topic in reply.results for partition in topic.partitions]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_replica_is_already_in_the_one_directory_and_finds_no_other(tmp_path: Path, version: int) -> None:
    with Broker(data=tmp_path) as broker, RawClient(broker.bootstrap) as client:
        create(client, "events", partitions=2)
        directory = client.call(DescribeLogDirsRequest(topics=None), 4).results[0].log_dir

        assert codes(client.call(move(directory, "events", 0, 1), version)) == [ErrorCode.NONE, ErrorCode.NONE]
        assert codes(client.call(move("/elsewhere", "events", 0), version)) == [ErrorCode.LOG_DIR_NOT_FOUND]
        assert codes(client.call(move("", "events", 0), version)) == [ErrorCode.LOG_DIR_NOT_FOUND]
        assert codes(client.call(move(directory, "events", 2, -1), version)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
        assert codes(client.call(move(directory, "nothing", 0), version)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_replica_on_another_broker_cannot_be_moved_here() -> None:
    async def story() -> None:
        async with MemoryCluster(2) as cluster:
            await cluster.create_topic("events", factor=1)
            state = next(iter(cluster.brokers.values())).image.topics["events"].partitions[0]
            other = next(broker_id for broker_id in cluster.brokers if broker_id not in state.replicas)

            reply = await cluster.call(other, move("memory", "events", 0), 2)

            assert codes(reply) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]

    play(story)


# --- resources that have settings


def resources(client: RawClient, *types: int) -> set[tuple[int, str]]:
    reply = client.call(ListConfigResourcesRequest(resource_types=types), 1)
    assert reply.error_code == ErrorCode.NONE
    return {(resource.resource_type, resource.resource_name) for resource in reply.config_resources}


def test_topics_and_brokers_are_listed_by_type(client: RawClient, topic: str) -> None:
    create(client, topic)

    assert (TOPIC, topic) in resources(client, TOPIC)
    assert {kind for kind, _ in resources(client, TOPIC)} == {TOPIC}
    assert resources(client, BROKER, BROKER_LOGGER) == {(BROKER, "1"), (BROKER_LOGGER, "1")}
    assert {(BROKER, "1"), (BROKER_LOGGER, "1"), (TOPIC, topic)} <= resources(client)


def test_the_first_version_lists_client_metrics_of_which_there_are_none(client: RawClient) -> None:
    reply = client.call(ListConfigResourcesRequest(), 0)

    assert (reply.error_code, reply.config_resources) == (ErrorCode.NONE, ())


@pytest.mark.parametrize("kind", [0, 1, 3, 64, -1])
def test_a_type_that_has_no_settings_is_refused(client: RawClient, kind: int) -> None:
    reply = client.call(ListConfigResourcesRequest(resource_types=(TOPIC, kind)), 1)

    assert (reply.error_code, reply.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, ())


# --- users


def test_no_user_has_credentials(client: RawClient) -> None:
    ada, bob = UserName(name="ada"), UserName(name="bob")

    everybody = client.call(DescribeUserScramCredentialsRequest(users=None), 0)
    some = client.call(DescribeUserScramCredentialsRequest(users=(ada, bob, bob)), 0)

    assert (everybody.error_code, everybody.results) == (ErrorCode.NONE, ())
    assert {result.user: result.error_code for result in some.results} == {
        "ada": ErrorCode.RESOURCE_NOT_FOUND,
        "bob": ErrorCode.DUPLICATE_RESOURCE,
    }


# --- what a client may do


def test_whoever_asks_what_it_may_do_to_a_topic_hears_everything(client: RawClient, topic: str) -> None:
    create(client, topic)
    named = (MetadataRequestTopic(name=topic), MetadataRequestTopic(name=f"{topic}-missing"))
    asked = MetadataRequest(topics=named, allow_auto_topic_creation=False, include_topic_authorized_operations=True)
    silent = MetadataRequest(topics=named, allow_auto_topic_creation=False)

    operations = [[t.topic_authorized_operations for t in client.call(r, 12).topics] for r in (asked, silent)]
    described = client.call(DescribeTopicPartitionsRequest(topics=(TopicRequest(name=topic),)), 0)

    assert operations == [[ALL_ON_A_TOPIC] * 2, [NOT_ASKED] * 2]
    assert [entry.topic_authorized_operations for entry in described.topics] == [ALL_ON_A_TOPIC]


@pytest.mark.parametrize("asks", [True, False])
def test_whoever_asks_what_it_may_do_to_the_cluster_hears_everything(client: RawClient, *, asks: bool) -> None:
    wanted = ALL_ON_THE_CLUSTER if asks else NOT_ASKED

    metadata = client.call(MetadataRequest(topics=(), include_cluster_authorized_operations=asks), 10)
    cluster = client.call(DescribeClusterRequest(include_cluster_authorized_operations=asks), 2)

    assert metadata.cluster_authorized_operations == wanted
    assert cluster.cluster_authorized_operations == wanted


def test_whoever_asks_what_it_may_do_to_a_group_hears_everything(client: RawClient, topic: str) -> None:
    client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=(topic,)), 6)
    request = DescribeGroupsRequest(groups=(topic,), include_authorized_operations=True)
    while (reply := client.call(request, 5)).groups[0].error_code in COORDINATOR_TO_COME:
        continue

    assert reply.groups[0].authorized_operations == ALL_ON_A_GROUP

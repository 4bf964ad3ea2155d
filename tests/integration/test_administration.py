"""Topics, settings and offsets administered over the wire."""

from typing import Any

import pytest

from headrace.model.errors import ErrorCode
from headrace.model.topic_settings import TOPIC_SETTINGS
from headrace.testing import Broker
from headrace.wire.messages.alter_configs import AlterableConfig as ReplacedConfig
from headrace.wire.messages.alter_configs import AlterConfigsRequest
from headrace.wire.messages.alter_configs import AlterConfigsResource as ReplacedResource
from headrace.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headrace.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from headrace.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.messages.describe_cluster import DescribeClusterRequest
from headrace.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from headrace.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from headrace.wire.schema import ZERO_UUID
from tests.integration.test_fetch_and_produce import append, base_offsets, create, fetch
from tests.support.raw import RawClient, batch, produce
from tests.support.waiting import until

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture
def client(broker: Broker) -> Any:
    with RawClient(broker.bootstrap) as raw:
        yield raw


def wanted(name: str, partitions: int = 1, factor: int = 1, **configs: str) -> CreatableTopic:
    settings = tuple(CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items())
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, assignments=(), configs=settings)


def test_one_bad_setting_fails_its_own_topic_only(client: RawClient, topic: str) -> None:
    good, bad, misspelt = f"{topic}-good", f"{topic}-bad", f"{topic}-misspelt"
    request = CreateTopicsRequest(topics=(wanted(good), wanted(bad, retention_ms="soon"), wanted(misspelt, retention_m="1")))

    results = {result.name: result for result in client.call(request, 7).topics}

    assert results[good].error_code == ErrorCode.NONE
    assert results[bad].error_code == results[misspelt].error_code == ErrorCode.INVALID_CONFIG
    assert "retention.ms='soon'" in results[bad].error_message
    assert "did you mean retention.ms?" in results[misspelt].error_message


def test_validation_alone_makes_nothing(client: RawClient, topic: str) -> None:
    result = client.call(CreateTopicsRequest(topics=(wanted(topic, 3),), validate_only=True), 7).topics[0]
    asked = client.call(MetadataRequest(topics=(MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False), 12)

    assert (result.error_code, result.num_partitions) == (ErrorCode.NONE, 3)
    assert asked.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_replicas_can_be_assigned_by_hand_if_the_assignment_makes_sense(client: RawClient, broker: Broker, topic: str) -> None:
    node = broker.broker.broker_id  # type: ignore[union-attr]

    def assigned(name: str, *replicas: tuple[int, ...]) -> CreatableTopic:
        given = tuple(
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers) for index, brokers in enumerate(replicas)
        )
        return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=given, configs=())

    topics = (
        assigned(topic, (node,), (node,)),
        assigned(f"{topic}-unknown", (node + 77,)),
        assigned(f"{topic}-twice", (node, node)),
    )
    results = client.call(CreateTopicsRequest(topics=topics), 7).topics

    assert (results[0].error_code, results[0].num_partitions, results[0].replication_factor) == (ErrorCode.NONE, 2, 1)
    assert results[1].error_code == results[2].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_topic_is_made_once_and_needs_brokers_for_its_replicas(client: RawClient, topic: str) -> None:
    first = client.call(CreateTopicsRequest(topics=(wanted(topic),)), 7).topics[0]
    again = client.call(CreateTopicsRequest(topics=(wanted(topic),)), 7).topics[0]
    too_many = client.call(CreateTopicsRequest(topics=(wanted(f"{topic}-r3", factor=3),)), 7).topics[0]

    assert first.error_code == ErrorCode.NONE
    assert again.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert too_many.error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_deleted_topic_is_gone_and_its_name_is_free(client: RawClient, topic: str) -> None:
    first_id = create(client, topic)
    append(client, topic, b"old")

    deleted = client.call(DeleteTopicsRequest(topics=(DeleteTopicState(name=None, topic_id=first_id),), timeout_ms=1000), 6)
    second_id = create(client, topic)
    data = client.call(fetch(topic), 12).responses[0].partitions[0]
    unknown = client.call(
        DeleteTopicsRequest(topics=(DeleteTopicState(name=f"{topic}-no", topic_id=ZERO_UUID),), timeout_ms=1000), 6
    )

    assert deleted.responses[0].error_code == ErrorCode.NONE
    assert first_id != second_id
    assert data.high_watermark == 0
    assert unknown.responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_partitions_can_be_added_and_never_taken_away(client: RawClient, topic: str) -> None:
    create(client, topic, partitions=2)

    def grow(count: int, name: str = topic) -> Any:
        grown = CreatePartitionsTopic(name=name, count=count, assignments=None)
        return client.call(CreatePartitionsRequest(topics=(grown,), timeout_ms=1000, validate_only=False), 3).results[0]

    assert grow(5).error_code == ErrorCode.NONE
    append(client, topic, b"in a new one", partition=4)
    assert grow(5).error_code == ErrorCode.INVALID_PARTITIONS
    assert grow(1).error_code == ErrorCode.INVALID_PARTITIONS
    assert grow(3, f"{topic}-no").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_deleted_records_are_gone_for_readers_at_once(client: RawClient, topic: str) -> None:
    create(client, topic)
    for number in range(5):
        append(client, topic, b"%d" % number)

    def delete(offset: int) -> Any:
        where = DeleteRecordsTopic(name=topic, partitions=(DeleteRecordsPartition(partition_index=0, offset=offset),))
        return client.call(DeleteRecordsRequest(topics=(where,), timeout_ms=1000), 2).topics[0].partitions[0]

    assert delete(3).low_watermark == 3
    assert client.call(fetch(topic, 0), 12).responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert base_offsets(client.call(fetch(topic, 3), 12).responses[0].partitions[0]) == [3, 4]
    assert delete(99).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert delete(-1).low_watermark == 5
    append(client, topic, b"the log goes on")


def describe(client: RawClient, resource_type: int, name: str, keys: tuple[str, ...] | None = None) -> dict[str, Any]:
    resource = DescribeConfigsResource(resource_type=resource_type, resource_name=name, configuration_keys=keys)
    request = DescribeConfigsRequest(resources=(resource,), include_synonyms=True, include_documentation=True)
    result = client.call(request, 4).results[0]
    assert result.error_code == ErrorCode.NONE, result.error_message
    return {config.name: config for config in result.configs}


def test_every_setting_of_a_topic_is_described_with_source_type_synonyms_and_documentation(client: RawClient, topic: str) -> None:
    create(client, topic, retention_ms="1234")

    configs = describe(client, TOPIC, topic)

    assert set(configs) == {setting.name for setting in TOPIC_SETTINGS if not setting.internal}
    own, default = configs["retention.ms"], configs["segment.bytes"]
    assert (own.value, own.config_source) == ("1234", 1)
    assert [(synonym.name, synonym.source) for synonym in own.synonyms] == [("retention.ms", 1), ("log.retention.ms", 5)]
    assert (default.value, default.config_source, default.config_type) == ("1073741824", 5, 3)
    assert all(config.documentation for config in configs.values())


def test_a_broker_describes_its_settings_and_takes_new_ones_at_run_time(client: RawClient, broker: Broker, topic: str) -> None:
    node = str(broker.broker.broker_id)  # type: ignore[union-attr]
    create(client, topic)

    altered = change(client, BROKER, node, ("log.retention.ms", SET, "777"))
    seen_by_topic = describe(client, TOPIC, topic, ("retention.ms",))["retention.ms"]
    fixed = change(client, BROKER, node, ("node.id", SET, "9"))
    undone = change(client, BROKER, node, ("log.retention.ms", DELETE, None))

    assert altered.error_code == undone.error_code == ErrorCode.NONE
    assert (seen_by_topic.value, seen_by_topic.config_source) == ("777", 2)
    assert fixed.error_code == ErrorCode.INVALID_REQUEST
    assert describe(client, BROKER, node, ("log.retention.ms",))["log.retention.ms"].config_source == 5


def change(
    client: RawClient, resource_type: int, name: str, *operations: tuple[str, int, str | None], validate: bool = False
) -> Any:
    configs = tuple(AlterableConfig(name=key, config_operation=kind, value=value) for key, kind, value in operations)
    resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=configs)
    return client.call(IncrementalAlterConfigsRequest(resources=(resource,), validate_only=validate), 1).responses[0]


def test_single_settings_are_set_deleted_and_lists_extended(client: RawClient, topic: str) -> None:
    create(client, topic)

    assert change(client, TOPIC, topic, ("retention.ms", SET, "5"), ("cleanup.policy", APPEND, "compact")).error_code == 0
    assert describe(client, TOPIC, topic)["cleanup.policy"].value == "delete,compact"
    assert change(client, TOPIC, topic, ("cleanup.policy", SUBTRACT, "delete")).error_code == 0
    assert describe(client, TOPIC, topic)["cleanup.policy"].value == "compact"
    assert change(client, TOPIC, topic, ("retention.ms", DELETE, None)).error_code == 0
    assert describe(client, TOPIC, topic)["retention.ms"].config_source == 5


def test_a_wrong_change_of_settings_changes_nothing(client: RawClient, topic: str) -> None:
    create(client, topic)

    refused = change(client, TOPIC, topic, ("retention.ms", SET, "5"), ("segment.bytes", SET, "big"))
    unknown = change(client, TOPIC, topic, ("retention", SET, "5"))
    not_a_list = change(client, TOPIC, topic, ("retention.ms", APPEND, "5"))
    only_asked = change(client, TOPIC, topic, ("retention.ms", SET, "5"), validate=True)

    assert refused.error_code == unknown.error_code == not_a_list.error_code == ErrorCode.INVALID_CONFIG
    assert only_asked.error_code == ErrorCode.NONE
    assert describe(client, TOPIC, topic)["retention.ms"].config_source == 5


def test_the_older_call_replaces_all_settings(client: RawClient, topic: str) -> None:
    create(client, topic, retention_ms="1", internal_segment_bytes="100000")
    resource = ReplacedResource(
        resource_type=TOPIC, resource_name=topic, configs=(ReplacedConfig(name="retention.ms", value="2"),)
    )

    answer = client.call(AlterConfigsRequest(resources=(resource,), validate_only=False), 2).responses[0]
    configs = describe(client, TOPIC, topic)

    assert answer.error_code == ErrorCode.NONE
    assert (configs["retention.ms"].value, configs["segment.bytes"].config_source) == ("2", 5)


def offsets(client: RawClient, topic: str, timestamp: int, version: int = 7, isolation: int = 0) -> Any:
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation, topics=(ListOffsetsTopic(name=topic, partitions=(partition,)),)
    )
    return client.call(request, version).topics[0].partitions[0]


def test_offsets_are_found_at_the_start_the_end_a_time_and_the_greatest_time(client: RawClient, topic: str) -> None:
    create(client, topic)
    for moment in (1000, 3000, 2000):
        records = timed(moment)
        assert client.call(produce(topic, records), 9).responses[0].partition_responses[0].error_code == 0

    assert offsets(client, topic, -2).offset == 0
    assert offsets(client, topic, -1).offset == 3
    found = offsets(client, topic, 1500)
    assert (found.offset, found.timestamp) == (1, 3000)
    assert offsets(client, topic, 1000).offset == 0
    nothing = offsets(client, topic, 9999)
    assert (nothing.offset, nothing.timestamp) == (-1, -1)
    greatest = offsets(client, topic, -3)
    assert (greatest.offset, greatest.timestamp) == (1, 3000)
    for version in range(1, LIST_OFFSETS.versions.stop):
        assert offsets(client, topic, -1, version).offset == 3


def timed(moment: int) -> bytes:
    from headrace.records.batch import build_batch
    from headrace.records.record import Record

    return build_batch([Record(0, moment, None, b"x", ())])


def test_the_end_of_an_epoch_is_told_to_those_who_ask(client: RawClient, topic: str) -> None:
    create(client, topic)
    append(client, topic, b"a", b"b")
    asked = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=(OffsetForLeaderTopic(topic=topic, partitions=(asked,)),))

    answer = client.call(request, 4).topics[0].partitions[0]

    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (ErrorCode.NONE, 0, 2)


def test_topics_are_described_page_by_page(client: RawClient, topic: str) -> None:
    create(client, topic, partitions=5)
    seen = []
    cursor = None
    for _ in range(10):
        request = DescribeTopicPartitionsRequest(topics=(TopicRequest(name=topic),), response_partition_limit=2, cursor=cursor)
        reply = client.call(request, 0)
        seen += [partition.partition_index for partition in reply.topics[0].partitions]
        if (cursor := reply.next_cursor) is None:
            break

    assert seen == [0, 1, 2, 3, 4]


def test_the_cluster_and_its_log_directories_are_described(client: RawClient, broker: Broker, topic: str) -> None:
    create(client, topic)
    append(client, topic, b"x" * 500)

    cluster = client.call(DescribeClusterRequest(include_cluster_authorized_operations=False), 1)
    directories = client.call(DescribeLogDirsRequest(topics=None), 4)

    assert [f"{node.host}:{node.port}" for node in cluster.brokers] == [broker.bootstrap]
    assert cluster.cluster_id
    sizes = {entry.name: entry.partitions[0].partition_size for entry in directories.results[0].topics}
    assert sizes[topic] > 500


def test_retention_by_time_and_size_removes_whole_segments_in_the_background(topic: str) -> None:
    settings = {"log.retention.check.interval.ms": "50", "log.segment.delete.delay.ms": "0"}
    with Broker(memory=False, settings=settings) as own, RawClient(own.bootstrap) as raw:
        create(raw, topic, retention_ms="-1", retention_bytes="2000", internal_segment_bytes="1000")
        for _ in range(20):
            append(raw, topic, b"x" * 400)
        start = until(lambda: offsets(raw, topic, -2).offset, "a segment is removed")

        assert 0 < start < 20
        assert base_offsets(raw.call(fetch(topic, start), 12).responses[0].partitions[0])[0] == start


def test_a_batch_that_repeats_is_acknowledged_with_its_first_offset(client: RawClient, topic: str) -> None:
    create(client, topic)
    once = batch(b"a", producer_id=4711, producer_epoch=0, base_sequence=0)
    append(client, topic, b"before")

    first = client.call(produce(topic, once), 9).responses[0].partition_responses[0]
    append(client, topic, b"between")
    second = client.call(produce(topic, once), 9).responses[0].partition_responses[0]

    assert (first.error_code, first.base_offset) == (second.error_code, second.base_offset) == (ErrorCode.NONE, 1)
    assert offsets(client, topic, -1).offset == 3


def test_what_kafkas_reassignment_tool_clears_after_a_move_can_be_cleared(client: RawClient) -> None:
    names = (
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    )
    reply = change(client, BROKER, "1", *((name, 1, None) for name in names))

    assert reply.error_code == ErrorCode.NONE, reply

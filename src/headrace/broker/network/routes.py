"""The handler table: every API this broker serves, in which versions, and who answers."""

from collections.abc import Mapping
from typing import Any

from headrace.broker.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
    txn_offset_commit,
    unregister_broker,
    update_features,
    write_txn_markers,
)
from headrace.broker.network.dispatch import DirectHandler, Handler, Route
from headrace.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headrace.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from headrace.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from headrace.wire.messages.alter_configs import AlterConfigsRequest
from headrace.wire.messages.alter_partition import AlterPartitionRequest
from headrace.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from headrace.wire.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from headrace.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.wire.messages.create_partitions import CreatePartitionsRequest
from headrace.wire.messages.create_topics import CreateTopicsRequest
from headrace.wire.messages.delete_groups import DeleteGroupsRequest
from headrace.wire.messages.delete_records import DeleteRecordsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest
from headrace.wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from headrace.wire.messages.describe_cluster import DescribeClusterRequest
from headrace.wire.messages.describe_configs import DescribeConfigsRequest
from headrace.wire.messages.describe_groups import DescribeGroupsRequest
from headrace.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from headrace.wire.messages.describe_producers import DescribeProducersRequest
from headrace.wire.messages.describe_quorum import DescribeQuorumRequest
from headrace.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from headrace.wire.messages.describe_transactions import DescribeTransactionsRequest
from headrace.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from headrace.wire.messages.elect_leaders import ElectLeadersRequest
from headrace.wire.messages.end_txn import EndTxnRequest
from headrace.wire.messages.fetch import FetchRequest
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.heartbeat import HeartbeatRequest
from headrace.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from headrace.wire.messages.init_producer_id import InitProducerIdRequest
from headrace.wire.messages.join_group import JoinGroupRequest
from headrace.wire.messages.leave_group import LeaveGroupRequest
from headrace.wire.messages.list_config_resources import ListConfigResourcesRequest
from headrace.wire.messages.list_groups import ListGroupsRequest
from headrace.wire.messages.list_offsets import ListOffsetsRequest
from headrace.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from headrace.wire.messages.list_transactions import ListTransactionsRequest
from headrace.wire.messages.metadata import MetadataRequest
from headrace.wire.messages.offset_commit import OffsetCommitRequest
from headrace.wire.messages.offset_delete import OffsetDeleteRequest
from headrace.wire.messages.offset_fetch import OffsetFetchRequest
from headrace.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from headrace.wire.messages.produce import ProduceRequest
from headrace.wire.messages.sync_group import SyncGroupRequest
from headrace.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest
from headrace.wire.messages.update_features import UpdateFeaturesRequest
from headrace.wire.messages.write_txn_markers import WriteTxnMarkersRequest


def _plain(request: type[Any], handler: Handler) -> tuple[int, Route]:
    return request.api.key, Route(versions=request.api.versions, request=request, handler=handler)


def _internal(request: type[Any], handler: Handler) -> tuple[int, Route]:
    return request.api.key, Route(versions=request.api.versions, request=request, handler=handler, public=False)


def _direct(request: type[Any], direct: DirectHandler, first_version: int = 0) -> tuple[int, Route]:
    versions = range(first_version, request.api.versions.stop)
    return request.api.key, Route(versions=versions, request=request, direct=direct)


ROUTES: Mapping[int, Route] = dict(
    (
        # Produce from 0, as Kafka 4 tells it: librdkafka concludes from it that compression works (KAFKA-18659).
        _direct(ProduceRequest, produce.start),
        # A client that asks in an older version could not read the batches it gets.
        _direct(FetchRequest, fetch.start, first_version=4),
        _plain(ListOffsetsRequest, list_offsets.handle),
        _plain(MetadataRequest, metadata.handle),
        _plain(ApiVersionsRequest, api_versions.handle),
        _plain(CreateTopicsRequest, create_topics.handle),
        _plain(DeleteTopicsRequest, delete_topics.handle),
        _plain(DeleteRecordsRequest, delete_records.handle),
        _plain(OffsetForLeaderEpochRequest, offset_for_leader_epoch.handle),
        _plain(DescribeConfigsRequest, describe_configs.handle),
        _plain(AlterConfigsRequest, alter_configs.handle),
        _plain(DescribeLogDirsRequest, describe_log_dirs.handle),
        _plain(CreatePartitionsRequest, create_partitions.handle),
        _plain(IncrementalAlterConfigsRequest, incremental_alter_configs.handle),
        _plain(DescribeClusterRequest, describe_cluster.handle),
        _plain(DescribeTopicPartitionsRequest, describe_topic_partitions.handle),
        _plain(FindCoordinatorRequest, find_coordinator.handle),
        _plain(JoinGroupRequest, join_group.handle),
        _plain(SyncGroupRequest, sync_group.handle),
        _plain(HeartbeatRequest, heartbeat.handle),
        _plain(LeaveGroupRequest, leave_group.handle),
        _plain(OffsetCommitRequest, offset_commit.handle),
        _plain(OffsetFetchRequest, offset_fetch.handle),
        _plain(OffsetDeleteRequest, offset_delete.handle),
        _plain(DescribeGroupsRequest, describe_groups.handle),
        _plain(ListGroupsRequest, list_groups.handle),
        _plain(DeleteGroupsRequest, delete_groups.handle),
        _plain(ConsumerGroupHeartbeatRequest, consumer_group_heartbeat.handle),
        _plain(ConsumerGroupDescribeRequest, consumer_group_describe.handle),
        _plain(InitProducerIdRequest, init_producer_id.handle),
        _plain(AddPartitionsToTxnRequest, add_partitions_to_txn.handle),
        _plain(AddOffsetsToTxnRequest, add_offsets_to_txn.handle),
        _plain(TxnOffsetCommitRequest, txn_offset_commit.handle),
        _plain(EndTxnRequest, end_txn.handle),
        _plain(WriteTxnMarkersRequest, write_txn_markers.handle),
        _plain(DescribeTransactionsRequest, describe_transactions.handle),
        _plain(ListTransactionsRequest, list_transactions.handle),
        _plain(DescribeProducersRequest, describe_producers.handle),
        _plain(AlterClientQuotasRequest, alter_client_quotas.handle),
        _plain(AlterPartitionReassignmentsRequest, alter_partition_reassignments.handle),
        _plain(DescribeClientQuotasRequest, describe_client_quotas.handle),
        _plain(ElectLeadersRequest, elect_leaders.handle),
        _plain(ListPartitionReassignmentsRequest, list_partition_reassignments.handle),
        _plain(UnregisterBrokerRequest, unregister_broker.handle),
        _plain(AlterReplicaLogDirsRequest, alter_replica_log_dirs.handle),
        _plain(DescribeQuorumRequest, describe_quorum.handle),
        _plain(ListConfigResourcesRequest, list_config_resources.handle),
        _plain(UpdateFeaturesRequest, update_features.handle),
        _plain(DescribeUserScramCredentialsRequest, describe_user_scram_credentials.handle),
        _internal(AlterPartitionRequest, alter_partition.handle),
    )
)

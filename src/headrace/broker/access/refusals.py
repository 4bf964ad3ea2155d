"""What each API answers to a request of which nothing is done: one error, in each place its reply has for it.

Their sender may not make them at all, or what they would do cannot be recorded."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from headrace.model.errors import ErrorCode
from headrace.model.identity import NO_PRODUCER_EPOCH, NO_TOPIC_ID
from headrace.wire.apis import ApiKey
from headrace.wire.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_share_group_offsets,
    alter_user_scram_credentials,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_share_group_offsets,
    delete_share_group_state,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_log_dirs,
    describe_quorum,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    initialize_share_group_state,
    join_group,
    leave_group,
    list_config_resources,
    list_partition_reassignments,
    offset_commit,
    offset_delete,
    read_share_group_state,
    read_share_group_state_summary,
    share_acknowledge,
    share_fetch,
    share_group_heartbeat,
    sync_group,
    txn_offset_commit,
    unregister_broker,
    update_features,
    write_share_group_state,
    write_txn_markers,
)


def _add_partitions_to_txn(
    request: add_partitions_to_txn.AddPartitionsToTxnRequest, error: ErrorCode
) -> add_partitions_to_txn.AddPartitionsToTxnResponse:
    results = tuple(
        add_partitions_to_txn.AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=tuple(
                add_partitions_to_txn.AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)
                for index in topic.partitions
            ),
        )
        for topic in request.v3_and_below_topics
    )
    return add_partitions_to_txn.AddPartitionsToTxnResponse(error_code=error, results_by_topic_v3_and_below=results)


def _alter_client_quotas(
    request: alter_client_quotas.AlterClientQuotasRequest, error: ErrorCode
) -> alter_client_quotas.AlterClientQuotasResponse:
    entries = (
        alter_client_quotas.AlterClientQuotasResponseEntryData(error_code=error, error_message=None, entity=entry.entity)
        for entry in request.entries
    )
    return alter_client_quotas.AlterClientQuotasResponse(entries=tuple(entries))


def _alter_replica_log_dirs(
    request: alter_replica_log_dirs.AlterReplicaLogDirsRequest, error: ErrorCode
) -> alter_replica_log_dirs.AlterReplicaLogDirsResponse:
    results = (
        alter_replica_log_dirs.AlterReplicaLogDirTopicResult(
            topic_name=topic.name,
            partitions=tuple(
                alter_replica_log_dirs.AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error)
                for index in topic.partitions
            ),
        )
        for directory in request.dirs
        for topic in directory.topics
    )
    return alter_replica_log_dirs.AlterReplicaLogDirsResponse(results=tuple(results))


def _alter_user_scram_credentials(
    request: alter_user_scram_credentials.AlterUserScramCredentialsRequest, error: ErrorCode
) -> alter_user_scram_credentials.AlterUserScramCredentialsResponse:
    users = dict.fromkeys([each.name for each in request.deletions] + [each.name for each in request.upsertions])
    results = (
        alter_user_scram_credentials.AlterUserScramCredentialsResult(user=name, error_code=error, error_message=_in_words(error))
        for name in users
    )
    return alter_user_scram_credentials.AlterUserScramCredentialsResponse(results=tuple(results))


def _describe_user_scram_credentials(
    request: describe_user_scram_credentials.DescribeUserScramCredentialsRequest, error: ErrorCode
) -> describe_user_scram_credentials.DescribeUserScramCredentialsResponse:
    return describe_user_scram_credentials.DescribeUserScramCredentialsResponse(
        error_code=error, error_message=_in_words(error), results=()
    )


def _alter_configs(request: alter_configs.AlterConfigsRequest, error: ErrorCode) -> alter_configs.AlterConfigsResponse:
    return alter_configs.AlterConfigsResponse(
        responses=tuple(
            alter_configs.AlterConfigsResourceResponse(
                error_code=error, resource_type=each.resource_type, resource_name=each.resource_name
            )
            for each in request.resources
        )
    )


def _incremental_alter_configs(
    request: incremental_alter_configs.IncrementalAlterConfigsRequest, error: ErrorCode
) -> incremental_alter_configs.IncrementalAlterConfigsResponse:
    return incremental_alter_configs.IncrementalAlterConfigsResponse(
        responses=tuple(
            incremental_alter_configs.AlterConfigsResourceResponse(
                error_code=error, resource_type=each.resource_type, resource_name=each.resource_name
            )
            for each in request.resources
        )
    )


def _create_partitions(
    request: create_partitions.CreatePartitionsRequest, error: ErrorCode
) -> create_partitions.CreatePartitionsResponse:
    results = (create_partitions.CreatePartitionsTopicResult(name=each.name, error_code=error) for each in request.topics)
    return create_partitions.CreatePartitionsResponse(results=tuple(results))


def _create_topics(request: create_topics.CreateTopicsRequest, error: ErrorCode) -> create_topics.CreateTopicsResponse:
    results = (create_topics.CreatableTopicResult(name=each.name, error_code=error) for each in request.topics)
    return create_topics.CreateTopicsResponse(topics=tuple(results))


def _delete_topics(request: delete_topics.DeleteTopicsRequest, error: ErrorCode) -> delete_topics.DeleteTopicsResponse:
    named = request.topics or tuple(
        delete_topics.DeleteTopicState(name=name, topic_id=NO_TOPIC_ID) for name in request.topic_names
    )
    results = (delete_topics.DeletableTopicResult(name=each.name, topic_id=each.topic_id, error_code=error) for each in named)
    return delete_topics.DeleteTopicsResponse(responses=tuple(results))


def _delete_groups(request: delete_groups.DeleteGroupsRequest, error: ErrorCode) -> delete_groups.DeleteGroupsResponse:
    results = (
        delete_groups.DeletableGroupResult(group_id=name, error_code=error) for name in dict.fromkeys(request.groups_names)
    )
    return delete_groups.DeleteGroupsResponse(results=tuple(results))


def _delete_records(request: delete_records.DeleteRecordsRequest, error: ErrorCode) -> delete_records.DeleteRecordsResponse:
    topics = (
        delete_records.DeleteRecordsTopicResult(
            name=topic.name,
            partitions=tuple(
                delete_records.DeleteRecordsPartitionResult(
                    partition_index=each.partition_index, low_watermark=-1, error_code=error
                )
                for each in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return delete_records.DeleteRecordsResponse(topics=tuple(topics))


def _create_acls(request: create_acls.CreateAclsRequest, error: ErrorCode) -> create_acls.CreateAclsResponse:
    return create_acls.CreateAclsResponse(
        results=tuple(create_acls.AclCreationResult(error_code=error) for _ in request.creations)
    )


def _delete_acls(request: delete_acls.DeleteAclsRequest, error: ErrorCode) -> delete_acls.DeleteAclsResponse:
    return delete_acls.DeleteAclsResponse(
        filter_results=tuple(delete_acls.DeleteAclsFilterResult(error_code=error, matching_acls=()) for _ in request.filters)
    )


def _elect_leaders(request: elect_leaders.ElectLeadersRequest, error: ErrorCode) -> elect_leaders.ElectLeadersResponse:
    results = (
        elect_leaders.ReplicaElectionResult(
            topic=topic.topic,
            partition_result=tuple(
                elect_leaders.PartitionResult(partition_id=index, error_code=error, error_message=None)
                for index in topic.partitions
            ),
        )
        for topic in request.topic_partitions or ()
    )
    return elect_leaders.ElectLeadersResponse(error_code=error, replica_election_results=tuple(results))


def _offset_commit(request: offset_commit.OffsetCommitRequest, error: ErrorCode) -> offset_commit.OffsetCommitResponse:
    topics = (
        offset_commit.OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=tuple(
                offset_commit.OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
                for partition in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return offset_commit.OffsetCommitResponse(topics=tuple(topics))


def _txn_offset_commit(
    request: txn_offset_commit.TxnOffsetCommitRequest, error: ErrorCode
) -> txn_offset_commit.TxnOffsetCommitResponse:
    topics = (
        txn_offset_commit.TxnOffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=tuple(
                txn_offset_commit.TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
                for partition in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return txn_offset_commit.TxnOffsetCommitResponse(topics=tuple(topics))


def _write_txn_markers(
    request: write_txn_markers.WriteTxnMarkersRequest, error: ErrorCode
) -> write_txn_markers.WriteTxnMarkersResponse:
    markers = (
        write_txn_markers.WritableTxnMarkerResult(
            producer_id=marker.producer_id,
            topics=tuple(
                write_txn_markers.WritableTxnMarkerTopicResult(
                    name=topic.name,
                    partitions=tuple(
                        write_txn_markers.WritableTxnMarkerPartitionResult(partition_index=index, error_code=error)
                        for index in topic.partition_indexes
                    ),
                )
                for topic in marker.topics
            ),
        )
        for marker in request.markers
    )
    return write_txn_markers.WriteTxnMarkersResponse(markers=tuple(markers))


def _of_share_states(messages: Any, response: type[Any], topic: type[Any], **nothing: Any) -> Callable[[Any, ErrorCode], Any]:
    """Of what brokers say among themselves about the state of share-partitions: an error for each."""

    def refused(request: Any, error: ErrorCode) -> Any:
        return response(
            results=tuple(
                topic(
                    topic_id=asked.topic_id,
                    partitions=tuple(
                        messages.PartitionResult(partition=each.partition, error_code=error, **nothing)
                        for each in asked.partitions
                    ),
                )
                for asked in request.topics
            )
        )

    return refused


def _in_words(error: ErrorCode) -> str:
    """As Kafka, which never leaves the message out here: librdkafka says "(null)" where it is missing."""
    return f"{error.name.replace('_', ' ').capitalize()}."


def _whole(response: type[Any], **nothing: Any) -> Callable[[Any, ErrorCode], Any]:
    """Of a reply with one error for all of it; the fields that it has to have besides are empty."""
    return lambda request, error: response(error_code=error, **nothing)


REFUSALS: Final[Mapping[int, Callable[[Any, ErrorCode], Any]]] = {
    ApiKey.ADD_OFFSETS_TO_TXN: _whole(add_offsets_to_txn.AddOffsetsToTxnResponse),
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions_to_txn,
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_client_quotas,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.ALTER_PARTITION: _whole(alter_partition.AlterPartitionResponse, topics=()),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _whole(alter_partition_reassignments.AlterPartitionReassignmentsResponse, responses=()),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _alter_replica_log_dirs,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _whole(alter_share_group_offsets.AlterShareGroupOffsetsResponse, responses=()),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_user_scram_credentials,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _whole(
        consumer_group_heartbeat.ConsumerGroupHeartbeatResponse, member_epoch=0, heartbeat_interval_ms=0
    ),
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.DELETE_GROUPS: _delete_groups,
    ApiKey.DELETE_RECORDS: _delete_records,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _whole(delete_share_group_offsets.DeleteShareGroupOffsetsResponse, responses=()),
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.DESCRIBE_ACLS: _whole(describe_acls.DescribeAclsResponse, resources=()),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _whole(describe_client_quotas.DescribeClientQuotasResponse, entries=None),
    ApiKey.DESCRIBE_LOG_DIRS: _whole(describe_log_dirs.DescribeLogDirsResponse, results=()),
    ApiKey.DESCRIBE_QUORUM: _whole(describe_quorum.DescribeQuorumResponse, topics=()),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _describe_user_scram_credentials,
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.END_TXN: _whole(end_txn.EndTxnResponse),
    ApiKey.HEARTBEAT: _whole(heartbeat.HeartbeatResponse),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _incremental_alter_configs,
    ApiKey.INIT_PRODUCER_ID: _whole(init_producer_id.InitProducerIdResponse, producer_epoch=NO_PRODUCER_EPOCH),
    ApiKey.JOIN_GROUP: _whole(join_group.JoinGroupResponse, protocol_name="", leader="", member_id="", members=()),
    ApiKey.LEAVE_GROUP: _whole(leave_group.LeaveGroupResponse),
    ApiKey.LIST_CONFIG_RESOURCES: _whole(list_config_resources.ListConfigResourcesResponse, config_resources=()),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _whole(list_partition_reassignments.ListPartitionReassignmentsResponse, topics=()),
    ApiKey.OFFSET_COMMIT: _offset_commit,
    ApiKey.OFFSET_DELETE: _whole(offset_delete.OffsetDeleteResponse, topics=()),
    ApiKey.SHARE_ACKNOWLEDGE: _whole(share_acknowledge.ShareAcknowledgeResponse, responses=(), node_endpoints=()),
    ApiKey.SHARE_FETCH: _whole(share_fetch.ShareFetchResponse, acquisition_lock_timeout_ms=0, responses=(), node_endpoints=()),
    ApiKey.SHARE_GROUP_HEARTBEAT: _whole(
        share_group_heartbeat.ShareGroupHeartbeatResponse, member_epoch=0, heartbeat_interval_ms=0
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _whole(alter_share_group_offsets.AlterShareGroupOffsetsResponse, responses=()),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _whole(delete_share_group_offsets.DeleteShareGroupOffsetsResponse, responses=()),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: _of_share_states(
        initialize_share_group_state,
        initialize_share_group_state.InitializeShareGroupStateResponse,
        initialize_share_group_state.InitializeStateResult,
    ),
    ApiKey.READ_SHARE_GROUP_STATE: _of_share_states(
        read_share_group_state,
        read_share_group_state.ReadShareGroupStateResponse,
        read_share_group_state.ReadStateResult,
        state_epoch=0,
        start_offset=-1,
        state_batches=(),
    ),
    ApiKey.WRITE_SHARE_GROUP_STATE: _of_share_states(
        write_share_group_state,
        write_share_group_state.WriteShareGroupStateResponse,
        write_share_group_state.WriteStateResult,
    ),
    ApiKey.DELETE_SHARE_GROUP_STATE: _of_share_states(
        delete_share_group_state,
        delete_share_group_state.DeleteShareGroupStateResponse,
        delete_share_group_state.DeleteStateResult,
    ),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _of_share_states(
        read_share_group_state_summary,
        read_share_group_state_summary.ReadShareGroupStateSummaryResponse,
        read_share_group_state_summary.ReadStateSummaryResult,
        state_epoch=-1,
        leader_epoch=-1,
        start_offset=-1,
    ),
    ApiKey.SYNC_GROUP: _whole(sync_group.SyncGroupResponse, assignment=b""),
    ApiKey.TXN_OFFSET_COMMIT: _txn_offset_commit,
    ApiKey.UNREGISTER_BROKER: _whole(unregister_broker.UnregisterBrokerResponse),
    ApiKey.UPDATE_FEATURES: _whole(update_features.UpdateFeaturesResponse),
    ApiKey.WRITE_TXN_MARKERS: _write_txn_markers,
}

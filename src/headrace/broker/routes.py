"""The table of APIs: each with the versions served, who answers, and which parts of the broker that touches.

A handler gets the request, its context and those parts, by name, and nothing else.  mypy checks each row against the handler's
signature.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import ClassVar, Protocol, TypeVar

from headrace.broker.fetching.answering import Answers
from headrace.broker.fetching.fetch import Surroundings
from headrace.broker.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_share_group_offsets,
    alter_user_scram_credentials,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delegation_tokens,
    delete_acls,
    delete_groups,
    delete_records,
    delete_share_group_offsets,
    delete_share_group_state,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_share_group_offsets,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    find_coordinator,
    get_telemetry_subscriptions,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    initialize_share_group_state,
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
    push_telemetry,
    read_share_group_state,
    read_share_group_state_summary,
    sasl_authenticate,
    sasl_handshake,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
    sync_group,
    txn_offset_commit,
    unregister_broker,
    update_features,
    write_share_group_state,
    write_txn_markers,
)
from headrace.broker.handlers.fetch import Fetches
from headrace.broker.handlers.produce import Producing
from headrace.broker.handlers.schema_ids import SchemaIds
from headrace.broker.network.dispatch import DirectHandler, RequestContext, Route
from headrace.broker.partitions.waiting import Deadlines
from headrace.broker.parts import Parts
from headrace.declaring import dataclass
from headrace.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headrace.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from headrace.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from headrace.wire.messages.alter_configs import AlterConfigsRequest
from headrace.wire.messages.alter_partition import AlterPartitionRequest
from headrace.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from headrace.wire.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from headrace.wire.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from headrace.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from headrace.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.wire.messages.create_acls import CreateAclsRequest
from headrace.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from headrace.wire.messages.create_partitions import CreatePartitionsRequest
from headrace.wire.messages.create_topics import CreateTopicsRequest
from headrace.wire.messages.delete_acls import DeleteAclsRequest
from headrace.wire.messages.delete_groups import DeleteGroupsRequest
from headrace.wire.messages.delete_records import DeleteRecordsRequest
from headrace.wire.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from headrace.wire.messages.delete_share_group_state import DeleteShareGroupStateRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest
from headrace.wire.messages.describe_acls import DescribeAclsRequest
from headrace.wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from headrace.wire.messages.describe_cluster import DescribeClusterRequest
from headrace.wire.messages.describe_configs import DescribeConfigsRequest
from headrace.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from headrace.wire.messages.describe_groups import DescribeGroupsRequest
from headrace.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from headrace.wire.messages.describe_producers import DescribeProducersRequest
from headrace.wire.messages.describe_quorum import DescribeQuorumRequest
from headrace.wire.messages.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from headrace.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from headrace.wire.messages.describe_transactions import DescribeTransactionsRequest
from headrace.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from headrace.wire.messages.elect_leaders import ElectLeadersRequest
from headrace.wire.messages.end_txn import EndTxnRequest
from headrace.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from headrace.wire.messages.fetch import FetchRequest
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from headrace.wire.messages.heartbeat import HeartbeatRequest
from headrace.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from headrace.wire.messages.init_producer_id import InitProducerIdRequest
from headrace.wire.messages.initialize_share_group_state import InitializeShareGroupStateRequest
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
from headrace.wire.messages.push_telemetry import PushTelemetryRequest
from headrace.wire.messages.read_share_group_state import ReadShareGroupStateRequest
from headrace.wire.messages.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from headrace.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from headrace.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from headrace.wire.messages.sasl_handshake import SaslHandshakeRequest
from headrace.wire.messages.share_acknowledge import ShareAcknowledgeRequest
from headrace.wire.messages.share_fetch import ShareFetchRequest
from headrace.wire.messages.share_group_describe import ShareGroupDescribeRequest
from headrace.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from headrace.wire.messages.sync_group import SyncGroupRequest
from headrace.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest
from headrace.wire.messages.update_features import UpdateFeaturesRequest
from headrace.wire.messages.write_share_group_state import WriteShareGroupStateRequest
from headrace.wire.messages.write_txn_markers import WriteTxnMarkersRequest
from headrace.wire.schema import Api


class Message(Protocol):
    """A request or a response: something with a layout on the wire."""

    api: ClassVar[Api]


Request = TypeVar("Request", bound=Message)


@dataclass(frozen=True, slots=True)
class Served:
    """One API: its versions, and how it is answered with the parts of a broker."""

    request: type[Message]
    versions: range
    # Whether clients are told of it; what only brokers use among themselves is not for them.
    public: bool
    wired: Callable[[Parts], Route]


def _now(request: type[Request], answer: Callable[[Parts, Request, RequestContext], Message], *, public: bool = True) -> Served:
    """Answered at once."""
    versions = request.api.versions
    return Served(request, versions, public, lambda parts: Route(versions, request, handler=partial(answer, parts)))


def _later(
    request: type[Request],
    answer: Callable[[Parts, Request, RequestContext], Awaitable[Message]],
    *,
    public: bool = True,
) -> Served:
    """Answered by a task: something has to be waited for."""
    versions = request.api.versions
    return Served(request, versions, public, lambda parts: Route(versions, request, handler=partial(answer, parts), waits=True))


def _direct(request: type[Message], start: Callable[[Parts], DirectHandler], first_version: int = 0) -> Served:
    """Gets the frame as it came, and answers by itself."""
    versions = range(first_version, request.api.versions.stop)
    return Served(request, versions, True, lambda parts: Route(versions, request, direct=start(parts)))


APIS: Mapping[int, Served] = {
    served.request.api.key: served
    for served in (
        # From 0, as Kafka 4 tells it: librdkafka concludes from it that compression works (KAFKA-18659).
        _direct(
            ProduceRequest,
            lambda parts: (
                Producing(
                    replicas=parts.replicas,
                    verification=parts.verification,
                    schemas=SchemaIds(parts.replicas),
                    staging=parts.staging,
                    schedules=parts.schedule_requests,
                    throttling=parts.throttling,
                    tasks=parts.request_tasks,
                    image=parts.image,
                    clock=parts.clock,
                    loop=parts.loop,
                    deadlines=Deadlines(parts.loop),
                    broker_id=parts.broker_id,
                ).start
            ),
        ),
        # A client that asks in an older version could not read the batches it gets.
        _direct(
            FetchRequest,
            lambda parts: (
                Fetches(
                    replicas=parts.replicas,
                    sessions=parts.sessions,
                    throttle=parts.served,
                    nearby=parts.nearby,
                    image=parts.image,
                    surroundings=Surroundings(
                        loop=parts.loop,
                        disk=parts.host.disk,
                        run_task=parts.request_tasks.run,
                        answers=Answers(parts.broker_id, parts.image, parts.throttling),
                        bytes_max=parts.config.now["fetch.max.bytes"],
                        deadlines=Deadlines(parts.loop),
                        clock=parts.clock,
                        cold_reads=parts.figures.disk.cold_reads,
                        remote_wait_s=lambda: parts.config.now["remote.fetch.max.wait.ms"] / 1000,
                    ),
                ).start
            ),
            first_version=4,
        ),
        _later(
            ListOffsetsRequest,
            lambda parts, request, context: list_offsets.handle(request, context, parts.replicas, parts.host.disk),
        ),
        _now(
            MetadataRequest,
            lambda parts, request, context: metadata.handle(
                request, context, parts.image, parts.auto_creation, parts.config, parts.broker_id
            ),
        ),
        _now(
            ApiVersionsRequest,
            lambda parts, request, context: api_versions.handle(request, context, parts.image, parts.broker_id, PUBLIC_VERSIONS),
        ),
        _now(SaslHandshakeRequest, lambda parts, request, context: sasl_handshake.handle(request, context)),
        _later(SaslAuthenticateRequest, lambda parts, request, context: sasl_authenticate.handle(request, context)),
        _later(
            CreateTopicsRequest,
            lambda parts, request, context: create_topics.handle(
                request, context, parts.topics, parts.setting_sources, parts.throttling, parts.config
            ),
        ),
        _later(
            DeleteTopicsRequest,
            lambda parts, request, context: delete_topics.handle(request, context, parts.topics, parts.throttling, parts.config),
        ),
        _later(
            DeleteRecordsRequest,
            lambda parts, request, context: delete_records.handle(
                request, context, parts.replicas, parts.log_starts, parts.removal
            ),
        ),
        _now(
            OffsetForLeaderEpochRequest,
            lambda parts, request, context: offset_for_leader_epoch.handle(request, context, parts.replicas),
        ),
        _now(
            DescribeConfigsRequest,
            lambda parts, request, context: describe_configs.handle(
                request, context, parts.image, parts.setting_sources, parts.reasons, parts.broker_id
            ),
        ),
        _later(AlterConfigsRequest, lambda parts, request, context: alter_configs.handle(request, context, parts.config_changes)),
        _now(
            DescribeLogDirsRequest,
            lambda parts, request, context: describe_log_dirs.handle(
                request, context, parts.replicas, parts.storage, parts.space, parts.health
            ),
        ),
        _later(
            CreatePartitionsRequest,
            lambda parts, request, context: create_partitions.handle(
                request, context, parts.image, parts.topics, parts.throttling
            ),
        ),
        _later(
            IncrementalAlterConfigsRequest,
            lambda parts, request, context: incremental_alter_configs.handle(
                request, context, parts.config_changes, parts.broker_id
            ),
        ),
        _now(
            DescribeClusterRequest,
            lambda parts, request, context: describe_cluster.handle(request, context, parts.image, parts.broker_id),
        ),
        _now(
            DescribeTopicPartitionsRequest,
            lambda parts, request, context: describe_topic_partitions.handle(request, context, parts.image),
        ),
        _later(
            FindCoordinatorRequest,
            lambda parts, request, context: find_coordinator.handle(
                request,
                context,
                parts.image,
                parts.topics,
                parts.groups,
                parts.transactions.shards,
                parts.share_states.shards,
                parts.replica_changes.settled,
                parts.broker_id,
            ),
        ),
        _later(
            JoinGroupRequest,
            lambda parts, request, context: join_group.handle(request, context, parts.groups, parts.host.entropy),
        ),
        _later(SyncGroupRequest, lambda parts, request, context: sync_group.handle(request, context, parts.groups)),
        _later(HeartbeatRequest, lambda parts, request, context: heartbeat.handle(request, context, parts.groups)),
        _later(LeaveGroupRequest, lambda parts, request, context: leave_group.handle(request, context, parts.groups)),
        _later(
            OffsetCommitRequest,
            lambda parts, request, context: offset_commit.handle(request, context, parts.image, parts.groups),
        ),
        _later(
            OffsetFetchRequest,
            lambda parts, request, context: offset_fetch.handle(request, context, parts.image, parts.groups),
        ),
        _later(
            OffsetDeleteRequest,
            lambda parts, request, context: offset_delete.handle(request, context, parts.image, parts.groups),
        ),
        _later(DescribeGroupsRequest, lambda parts, request, context: describe_groups.handle(request, context, parts.groups)),
        _later(ListGroupsRequest, lambda parts, request, context: list_groups.handle(request, context, parts.groups)),
        _later(
            DeleteGroupsRequest,
            lambda parts, request, context: delete_groups.handle(request, context, parts.groups, parts.share_client),
        ),
        _later(
            ConsumerGroupHeartbeatRequest,
            lambda parts, request, context: consumer_group_heartbeat.handle(request, context, parts.groups, parts.host.entropy),
        ),
        _later(
            ConsumerGroupDescribeRequest,
            lambda parts, request, context: consumer_group_describe.handle(request, context, parts.groups),
        ),
        _later(
            ShareGroupDescribeRequest,
            lambda parts, request, context: share_group_describe.handle(request, context, parts.groups),
        ),
        _later(
            DescribeShareGroupOffsetsRequest,
            lambda parts, request, context: describe_share_group_offsets.handle(
                request, context, parts.groups, parts.share_client, parts.partition_ends, parts.image, parts.share_activity
            ),
        ),
        _later(
            AlterShareGroupOffsetsRequest,
            lambda parts, request, context: alter_share_group_offsets.handle(
                request, context, parts.groups, parts.share_client, parts.image
            ),
        ),
        _later(
            DeleteShareGroupOffsetsRequest,
            lambda parts, request, context: delete_share_group_offsets.handle(request, context, parts.groups, parts.share_client),
        ),
        _later(
            InitializeShareGroupStateRequest,
            lambda parts, request, context: initialize_share_group_state.handle(request, context, parts.share_states.shards),
            public=False,
        ),
        _later(
            ReadShareGroupStateRequest,
            lambda parts, request, context: read_share_group_state.handle(request, context, parts.share_states.shards),
            public=False,
        ),
        _later(
            WriteShareGroupStateRequest,
            lambda parts, request, context: write_share_group_state.handle(request, context, parts.share_states.shards),
            public=False,
        ),
        _later(
            DeleteShareGroupStateRequest,
            lambda parts, request, context: delete_share_group_state.handle(request, context, parts.share_states.shards),
            public=False,
        ),
        _later(
            ReadShareGroupStateSummaryRequest,
            lambda parts, request, context: read_share_group_state_summary.handle(request, context, parts.share_states.shards),
            public=False,
        ),
        _later(
            ShareGroupHeartbeatRequest,
            lambda parts, request, context: share_group_heartbeat.handle(request, context, parts.groups, parts.share_beginnings),
        ),
        _later(ShareFetchRequest, lambda parts, request, context: share_fetch.handle(request, context, parts.share_fetching)),
        _later(
            ShareAcknowledgeRequest,
            lambda parts, request, context: share_acknowledge.handle(request, context, parts.share_fetching),
        ),
        _later(
            InitProducerIdRequest,
            lambda parts, request, context: init_producer_id.handle(
                request, context, parts.transactions.requests, parts.transactions.producer_ids
            ),
        ),
        _later(
            AddPartitionsToTxnRequest,
            lambda parts, request, context: add_partitions_to_txn.handle(
                request, context, parts.image, parts.transactions.requests
            ),
        ),
        _later(
            AddOffsetsToTxnRequest,
            lambda parts, request, context: add_offsets_to_txn.handle(
                request, context, parts.topics, parts.groups, parts.transactions.requests
            ),
        ),
        _later(
            TxnOffsetCommitRequest,
            lambda parts, request, context: txn_offset_commit.handle(
                request, context, parts.image, parts.groups, parts.verification, parts.replicas
            ),
        ),
        _later(EndTxnRequest, lambda parts, request, context: end_txn.handle(request, context, parts.transactions.requests)),
        _later(
            WriteTxnMarkersRequest,
            lambda parts, request, context: write_txn_markers.handle(
                request, context, parts.marker_writer, parts.throttling.is_broker
            ),
        ),
        _later(
            DescribeTransactionsRequest,
            lambda parts, request, context: describe_transactions.handle(request, context, parts.transactions.shards),
        ),
        _later(
            ListTransactionsRequest,
            lambda parts, request, context: list_transactions.handle(request, context, parts.transactions.shards),
        ),
        _now(
            DescribeProducersRequest, lambda parts, request, context: describe_producers.handle(request, context, parts.replicas)
        ),
        _later(
            AlterClientQuotasRequest, lambda parts, request, context: alter_client_quotas.handle(request, context, parts.cluster)
        ),
        _later(
            AlterPartitionReassignmentsRequest,
            lambda parts, request, context: alter_partition_reassignments.handle(request, context, parts.partition_changes),
        ),
        _now(
            DescribeClientQuotasRequest,
            lambda parts, request, context: describe_client_quotas.handle(request, context, parts.image),
        ),
        _later(
            ElectLeadersRequest,
            lambda parts, request, context: elect_leaders.handle(request, context, parts.image, parts.partition_changes),
        ),
        _now(
            ListPartitionReassignmentsRequest,
            lambda parts, request, context: list_partition_reassignments.handle(request, context, parts.image),
        ),
        _later(
            UnregisterBrokerRequest, lambda parts, request, context: unregister_broker.handle(request, context, parts.cluster)
        ),
        _now(
            AlterReplicaLogDirsRequest,
            lambda parts, request, context: alter_replica_log_dirs.handle(
                request, context, parts.replicas, parts.storage, parts.health
            ),
        ),
        _later(
            DescribeQuorumRequest,
            lambda parts, request, context: describe_quorum.handle(
                request, context, parts.image, parts.peers, parts.clock, parts.broker_id
            ),
        ),
        _now(
            ListConfigResourcesRequest,
            lambda parts, request, context: list_config_resources.handle(request, context, parts.image),
        ),
        _now(
            GetTelemetrySubscriptionsRequest,
            lambda parts, request, context: get_telemetry_subscriptions.handle(request, context, parts.telemetry),
        ),
        _later(
            PushTelemetryRequest,
            lambda parts, request, context: push_telemetry.handle(request, context, parts.telemetry, parts.loop),
        ),
        _now(UpdateFeaturesRequest, lambda parts, request, context: update_features.handle(request, context)),
        _now(
            DescribeUserScramCredentialsRequest,
            lambda parts, request, context: describe_user_scram_credentials.handle(request, context, parts.image),
        ),
        _later(
            AlterUserScramCredentialsRequest,
            lambda parts, request, context: alter_user_scram_credentials.handle(request, context, parts.cluster),
        ),
        _now(DescribeAclsRequest, lambda parts, request, context: describe_acls.handle(request, context, parts.image)),
        _later(CreateAclsRequest, lambda parts, request, context: create_acls.handle(request, context, parts.cluster)),
        _later(DeleteAclsRequest, lambda parts, request, context: delete_acls.handle(request, context, parts.cluster)),
        _now(CreateDelegationTokenRequest, lambda parts, request, context: delegation_tokens.create(request, context)),
        _now(RenewDelegationTokenRequest, lambda parts, request, context: delegation_tokens.renew(request, context)),
        _now(ExpireDelegationTokenRequest, lambda parts, request, context: delegation_tokens.expire(request, context)),
        _now(DescribeDelegationTokenRequest, lambda parts, request, context: delegation_tokens.describe(request, context)),
        _later(
            AlterPartitionRequest,
            lambda parts, request, context: alter_partition.handle(request, context, parts.cluster, parts.topic_configs.of),
            public=False,
        ),
    )
}
PUBLIC_VERSIONS: Mapping[int, range] = {key: served.versions for key, served in APIS.items() if served.public}


def routes(parts: Parts) -> dict[int, Route]:
    """The table, wired to one broker's parts."""
    wired = {key: served.wired(parts) for key, served in APIS.items()}
    return wired if parts.recorder is None else parts.recorder.recorded(wired)

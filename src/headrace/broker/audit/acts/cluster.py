"""Acts on the cluster itself: where partitions are and who leads them, brokers, features, transactions ended by hand."""

from collections.abc import Iterator

from headrace.broker.administration.features import LEVELS
from headrace.broker.audit.acts.act import Act, ActsOf, PartitionOutcome, Surroundings, by_topic, outcome
from headrace.broker.network.dispatch import RequestContext
from headrace.controller.reassignment import target_of
from headrace.model.errors import ErrorCode
from headrace.security.audit.events import Activity, Resource, ValueChange
from headrace.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from headrace.wire.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from headrace.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from headrace.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from headrace.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

KINDS_OF_ELECTION = {0: "preferred", 1: "unclean"}
CLUSTER = Resource("CLUSTER", "kafka-cluster")
Partition = tuple[str, int]


def alter_partition_reassignments(
    around: Surroundings, request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> ActsOf | None:
    before = {
        (topic.name, each.partition_index): _target(around, topic.name, each.partition_index)
        for topic in request.topics
        for each in topic.partitions
    }
    wanted = {(topic.name, each.partition_index): each.replicas for topic in request.topics for each in topic.partitions}

    def change(topic: str, index: int, code: int) -> ValueChange:
        after = _target(around, topic, index) if code == ErrorCode.NONE else wanted.get((topic, index))
        return ValueChange(f"partition {index}: replicas", before.get((topic, index)), after)

    def acts_of(response: AlterPartitionReassignmentsResponse) -> Iterator[Act]:
        if response.error_code != ErrorCode.NONE:
            yield Act(activity=Activity.UPDATE, resources=(CLUSTER,), error=outcome(response.error_code))
        outcomes = (
            PartitionOutcome(
                topic.name,
                result.error_code,
                change(topic.name, result.partition_index, result.error_code),
                result.error_message or "",
            )
            for topic in response.responses
            for result in topic.partitions
        )
        yield from by_topic(Activity.UPDATE, outcomes)

    return acts_of


def _target(around: Surroundings, topic: str, index: int) -> tuple[int, ...] | None:
    """Where a partition is to be: where it is, or where it moves."""
    state = around.image().partition(topic, index)
    return None if state is None else tuple(target_of(state))


def elect_leaders(around: Surroundings, request: ElectLeadersRequest, context: RequestContext) -> ActsOf | None:
    before = _leaders(around, request)
    kind = KINDS_OF_ELECTION.get(request.election_type, f"type {request.election_type}")

    def change(topic: str, index: int) -> ValueChange:
        state = around.image().partition(topic, index)
        after = None if state is None else state.leader
        return ValueChange(f"partition {index}: leader ({kind} election)", before.get((topic, index)), after)

    def acts_of(response: ElectLeadersResponse) -> Iterator[Act]:
        if response.error_code != ErrorCode.NONE or not response.replica_election_results:
            yield Act(
                activity=Activity.UPDATE,
                resources=(CLUSTER,),
                error=outcome(response.error_code),
                detail="" if response.error_code else f"no partition needed a {kind} election",
            )
        outcomes = (
            PartitionOutcome(topic.topic, result.error_code, change(topic.topic, result.partition_id), result.error_message or "")
            for topic in response.replica_election_results
            for result in topic.partition_result
        )
        yield from by_topic(Activity.UPDATE, outcomes)

    return acts_of


def _leaders(around: Surroundings, request: ElectLeadersRequest) -> dict[Partition, int]:
    image = around.image()
    if request.topic_partitions is None:
        return {(topic.name, index): state.leader for topic, index, state in image.partitions()}
    asked = ((topic.topic, index) for topic in request.topic_partitions for index in topic.partitions)
    return {each: state.leader for each in asked if (state := image.partition(*each)) is not None}


def alter_replica_log_dirs(around: Surroundings, request: AlterReplicaLogDirsRequest, context: RequestContext) -> ActsOf | None:
    paths = {
        (topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }

    def acts_of(response: AlterReplicaLogDirsResponse) -> Iterator[Act]:
        return by_topic(
            Activity.UPDATE,
            (
                PartitionOutcome(
                    topic.topic_name,
                    result.error_code,
                    ValueChange(
                        f"partition {result.partition_index}: log directory",
                        None,
                        paths.get((topic.topic_name, result.partition_index)),
                    ),
                )
                for topic in response.results
                for result in topic.partitions
            ),
        )

    return acts_of


def unregister_broker(around: Surroundings, request: UnregisterBrokerRequest, context: RequestContext) -> ActsOf | None:
    member = around.image().members.get(request.broker_id)
    places = None if member is None else [f"{each.host}:{each.port}" for each in member.endpoints.values()]

    def acts_of(response: UnregisterBrokerResponse) -> Iterator[Act]:
        yield Act(
            activity=Activity.DELETE,
            resources=(Resource("BROKER", str(request.broker_id)),),
            error=outcome(response.error_code),
            detail=response.error_message or "",
            changes=(ValueChange("endpoints", places, None),) if response.error_code == ErrorCode.NONE else (),
        )

    return acts_of


def update_features(around: Surroundings, request: UpdateFeaturesRequest, context: RequestContext) -> ActsOf | None:
    if request.validate_only:
        return None

    def acts_of(response: UpdateFeaturesResponse) -> Iterator[Act]:
        for update in request.feature_updates:
            yield Act(
                activity=Activity.UPDATE,
                resources=(Resource("FEATURE", update.feature),),
                error=outcome(response.error_code),
                detail=response.error_message or "",
                changes=(ValueChange("level", LEVELS.get(update.feature), update.max_version_level),),
            )

    return acts_of


def write_txn_markers(around: Surroundings, request: WriteTxnMarkersRequest, context: RequestContext) -> ActsOf | None:
    """A coordinator ends transactions all day long; an operator ends one that hangs."""
    if around.is_broker(context):
        return None
    ends = {marker.producer_id: "committed" if marker.transaction_result else "aborted" for marker in request.markers}

    def acts_of(response: WriteTxnMarkersResponse) -> Iterator[Act]:
        outcomes = (
            PartitionOutcome(
                topic.name,
                result.error_code,
                ValueChange(
                    f"partition {result.partition_index}: transaction of producer {marker.producer_id}",
                    "open",
                    ends.get(marker.producer_id),
                ),
            )
            for marker in response.markers
            for topic in marker.topics
            for result in topic.partitions
        )
        return by_topic(Activity.UPDATE, outcomes)

    return acts_of

"""AlterPartitionReassignments: moves replicas to other brokers, or stops a move (KIP-455)."""

from headrace.broker.administration.partition_changes import PartitionChanges
from headrace.broker.network.dispatch import RequestContext
from headrace.controller.election import Elected, ElectionRules, eligible_in
from headrace.controller.entries import PartitionState
from headrace.controller.image import ClusterImage
from headrace.controller.reassignment import begin, cancel, target_of
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


async def handle(
    request: AlterPartitionReassignmentsRequest, context: RequestContext, changes: PartitionChanges
) -> AlterPartitionReassignmentsResponse:
    topics = []
    for topic in request.topics:
        answers = []
        for wanted in topic.partitions:
            code, message = ErrorCode.NONE, None
            try:
                await _move(changes, topic.name, wanted, factor_may_change=request.allow_replication_factor_change)
            except RequestError as error:
                code, message = error.code, error.message
            answers.append(
                ReassignablePartitionResponse(partition_index=wanted.partition_index, error_code=code, error_message=message)
            )
        topics.append(ReassignableTopicResponse(name=topic.name, partitions=tuple(answers)))
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=ErrorCode.NONE,
        responses=tuple(topics),
    )


async def _move(changes: PartitionChanges, name: str, wanted: ReassignablePartition, *, factor_may_change: bool) -> None:
    index, target = wanted.partition_index, wanted.replicas

    def decide(image: ClusterImage, state: PartitionState, rules: ElectionRules) -> Elected:
        if target is None:
            return cancel(state, eligible_in(image), rules)
        if not factor_may_change and len(target) != len(target_of(state)):
            raise RequestError(ErrorCode.INVALID_REPLICATION_FACTOR, "The move would change the number of replicas.")
        return Elected(begin(image, index, state, tuple(target), rules))

    await changes.change(name, index, decide)

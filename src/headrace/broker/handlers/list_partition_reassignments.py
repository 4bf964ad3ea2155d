"""ListPartitionReassignments: the moves under way."""

from headrace.broker.network.dispatch import RequestContext
from headrace.controller.image import CurrentImage
from headrace.controller.reassignment import moves
from headrace.model.errors import ErrorCode
from headrace.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def handle(
    request: ListPartitionReassignmentsRequest, context: RequestContext, image: CurrentImage
) -> ListPartitionReassignmentsResponse:
    asked = None
    if request.topics is not None:
        asked = {(topic.name, index) for topic in request.topics for index in topic.partition_indexes}
    by_topic: dict[str, list[OngoingPartitionReassignment]] = {}
    for move in moves(image()):
        if asked is None or (move.topic.name, move.index) in asked:
            by_topic.setdefault(move.topic.name, []).append(
                OngoingPartitionReassignment(
                    partition_index=move.index,
                    replicas=move.state.replicas,
                    adding_replicas=move.state.adding,
                    removing_replicas=move.state.removing,
                )
            )
    topics = tuple(OngoingTopicReassignment(name=name, partitions=tuple(ongoing)) for name, ongoing in by_topic.items())
    return ListPartitionReassignmentsResponse(error_code=ErrorCode.NONE, topics=topics)

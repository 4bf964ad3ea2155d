"""ListPartitionReassignments: the moves under way."""

from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import RequestContext
from headrace.controller.reassignment import moves
from headrace.model.errors import ErrorCode
from headrace.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from headrace.broker.app import Broker


def handle(
    broker: "Broker", request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    asked = None
    if request.topics is not None:
        asked = {(topic.name, index) for topic in request.topics for index in topic.partition_indexes}
    by_topic: dict[str, list[OngoingPartitionReassignment]] = {}
    for move in moves(broker.image):
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

"""ElectLeaders: lets preferred replicas lead again, or gives a partition a leader at any price (KIP-460)."""

from collections.abc import Iterator

from headrace.broker.administration.partition_changes import PartitionChanges
from headrace.broker.network.dispatch import RequestContext
from headrace.controller.election import Elected, ElectionRules, elect_uncleanly, eligible_in, prefer
from headrace.controller.entries import PartitionState
from headrace.controller.image import ClusterImage, CurrentImage
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import TopicPartition
from headrace.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

PREFERRED, UNCLEAN = 0, 1


async def handle(
    request: ElectLeadersRequest, context: RequestContext, image: CurrentImage, changes: PartitionChanges
) -> ElectLeadersResponse:
    if request.election_type not in (PREFERRED, UNCLEAN):
        return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST, replica_election_results=())
    for_all = request.topic_partitions is None
    results: dict[str, list[PartitionResult]] = {}
    for name, index in list(_asked(image, request)):
        code, message = ErrorCode.NONE, None
        try:
            await _elect(changes, name, index, unclean=request.election_type == UNCLEAN)
        except RequestError as error:
            code, message = error.code, error.message
        # Who asks for all wants to hear only of those where something happened.
        if not (for_all and code is ErrorCode.ELECTION_NOT_NEEDED):
            results.setdefault(name, []).append(PartitionResult(partition_id=index, error_code=code, error_message=message))
    return ElectLeadersResponse(
        replica_election_results=tuple(
            ReplicaElectionResult(topic=name, partition_result=tuple(answers)) for name, answers in results.items()
        )
    )


def _asked(image: CurrentImage, request: ElectLeadersRequest) -> Iterator[TopicPartition]:
    if request.topic_partitions is None:
        yield from (TopicPartition(topic.name, index) for topic, index, _ in image().partitions())
    else:
        yield from (TopicPartition(topic.topic, index) for topic in request.topic_partitions for index in topic.partitions)


async def _elect(changes: PartitionChanges, name: str, index: int, *, unclean: bool) -> None:
    def decide(image: ClusterImage, state: PartitionState, rules: ElectionRules) -> Elected:
        eligible = eligible_in(image)
        return elect_uncleanly(state, eligible, rules) if unclean else Elected(prefer(state, eligible))

    await changes.change(name, index, decide)

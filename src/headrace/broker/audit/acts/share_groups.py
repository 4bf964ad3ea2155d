"""Acts on share groups: where they begin is set anew or forgotten.  What it was before, only the state's own log knows."""

from collections.abc import Iterator

from headrace.broker.audit.acts.act import Act, ActsOf, PartitionOutcome, Surroundings, by_topic, outcome, topic_named
from headrace.broker.network.dispatch import RequestContext
from headrace.model.errors import ErrorCode
from headrace.security.audit.events import Activity, Resource, ValueChange
from headrace.wire.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse
from headrace.wire.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse


def alter_offsets(around: Surroundings, request: AlterShareGroupOffsetsRequest, context: RequestContext) -> ActsOf | None:
    group = Resource("GROUP", request.group_id)
    wanted = {
        (topic.topic_name, each.partition_index): each.start_offset for topic in request.topics for each in topic.partitions
    }

    def acts_of(response: AlterShareGroupOffsetsResponse) -> Iterator[Act]:
        if response.error_code != ErrorCode.NONE:
            yield _refused(Activity.UPDATE, group, response.error_code, response.error_message)
        outcomes = (
            PartitionOutcome(
                topic.topic_name,
                result.error_code,
                ValueChange(
                    f"partition {result.partition_index}: start offset",
                    None,
                    wanted.get((topic.topic_name, result.partition_index)),
                ),
                result.error_message or "",
            )
            for topic in response.responses
            for result in topic.partitions
        )
        yield from by_topic(Activity.UPDATE, outcomes, group)

    return acts_of


def delete_offsets(around: Surroundings, request: DeleteShareGroupOffsetsRequest, context: RequestContext) -> ActsOf | None:
    group = Resource("GROUP", request.group_id)

    def acts_of(response: DeleteShareGroupOffsetsResponse) -> Iterator[Act]:
        if response.error_code != ErrorCode.NONE:
            yield _refused(Activity.DELETE, group, response.error_code, response.error_message)
        for topic in response.responses:
            yield Act(
                activity=Activity.DELETE,
                resources=(group, topic_named(topic.topic_name)),
                error=outcome(topic.error_code),
                detail=topic.error_message or "",
            )

    return acts_of


def _refused(activity: Activity, group: Resource, code: int, message: str | None) -> Act:
    return Act(activity=activity, resources=(group,), error=outcome(code), detail=message or "")

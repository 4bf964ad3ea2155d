"""Acts on groups by those who are not their members: groups and offsets deleted, offsets set anew, members removed.

A commit without a member is what tools send that reset offsets, and also what consumers send that assign partitions to
themselves, as often as they like.  Both are recorded; those that come by the second, and only move on, are aggregated.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from headrace.broker.audit.acts.act import Act, ActsOf, PartitionOutcome, Surroundings, by_topic, outcome
from headrace.broker.network.dispatch import RequestContext
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import NO_TOPIC_ID, TopicPartition
from headrace.security.audit.events import Activity, Resource, ValueChange
from headrace.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from headrace.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from headrace.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from headrace.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse


def _group(name: str) -> Resource:
    return Resource("GROUP", name)


def _committed(around: Surroundings, group_id: str) -> dict[TopicPartition, int]:
    """The group's offsets as they are now; none where another broker looks after it, which will refuse the act then."""
    try:
        offsets = around.groups.serving(around.groups.partition_of(group_id)).shard.offsets
    except RequestError:
        return {}
    return {partition: stored.value.offset for partition, stored in offsets.of_group(group_id).items()}


def _offset(index: int) -> str:
    return f"partition {index}: offset"


def delete_groups(around: Surroundings, request: DeleteGroupsRequest, context: RequestContext) -> ActsOf | None:
    before = {name: _committed(around, name) for name in request.groups_names}

    def acts_of(response: DeleteGroupsResponse) -> Iterator[Act]:
        for result in response.results:
            offsets = before.get(result.group_id, {}) if result.error_code == ErrorCode.NONE else {}
            yield Act(
                activity=Activity.DELETE,
                resources=(_group(result.group_id),),
                error=outcome(result.error_code),
                detail=result.error_message or "",
                changes=tuple(ValueChange(f"{partition}: offset", offset, None) for partition, offset in offsets.items()),
            )

    return acts_of


def offset_delete(around: Surroundings, request: OffsetDeleteRequest, context: RequestContext) -> ActsOf | None:
    before = _committed(around, request.group_id)

    def acts_of(response: OffsetDeleteResponse) -> Iterator[Act]:
        group = _group(request.group_id)
        if response.error_code != ErrorCode.NONE:
            yield Act(activity=Activity.DELETE, resources=(group,), error=outcome(response.error_code))
            return
        outcomes = (
            PartitionOutcome(
                topic.name,
                result.error_code,
                ValueChange(
                    _offset(result.partition_index), before.get(TopicPartition(topic.name, result.partition_index)), None
                ),
            )
            for topic in response.topics
            for result in topic.partitions
        )
        yield from by_topic(Activity.DELETE, outcomes, group)

    return acts_of


def offset_commit(around: Surroundings, request: OffsetCommitRequest, context: RequestContext) -> ActsOf | None:
    if request.member_id or request.generation_id_or_member_epoch >= 0:
        return None
    before = _committed(around, request.group_id)
    names = {topic.topic_id: topic.name for topic in around.image().topics_by_id.values()}

    def name_of(topic: object) -> str:
        topic_id = topic.topic_id  # type: ignore[attr-defined]
        return topic.name if topic_id == NO_TOPIC_ID else names.get(topic_id, str(topic_id))  # type: ignore[attr-defined]

    after = {
        TopicPartition(name_of(topic), each.partition_index): each.committed_offset
        for topic in request.topics
        for each in topic.partitions
    }

    def acts_of(response: OffsetCommitResponse) -> Iterator[Act]:
        outcomes = (
            _commit(TopicPartition(name_of(topic), result.partition_index), result.error_code, before, after)
            for topic in response.topics
            for result in topic.partitions
        )
        for act in by_topic(Activity.UPDATE, outcomes, _group(request.group_id)):
            yield replace(act, is_repeated=act.error is not ErrorCode.NONE or not any(map(_goes_back, act.changes)))

    return acts_of


def _commit(
    partition: TopicPartition, code: int, before: Mapping[TopicPartition, int], after: Mapping[TopicPartition, int]
) -> PartitionOutcome:
    change = ValueChange(_offset(partition.partition), before.get(partition), after.get(partition))
    return PartitionOutcome(partition.topic, code, change)


def _goes_back(change: ValueChange) -> bool:
    before, after = change.before, change.after
    return isinstance(before, int) and isinstance(after, int) and after < before


def leave_group(around: Surroundings, request: LeaveGroupRequest, context: RequestContext) -> ActsOf | None:
    """A member leaves by its own id.  Who names others, several or by their instances, is an operator (KIP-345)."""
    if not request.members or (len(request.members) == 1 and request.members[0].member_id):
        return None

    def acts_of(response: LeaveGroupResponse) -> Iterator[Act]:
        group = _group(request.group_id)
        if response.error_code != ErrorCode.NONE:
            yield Act(activity=Activity.DELETE, resources=(group,), error=outcome(response.error_code))
            return
        for code in sorted({member.error_code for member in response.members}):
            members = [each.group_instance_id or each.member_id for each in response.members if each.error_code == code]
            yield Act(
                activity=Activity.DELETE,
                resources=(group,),
                error=outcome(code),
                changes=tuple(ValueChange("member", member, None) for member in members),
            )

    return acts_of

"""ShareGroupDescribe: state and members of share groups."""

from headrace.broker.coordinators.groups.coordinator import GroupShards
from headrace.broker.coordinators.groups.describing import describe
from headrace.broker.network.dispatch import RequestContext
from headrace.coordination.group.requests import DescribedMember
from headrace.coordination.group.shard import GroupShard
from headrace.model.access.acls import ResourceType
from headrace.model.errors import ErrorCode
from headrace.security.authorization.guard import NOT_ASKED
from headrace.wire.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)


async def handle(request: ShareGroupDescribeRequest, context: RequestContext, groups: GroupShards) -> ShareGroupDescribeResponse:
    described = []
    for group_id in request.group_ids:
        operations = context.authorized_operations(ResourceType.GROUP, group_id, asked=request.include_authorized_operations)
        described.append(await _describe(groups, group_id, operations, context))
    return ShareGroupDescribeResponse(groups=tuple(described))


async def _describe(groups: GroupShards, group_id: str, operations: int, context: RequestContext) -> DescribedGroup:
    group = await describe(groups, context, group_id, GroupShard.describe_share)
    return DescribedGroup(
        error_code=group.error,
        error_message=group.error_message,
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=tuple(_member(member) for member in group.members),
        authorized_operations=operations if group.error is ErrorCode.NONE else NOT_ASKED,
    )


def _member(member: DescribedMember) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topic_names,
        assignment=Assignment(
            topic_partitions=tuple(
                TopicPartitions(topic_id=topic.topic_id, topic_name=topic.name, partitions=topic.partitions)
                for topic in member.assignment
            )
        ),
    )

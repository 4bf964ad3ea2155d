"""What somebody is told of a group whose members are assigned partitions: of the consumer protocol, or a share group."""

from collections.abc import Callable
from typing import TypeVar

from headrace.broker.coordinators.groups.coordinator import GroupShards
from headrace.broker.network.dispatch import RequestContext
from headrace.coordination.group.requests import DescribedGroup, DescribedMember
from headrace.coordination.group.shard import GroupShard
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.errors import ErrorCode, RequestError

Member = TypeVar("Member", bound=DescribedMember)


async def describe(
    groups: GroupShards, context: RequestContext, group_id: str, look: Callable[[GroupShard, str], DescribedGroup[Member]]
) -> DescribedGroup[Member]:
    """All of it, or an error."""
    try:
        context.require(Operation.DESCRIBE, ResourceType.GROUP, group_id)
        if not group_id:
            raise RequestError(ErrorCode.INVALID_GROUP_ID)
        group = await groups.look(group_id, look, group_id)
        for name in {name for member in group.members for name in member.all_topics}:
            # As Kafka does: who may not know one topic of a group learns nothing about its members.
            context.require(Operation.DESCRIBE, ResourceType.TOPIC, name)
    except RequestError as error:
        return DescribedGroup(group_id=group_id, error=error.code, error_message=error.message)
    return group

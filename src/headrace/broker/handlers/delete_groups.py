"""DeleteGroups: removes empty groups with their offsets."""

import asyncio

from headrace.broker.coordinators.groups.coordinator import GroupShards
from headrace.broker.coordinators.share_state.client import ShareStateClient
from headrace.broker.network.dispatch import RequestContext
from headrace.coordination.group.shard import GroupShard
from headrace.coordination.share.entries import ShareKey
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

REASONS = {
    ErrorCode.NON_EMPTY_GROUP: "The group has members.",
    ErrorCode.GROUP_ID_NOT_FOUND: "There is no such group.",
}


async def handle(
    request: DeleteGroupsRequest, context: RequestContext, groups: GroupShards, share_states: ShareStateClient
) -> DeleteGroupsResponse:
    group_ids = list(dict.fromkeys(request.groups_names))
    # All are decided before the first is waited for, so that one flush can take them together.
    codes = await asyncio.gather(*(_delete(groups, share_states, group_id, context) for group_id in group_ids))
    results = tuple(
        DeletableGroupResult(group_id=group_id, error_code=code, error_message=REASONS.get(code))
        for group_id, code in zip(group_ids, codes, strict=True)
    )
    return DeleteGroupsResponse(results=results)


async def _delete(groups: GroupShards, share_states: ShareStateClient, group_id: str, context: RequestContext) -> ErrorCode:
    try:
        context.require(Operation.DELETE, ResourceType.GROUP, group_id)
        begun = await groups.look(group_id, GroupShard.topics_of_share_group, group_id)
        if begun:
            # It raises where the group has members; without its state the group could not go on.
            await groups.ask(group_id, GroupShard.next_state_epoch, group_id)
            keys = [ShareKey(group_id, topic_id, index) for topic_id, topic in begun.items() for index in topic.partitions]
            await asyncio.gather(*(share_states.delete(key) for key in keys))
        return await groups.ask(group_id, GroupShard.delete_group, group_id)
    except RequestError as error:
        return error.code

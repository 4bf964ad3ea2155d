"""DescribeShareGroupOffsets: how far share groups are in their partitions."""

import asyncio
from collections.abc import Mapping

from headrace.broker.coordinators.groups.coordinator import GroupShards
from headrace.broker.coordinators.share_state.client import ShareStateClient
from headrace.broker.network.dispatch import RequestContext
from headrace.broker.sharing.activity import ShareActivity
from headrace.broker.sharing.ends import PartitionEnds
from headrace.controller.image import CurrentImage, Topic
from headrace.coordination.group.shard import GroupShard
from headrace.coordination.share.entries import NOT_SET, ShareKey
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import NO_TOPIC_ID
from headrace.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)

Asked = Mapping[str, tuple[int, ...]]


async def handle(
    request: DescribeShareGroupOffsetsRequest,
    context: RequestContext,
    groups: GroupShards,
    client: ShareStateClient,
    ends: PartitionEnds,
    image: CurrentImage,
    activity: ShareActivity,
) -> DescribeShareGroupOffsetsResponse:
    if request.at_work:
        return DescribeShareGroupOffsetsResponse(groups=tuple(activity.of(group, context) for group in request.groups))
    found = [await _Description(context, groups, client, ends, image).of(group) for group in request.groups]
    return DescribeShareGroupOffsetsResponse(groups=tuple(found))


class _Description:
    """On behalf of one request."""

    def __init__(
        self,
        context: RequestContext,
        groups: GroupShards,
        client: ShareStateClient,
        ends: PartitionEnds,
        image: CurrentImage,
    ) -> None:
        self._context = context
        self._groups = groups
        self._client = client
        self._ends = ends
        self._image = image

    async def of(self, group: DescribeShareGroupOffsetsRequestGroup) -> DescribeShareGroupOffsetsResponseGroup:
        try:
            self._context.require(Operation.DESCRIBE, ResourceType.GROUP, group.group_id)
            asked = await self._asked(group)
        except RequestError as error:
            return DescribeShareGroupOffsetsResponseGroup(
                group_id=group.group_id, topics=(), error_code=error.code, error_message=error.message
            )
        topics = [await self._topic(group.group_id, name, partitions) for name, partitions in asked.items()]
        return DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id, topics=tuple(topics), error_code=ErrorCode.NONE)

    async def _asked(self, group: DescribeShareGroupOffsetsRequestGroup) -> Asked:
        begun = await self._groups.look(group.group_id, GroupShard.topics_of_share_group, group.group_id)
        if begun is None:
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {group.group_id} not found.")
        if group.topics is not None:
            return {topic.topic_name: topic.partitions for topic in group.topics}
        all_topics = {topic.name: tuple(sorted(topic.partitions)) for topic in begun.values()}
        shown = self._context.listed(Operation.DESCRIBE, ResourceType.TOPIC, all_topics)
        return {name: all_topics[name] for name in shown}

    async def _topic(self, group_id: str, name: str, partitions: tuple[int, ...]) -> DescribeShareGroupOffsetsResponseTopic:
        try:
            self._context.require(Operation.DESCRIBE, ResourceType.TOPIC, name)
            topic = self._image().topics.get(name)
            if topic is None:
                raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        except RequestError as error:
            answers = [_nothing(index, error) for index in partitions]
            return DescribeShareGroupOffsetsResponseTopic(topic_name=name, topic_id=NO_TOPIC_ID, partitions=tuple(answers))
        answers = await asyncio.gather(*(self._partition(group_id, topic, index) for index in partitions))
        return DescribeShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic.topic_id, partitions=tuple(answers))

    async def _partition(self, group_id: str, topic: Topic, index: int) -> DescribeShareGroupOffsetsResponsePartition:
        try:
            state = await self._client.summary(ShareKey(group_id, topic.topic_id, index))
        except RequestError as error:
            return _nothing(index, error)
        if state is None or state.start_offset == NOT_SET:
            return DescribeShareGroupOffsetsResponsePartition(
                partition_index=index, start_offset=NOT_SET, leader_epoch=0, error_code=ErrorCode.NONE
            )
        end = await self._ends.of(topic.name, index) if state.done != NOT_SET else None
        return DescribeShareGroupOffsetsResponsePartition(
            partition_index=index,
            start_offset=state.start_offset,
            leader_epoch=max(0, state.leader_epoch),
            lag=NOT_SET if end is None else max(0, end - state.start_offset - state.done),
            error_code=ErrorCode.NONE,
        )


def _nothing(index: int, error: RequestError) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index, start_offset=-1, leader_epoch=0, error_code=error.code, error_message=error.message
    )

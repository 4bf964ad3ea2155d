"""What share groups do just now, as this broker alone knows it: records in flight and at rest, why nothing is delivered, and what
waits for its time.  Whoever wants the whole asks every broker."""

from headrace.broker.delaying.coordinator import DelayCoordinator
from headrace.broker.network.dispatch import RequestContext
from headrace.broker.sharing.partitions import SharePartitions
from headrace.controller.image import CurrentImage, Topic
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import NO_TOPIC_ID
from headrace.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)


class ShareActivity:
    """Answers for the partitions that are led here, and are worked on."""

    def __init__(self, partitions: SharePartitions, delays: DelayCoordinator, image: CurrentImage) -> None:
        self._partitions = partitions
        self._delays = delays
        self._image = image

    def of(self, group: DescribeShareGroupOffsetsRequestGroup, context: RequestContext) -> DescribeShareGroupOffsetsResponseGroup:
        try:
            context.require(Operation.DESCRIBE, ResourceType.GROUP, group.group_id)
        except RequestError as error:
            return DescribeShareGroupOffsetsResponseGroup(
                group_id=group.group_id, topics=(), error_code=error.code, error_message=error.message
            )
        names = context.listed(Operation.DESCRIBE, ResourceType.TOPIC, [topic.topic_name for topic in group.topics or ()])
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=group.group_id,
            topics=tuple(self._topic(group.group_id, name) for name in names),
            error_code=ErrorCode.NONE,
            paused=self._partitions.breakers.why_paused(group.group_id),
        )

    def _topic(self, group_id: str, name: str) -> DescribeShareGroupOffsetsResponseTopic:
        topic = self._image().topics.get(name)
        if topic is None:
            return DescribeShareGroupOffsetsResponseTopic(topic_name=name, topic_id=NO_TOPIC_ID, partitions=())
        answers = tuple(
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=led.key.partition,
                start_offset=-1,
                leader_epoch=led.leader_epoch,
                error_code=ErrorCode.NONE,
                in_flight=led.in_flight,
                resting=led.resting,
            )
            for led in self._partitions.all()
            if led.key.group_id == group_id and led.key.topic_id == topic.topic_id
        )
        return DescribeShareGroupOffsetsResponseTopic(
            topic_name=name, topic_id=topic.topic_id, partitions=answers, delayed=self._delayed(topic)
        )

    def _delayed(self, topic: Topic) -> int:
        return sum(
            count
            for led in self._delays.shards.loaded()
            for target, count in led.shard.counts().items()
            if target.topic_id == topic.topic_id
        )

"""OffsetCommit: answered when the offsets are committed in the log.  Partitions that do not exist are refused one by one."""

from collections.abc import Iterator

from headrace.broker.coordinators.groups.coordinator import GroupShards
from headrace.broker.handlers.offsets_to_commit import code_of, find_topic, offsets_to_commit
from headrace.broker.network.dispatch import RequestContext
from headrace.controller.image import CurrentImage, Topic
from headrace.coordination.group.requests import Commit
from headrace.coordination.group.shard import GroupShard
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

FIRST_VERSION_OF_CONSUMER_PROTOCOL = 9
FIRST_VERSION_WITH_TOPIC_IDS = 10


async def handle(
    request: OffsetCommitRequest, context: RequestContext, image: CurrentImage, groups: GroupShards
) -> OffsetCommitResponse:
    by_id = context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
    topics = [find_topic(image(), topic, context, by_id=by_id) for topic in request.topics]
    offsets = tuple(
        offset for asked, topic in zip(request.topics, topics, strict=True) for offset in offsets_to_commit(asked, topic)
    )
    commit = Commit(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id_or_member_epoch,
        offsets=offsets,
        knows_consumer_protocol=context.api_version >= FIRST_VERSION_OF_CONSUMER_PROTOCOL,
        retention_ms=request.retention_time_ms,
    )
    try:
        codes = await groups.ask(request.group_id, GroupShard.commit, commit) if offsets else ()
    except RequestError as error:
        codes = (error.code,) * len(offsets)
    each_code = iter(codes)
    answers = (_answer(asked, topic, each_code) for asked, topic in zip(request.topics, topics, strict=True))
    return OffsetCommitResponse(topics=tuple(answers))


def _answer(asked: OffsetCommitRequestTopic, topic: Topic | ErrorCode, codes: Iterator[ErrorCode]) -> OffsetCommitResponseTopic:
    partitions = tuple(
        OffsetCommitResponsePartition(
            partition_index=partition.partition_index, error_code=code_of(topic, partition.partition_index, codes)
        )
        for partition in asked.partitions
    )
    return OffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id, partitions=partitions)

"""OffsetFetch: committed offsets of one group (until version 7) or of many, by topic name or (from version 10) by id."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from typing import Any
from uuid import UUID

from headrace.broker.coordinators.groups.coordinator import GroupShards
from headrace.broker.network.dispatch import RequestContext
from headrace.controller.image import CurrentImage
from headrace.coordination.group.requests import FetchedOffset, FetchOffsets, OffsetQuery
from headrace.coordination.group.shard import GroupShard
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import NO_TOPIC_ID
from headrace.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

FIRST_VERSION_WITH_GROUP_ERROR = 2
FIRST_VERSION_WITH_MANY = 8
FIRST_VERSION_WITH_TOPIC_IDS = 10
NO_OFFSET = -1


async def handle(
    request: OffsetFetchRequest, context: RequestContext, image: CurrentImage, groups: GroupShards
) -> OffsetFetchResponse:
    if context.api_version >= FIRST_VERSION_WITH_MANY:
        fetched = [await _fetch_group(image, groups, group, context, stable=request.require_stable) for group in request.groups]
        return OffsetFetchResponse(groups=tuple(fetched))
    return await _fetch_one(groups, request, context)


async def _look(groups: GroupShards, fetch: FetchOffsets, context: RequestContext) -> tuple[FetchedOffset, ...]:
    """Of topics that the asker may describe: all there are where none is named, and an error for each other that is."""
    context.require(Operation.DESCRIBE, ResourceType.GROUP, fetch.group_id)
    if fetch.partitions is None:
        fetched = await groups.look(fetch.group_id, GroupShard.fetch_offsets, fetch)
        shown = set(context.listed(Operation.DESCRIBE, ResourceType.TOPIC, {each.topic for each in fetched}))
        return tuple(each for each in fetched if each.topic in shown)
    topics = {query.topic for query in fetch.partitions}
    denied = {name for name in topics if not context.may(Operation.DESCRIBE, ResourceType.TOPIC, name)}
    asked = tuple(query for query in fetch.partitions if query.topic not in denied)
    fetched = await groups.look(fetch.group_id, GroupShard.fetch_offsets, replace(fetch, partitions=asked))
    refused = (
        FetchedOffset(query.topic, query.partition, None, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        for query in fetch.partitions
        if query.topic in denied
    )
    return (*fetched, *refused)


# --- one group, until version 7 ---------------------------------------------------------------------------------------------


async def _fetch_one(groups: GroupShards, request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    queries: tuple[OffsetQuery, ...] | None = None
    if request.topics is not None:
        queries = tuple(OffsetQuery(topic.name, index) for topic in request.topics for index in topic.partition_indexes)
    fetch = FetchOffsets(group_id=request.group_id, partitions=queries, require_stable=request.require_stable)
    try:
        fetched = await _look(groups, fetch, context)
    except RequestError as error:
        if context.api_version >= FIRST_VERSION_WITH_GROUP_ERROR:
            return OffsetFetchResponse(error_code=error.code)
        fetched = tuple(FetchedOffset(query.topic, query.partition, None, error.code) for query in queries or ())
    topics = tuple(
        OffsetFetchResponseTopic(name=name, partitions=tuple(OffsetFetchResponsePartition(**_fields(each)) for each in offsets))
        for name, offsets in groupby(fetched, key=lambda each: each.topic)
    )
    return OffsetFetchResponse(topics=topics)


# --- many groups ------------------------------------------------------------------------------------------------------------


async def _fetch_group(
    image: CurrentImage, groups: GroupShards, group: OffsetFetchRequestGroup, context: RequestContext, *, stable: bool
) -> OffsetFetchResponseGroup:
    by_id = context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
    queries, unknown = _queries(image, group, by_id=by_id)
    fetch = FetchOffsets(
        group_id=group.group_id,
        partitions=queries,
        member_id=group.member_id,
        member_epoch=group.member_epoch,
        require_stable=stable,
    )
    try:
        fetched = await _look(groups, fetch, context)
    except RequestError as error:
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=(), error_code=error.code)
    topics = _topics(image, fetched, by_id=by_id)
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=(*topics, *unknown))


def _queries(
    image: CurrentImage, group: OffsetFetchRequestGroup, *, by_id: bool
) -> tuple[tuple[OffsetQuery, ...] | None, list[OffsetFetchResponseTopics]]:
    """What to ask the coordinator, and answers for ids that no topic has."""
    if group.topics is None:
        return None, []
    queries: list[OffsetQuery] = []
    unknown: list[OffsetFetchResponseTopics] = []
    for asked in group.topics:
        name, topic_id = asked.name, NO_TOPIC_ID
        if by_id:
            topic = image().topics_by_id.get(asked.topic_id)
            if topic is None:
                unknown.append(_unknown_topic(asked.topic_id, asked.partition_indexes))
                continue
            name, topic_id = topic.name, topic.topic_id
        queries += [OffsetQuery(name, index, topic_id) for index in asked.partition_indexes]
    return tuple(queries), unknown


def _unknown_topic(topic_id: UUID, indexes: Iterable[int]) -> OffsetFetchResponseTopics:
    missing = (FetchedOffset("", index, None, ErrorCode.UNKNOWN_TOPIC_ID) for index in indexes)
    partitions = tuple(OffsetFetchResponsePartitions(**_fields(each)) for each in missing)
    return OffsetFetchResponseTopics(topic_id=topic_id, partitions=partitions)


def _topics(image: CurrentImage, fetched: Iterable[FetchedOffset], *, by_id: bool) -> list[OffsetFetchResponseTopics]:
    answers: list[OffsetFetchResponseTopics] = []
    for name, offsets in groupby(fetched, key=lambda each: each.topic):
        topic = image().topics.get(name)
        if by_id and topic is None:
            # Its offsets are still there but nobody can name it by id any more.
            continue
        partitions = tuple(OffsetFetchResponsePartitions(**_fields(each)) for each in offsets)
        topic_id = topic.topic_id if topic is not None else NO_TOPIC_ID
        answers.append(OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=partitions))
    return answers


def _fields(each: FetchedOffset) -> dict[str, Any]:
    value = each.value
    return {
        "partition_index": each.partition,
        "committed_offset": NO_OFFSET if value is None else value.offset,
        "committed_leader_epoch": -1 if value is None else value.leader_epoch,
        "metadata": "" if value is None else value.metadata,
        "error_code": each.error,
    }

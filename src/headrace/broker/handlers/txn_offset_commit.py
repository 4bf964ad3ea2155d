"""TxnOffsetCommit: offsets that count once their transaction commits.  From v5 on it adds the group to the transaction."""

from collections.abc import Iterator

from headrace.broker.coordinators.groups.coordinator import GroupShards
from headrace.broker.handlers.offsets_to_commit import code_of, find_topic, offsets_to_commit
from headrace.broker.network.dispatch import RequestContext
from headrace.broker.partitions.replicas import Replicas
from headrace.broker.partitions.verification import Verification
from headrace.controller.image import CurrentImage, Topic
from headrace.coordination.group.requests import OffsetToCommit, TransactionalCommit
from headrace.coordination.group.shard import GroupShard
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import ProducerIdentity
from headrace.model.names import CONSUMER_OFFSETS
from headrace.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

KNOWS_LOADING_FROM = 2
TOPIC_IDS_FROM = 6


async def handle(
    request: TxnOffsetCommitRequest,
    context: RequestContext,
    image: CurrentImage,
    groups: GroupShards,
    verification: Verification,
    replicas: Replicas,
) -> TxnOffsetCommitResponse:
    by_id = context.api_version >= TOPIC_IDS_FROM
    topics = [find_topic(image(), topic, context, by_id=by_id) for topic in request.topics]
    offsets = tuple(
        offset for asked, topic in zip(request.topics, topics, strict=True) for offset in offsets_to_commit(asked, topic)
    )
    try:
        codes = iter(await _commit(groups, verification, replicas, request, offsets, context.api_version) if offsets else ())
    except RequestError as error:
        codes = iter([_as_known(error.code, context.api_version)] * len(offsets))
    answers = (_answer(asked, topic, codes) for asked, topic in zip(request.topics, topics, strict=True))
    return TxnOffsetCommitResponse(topics=tuple(answers))


async def _commit(
    groups: GroupShards,
    verification: Verification,
    replicas: Replicas,
    request: TxnOffsetCommitRequest,
    offsets: tuple[OffsetToCommit, ...],
    version: int,
) -> tuple[ErrorCode, ...]:
    if not request.group_id:
        raise RequestError(ErrorCode.INVALID_GROUP_ID)
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    index = groups.partition_of(request.group_id)
    if not groups.leads(index):
        raise RequestError(ErrorCode.NOT_COORDINATOR)
    partition = replicas.find(CONSUMER_OFFSETS, index)
    await verification.admit_offsets(partition, producer, request.transactional_id, version)
    commit = TransactionalCommit(
        group_id=request.group_id,
        producer=producer,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id_or_member_epoch,
        offsets=offsets,
    )
    return await groups.ask(request.group_id, GroupShard.commit_transactional, commit)


def _as_known(code: ErrorCode, version: int) -> ErrorCode:
    """The oldest producers break on COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < KNOWS_LOADING_FROM:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code


def _answer(
    asked: TxnOffsetCommitRequestTopic, topic: Topic | ErrorCode, codes: Iterator[ErrorCode]
) -> TxnOffsetCommitResponseTopic:
    partitions = tuple(
        TxnOffsetCommitResponsePartition(
            partition_index=partition.partition_index, error_code=code_of(topic, partition.partition_index, codes)
        )
        for partition in asked.partitions
    )
    return TxnOffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id, partitions=partitions)

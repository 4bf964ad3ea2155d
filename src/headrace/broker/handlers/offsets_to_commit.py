"""What OffsetCommit and TxnOffsetCommit have in common: which of the offsets are of partitions that exist."""

from collections.abc import Iterator, Sequence
from typing import Protocol
from uuid import UUID

from headrace.broker.network.dispatch import RequestContext
from headrace.controller.image import ClusterImage, Topic
from headrace.coordination.group.entries import CommittedOffset
from headrace.coordination.group.requests import OffsetToCommit
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.errors import ErrorCode


class AskedPartition(Protocol):
    """A partition in a request to commit."""

    @property
    def partition_index(self) -> int: ...
    @property
    def committed_offset(self) -> int: ...
    @property
    def committed_leader_epoch(self) -> int: ...
    @property
    def committed_metadata(self) -> str | None: ...


class AskedTopic(Protocol):
    """A topic in a request to commit: by id in newer versions, by name in older ones."""

    @property
    def name(self) -> str: ...
    @property
    def topic_id(self) -> UUID: ...
    @property
    def partitions(self) -> Sequence[AskedPartition]: ...


def find_topic(image: ClusterImage, asked: AskedTopic, context: RequestContext, *, by_id: bool) -> Topic | ErrorCode:
    """The topic, if there is one and its offsets may be committed."""
    topic = image.topics_by_id.get(asked.topic_id) if by_id else image.topics.get(asked.name)
    if topic is None and by_id:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not context.may(Operation.READ, ResourceType.TOPIC, asked.name if topic is None else topic.name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return topic or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def offsets_to_commit(asked: AskedTopic, topic: Topic | ErrorCode) -> Iterator[OffsetToCommit]:
    """The offsets to bring before the coordinator: those of partitions that exist."""
    if not isinstance(topic, Topic):
        return
    for partition in asked.partitions:
        if _exists(topic, partition.partition_index):
            value = CommittedOffset(
                offset=partition.committed_offset,
                leader_epoch=partition.committed_leader_epoch,
                metadata=partition.committed_metadata or "",
                topic_id=topic.topic_id,
            )
            yield OffsetToCommit(topic.name, partition.partition_index, value)


def code_of(topic: Topic | ErrorCode, index: int, codes: Iterator[ErrorCode]) -> ErrorCode:
    """What to tell about one partition; `codes` is the coordinator's word on those brought before it, in their order."""
    if not isinstance(topic, Topic):
        return topic
    return next(codes) if _exists(topic, index) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _exists(topic: Topic, index: int) -> bool:
    return 0 <= index < topic.partition_count

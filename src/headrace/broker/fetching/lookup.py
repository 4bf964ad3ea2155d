"""The partitions that a fetch names, as this broker has them."""

from collections.abc import Callable, Iterable

from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.reading import is_warm
from headrace.broker.partitions.replicas import Replicas
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.fetch import FetchPartition, FetchTopic

# What is wanted of a partition, its replica here, and where there is none, the reason.
Found = tuple[FetchPartition, Partition | None, ErrorCode]
FoundTopic = tuple[FetchTopic, list[Found]]
# Whether the reader may read a topic, asked at each look: a right that is taken away ends fetches that wait.
MayRead = Callable[[FetchTopic], bool]


def look_up(
    replicas: Replicas, topics: Iterable[FetchTopic], *, by_id: bool, may_read: MayRead | None = None
) -> list[FoundTopic]:
    """Every partition that is named, in that order."""
    found_topics: list[FoundTopic] = []
    for topic in topics:
        if may_read is not None and not may_read(topic):
            found_topics.append((topic, [(wanted, None, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for wanted in topic.partitions]))
            continue
        found: list[Found] = []
        for wanted in topic.partitions:
            try:
                if by_id:
                    partition = replicas.find_by_id(topic.topic_id, wanted.partition)
                else:
                    partition = replicas.find(topic.topic, wanted.partition)
            except RequestError as error:
                found.append((wanted, None, error.code))
            else:
                found.append((wanted, partition, ErrorCode.NONE))
        found_topics.append((topic, found))
    return found_topics


def cold_of(found_topics: list[FoundTopic]) -> list[tuple[Partition, FetchPartition]]:
    """What is asked for and may not be in memory."""
    return [
        (partition, wanted)
        for _, found in found_topics
        for wanted, partition, _ in found
        if partition is not None and not is_warm(partition, wanted.fetch_offset)
    ]


def partitions_of(found_topics: list[FoundTopic]) -> list[Partition]:
    return [partition for _, found in found_topics for _, partition, _ in found if partition is not None]

"""The replicas on this broker, by the names and ids of their topics.  What is in here is for `replica_changes` to decide."""

from collections.abc import Iterator
from uuid import UUID

from headrace.broker.partitions.partition import Partition
from headrace.controller.image import CurrentImage
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import TopicPartition


class Replicas:
    """Partitions by name and by id."""

    def __init__(self, image: CurrentImage) -> None:
        self._image = image
        self._topics: dict[str, dict[int, Partition]] = {}

    def find(self, topic: str, index: int) -> Partition:
        """The replica of this partition here; RequestError says what a client should make of it when there is none."""
        try:
            return self._topics[topic][index]
        except KeyError:
            raise RequestError(self._why_missing(topic, index)) from None

    def find_by_id(self, topic_id: UUID, index: int) -> Partition:
        topic = self._image().topics_by_id.get(topic_id)
        if topic is None:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = self.find(topic.name, index)
        if partition.topic_id != topic_id:
            raise RequestError(ErrorCode.INCONSISTENT_TOPIC_ID)
        return partition

    def _why_missing(self, topic: str, index: int) -> ErrorCode:
        known = self._image().partition(topic, index) is not None
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def get(self, identity: TopicPartition) -> Partition | None:
        return self._topics.get(identity.topic, {}).get(identity.partition)

    def __contains__(self, partition: Partition) -> bool:
        """Whether it is this very replica that is served under its name."""
        return self.get(partition.identity) is partition

    def __iter__(self) -> Iterator[Partition]:
        for partitions in list(self._topics.values()):
            yield from list(partitions.values())

    def topics(self) -> list[str]:
        return list(self._topics)

    def of_topic(self, topic: str) -> list[Partition]:
        return list(self._topics.get(topic, {}).values())

    def add(self, partition: Partition) -> None:
        """From now on this one is served under its name."""
        self._topics.setdefault(partition.identity.topic, {})[partition.identity.partition] = partition

    def remove(self, partition: Partition) -> None:
        topic, index = partition.identity
        self._topics.get(topic, {}).pop(index, None)
        if not self._topics.get(topic):
            self._topics.pop(topic, None)

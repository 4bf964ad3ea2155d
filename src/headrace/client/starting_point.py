"""Where reading begins in a partition: what the group has committed, else what the consumer was asked to start from."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaException
from confluent_kafka import Consumer as Librdkafka
from confluent_kafka import TopicPartition as Position

from headrace.client.arguments import Moment, timestamp_ms
from headrace.client.consumer_settings import Start
from headrace.client.errors import TopicNotFound, translate
from headrace.client.offsets import Place, Positions
from headrace.client.turns import Turns


class StartingPoint:
    """Answers for one consumer; `client` and its `turns` are set once there is one."""

    client: Librdkafka
    turns: Turns

    def __init__(self, start: Start, *, grouped: bool, timeout: float, bootstrap: str) -> None:
        self._start = start
        self._grouped = grouped
        self._timeout = timeout
        self._bootstrap = bootstrap

    def __call__(self, partitions: list[Position]) -> list[Position]:
        """The same partitions, each with the offset to read from.  Those left without one are placed by librdkafka."""
        if not self._grouped:
            return self.ignoring_commits(partitions)
        if isinstance(self._start, str):
            return partitions
        committed = {Place(each.topic, each.partition) for each in self._committed(partitions) if each.offset >= 0}
        new = [each for each in partitions if Place(each.topic, each.partition) not in committed]
        old = [each for each in partitions if Place(each.topic, each.partition) in committed]
        return old + self.ignoring_commits(new)

    def ignoring_commits(self, partitions: list[Position]) -> list[Position]:
        if not partitions:
            return []
        if isinstance(self._start, datetime):
            at = self.at_time(places_at(partitions), self._start)
            return [Position(place.topic, place.partition, offset) for place, offset in at.items()]
        offset = (
            {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}[self._start] if isinstance(self._start, str) else self._start
        )
        return [Position(each.topic, each.partition, offset) for each in partitions]

    def at_time(self, places: Iterable[Place], moment: Moment) -> Positions:
        """The first offset at or after a moment; the end where nothing is that new."""
        milliseconds = timestamp_ms("moment", moment)
        try:
            with self.turns:
                found = self.client.offsets_for_times([Position(*place, milliseconds) for place in places], timeout=self._timeout)
        except KafkaException as error:
            raise translate(error.args[0], "find offsets by time", self._bootstrap) from None
        return {Place(each.topic, each.partition): each.offset if each.offset >= 0 else OFFSET_END for each in found}

    def all_partitions(self, topics: list[str]) -> list[Position]:
        return [Position(topic, index) for topic in topics for index in sorted(self._partitions_of(topic))]

    def _partitions_of(self, topic: str) -> Iterable[int]:
        try:
            with self.turns:
                found = self.client.list_topics(topic, timeout=self._timeout).topics[topic]
        except KafkaException as error:
            raise translate(error.args[0], f"ask for the partitions of topic '{topic}'", self._bootstrap) from None
        if found.error is not None:
            raise TopicNotFound(
                f"topic '{topic}' is not there ({found.error.str()})", code=found.error.code(), name=found.error.name()
            )
        partitions: dict[int, object] = found.partitions
        return partitions

    def _committed(self, partitions: list[Position]) -> list[Position]:
        try:
            with self.turns:
                answers: list[Position] = self.client.committed(
                    [Position(each.topic, each.partition) for each in partitions], timeout=self._timeout
                )
            return answers
        except KafkaException as error:
            raise translate(error.args[0], "ask for committed offsets", self._bootstrap) from None


def places_at(partitions: Iterable[Position]) -> list[Place]:
    return [Place(each.topic, each.partition) for each in partitions]

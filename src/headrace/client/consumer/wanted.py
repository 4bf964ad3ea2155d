"""What a consumer was asked to read, and whether it is there.

A topic that is just being created is unknown for a moment; one that stays unknown is an error, or waited for.
"""

from __future__ import annotations

import time
from collections import Counter

from confluent_kafka import TopicPartition as ClientPartition

from headrace.client.consumer.starting_point import StartingPoint
from headrace.client.errors import TopicNotFound
from headrace.client.logs import log
from headrace.model.identity import TopicPartition

UNKNOWN_TOPIC_PATIENCE_S = 1.0  # of a topic that was there, or is waited for


class Wanted:
    """Topics, or single partitions; not both."""

    def __init__(
        self,
        topics: list[str],
        partitions: list[TopicPartition],
        starting_point: StartingPoint,
        *,
        waits_for_topics: bool,
        timeout: float,
    ) -> None:
        self.topics = topics  # names, and patterns that begin with ^
        self._partitions = partitions
        self._starting_point = starting_point
        self._waits_for_topics = waits_for_topics
        self._patience = min(timeout, UNKNOWN_TOPIC_PATIENCE_S)
        self._unknown_since: float | None = None
        self._told_of_missing = False

    def __str__(self) -> str:
        return ", ".join(self.topics) or "the partitions"

    def note_unknown(self) -> None:
        """librdkafka says that one is not there."""
        self._unknown_since = self._unknown_since or time.monotonic()

    def check(self) -> None:
        """TopicNotFound when one has been unknown for a while, and is not waited for."""
        since = self._unknown_since
        if since is None or time.monotonic() - since < self._patience:
            return
        self._unknown_since = None
        if not self.is_there():
            self._unknown_since = time.monotonic()

    def is_there(self) -> bool:
        """False where a topic is missing and is to be waited for; without that, TopicNotFound."""
        try:
            self._starting_point.all_partitions(self._names)
        except TopicNotFound as missing:
            if not self._waits_for_topics:
                raise
            if not self._told_of_missing:
                log.warning("%s", str(missing).partition(";")[0] + "; waiting for it")
                self._told_of_missing = True
            return False
        self._told_of_missing = False
        return True

    @property
    def _names(self) -> list[str]:
        """The topics that are asked for by name, and not by a pattern."""
        return [name for name in self.topics if not name.startswith("^")] or sorted({each.topic for each in self._partitions})

    def located(self) -> list[ClientPartition]:
        """The partitions to read without a group: all of the topics, or those asked for by number.  librdkafka would wait in
        silence for one that is not there."""
        there = self._starting_point.all_partitions(self._names)
        if not self._partitions:
            return there
        counts = Counter(each.topic for each in there)
        for each in self._partitions:
            if not 0 <= each.partition < counts[each.topic]:
                raise TopicNotFound(
                    f"topics={each} does not exist; topic '{each.topic}' has the partitions 0 to {counts[each.topic] - 1}",
                    code=3,
                    name="UNKNOWN_TOPIC_OR_PART",
                )
        return [ClientPartition(each.topic, each.partition) for each in self._partitions]

"""Where reading begins in a partition: what the group has committed, else what the consumer was asked to start from."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from headrace.client.arguments import Moment, timestamp_ms
from headrace.client.consumer.offsets import Positions
from headrace.client.consumer.settings import Start
from headrace.client.errors import NO_TOPIC, InvalidArgument, TopicNotFound, translate
from headrace.client.fair_lock import FairLock
from headrace.client.librdkafka import Consumer as Librdkafka
from headrace.client.logs import log
from headrace.model.identity import TopicPartition

SLICE_S = 0.1
UNKNOWN_TOPIC_PATIENCE_S = 5.0
JUST_CREATED_PATIENCE_S = 0.5


class BeyondTheEnd(InvalidArgument):
    """A partition does not reach as far as the offset asked for.  `positions` is what there is instead, and to be read from by
    who goes on all the same: that offset where there is one, else the end."""

    def __init__(self, message: str, positions: list[ClientPartition]) -> None:
        super().__init__(message)
        self.positions = positions


class StartingPoint:
    """Answers for one consumer; `client` and its `lock` are set once there is one."""

    client: Librdkafka
    lock: FairLock

    def __init__(self, start: Start, *, grouped: bool, timeout: float, bootstrap: str) -> None:
        self._start = start
        self._grouped = grouped
        self._timeout = timeout
        self._bootstrap = bootstrap

    def __call__(self, partitions: list[ClientPartition]) -> list[ClientPartition]:
        """The same partitions, each with the offset to read from.  Those left without one are placed by librdkafka."""
        if not self._grouped:
            return self.ignoring_commits(partitions)
        if isinstance(self._start, str):
            return partitions
        committed = set(places_at(each for each in self._committed(partitions) if each.offset >= 0))
        new = [each for each in partitions if (each.topic, each.partition) not in committed]
        old = [each for each in partitions if (each.topic, each.partition) in committed]
        return old + self.ignoring_commits(new)

    def ignoring_commits(self, partitions: list[ClientPartition]) -> list[ClientPartition]:
        if not partitions:
            return []
        if isinstance(self._start, datetime):
            at = self.at_time(places_at(partitions), self._start)
            return [ClientPartition(place.topic, place.partition, offset) for place, offset in at.items()]
        if isinstance(self._start, int):
            return self._at_offset(partitions, self._start)
        offset = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}[self._start]
        return [ClientPartition(each.topic, each.partition, offset) for each in partitions]

    def _at_offset(self, partitions: list[ClientPartition], offset: int) -> list[ClientPartition]:
        """librdkafka would read what does not reach so far from its beginning."""
        ranges = {place: self.range_of(place) for place in places_at(partitions)}
        located = [
            ClientPartition(*place, offset if offset <= high else OFFSET_END)
            if offset >= low
            else ClientPartition(*place, OFFSET_BEGINNING)
            for place, (low, high) in ranges.items()
        ]
        short = [
            f"{place.topic}[{place.partition}], which has {low} to {high}"
            for place, (low, high) in ranges.items()
            if offset > high
        ]
        if short:
            raise BeyondTheEnd(f"start={offset} is beyond the end of {'; '.join(short)}", located)
        for place, (low, _high) in ranges.items():
            if offset < low:
                log.warning("start=%d is no longer in %s[%d]; reading from its first offset, %d", offset, *place, low)
        return located

    def range_of(self, place: TopicPartition) -> tuple[int, int]:
        """The first offset of a partition, and the one that its next record will get."""
        deadline = time.monotonic() + min(self._timeout, UNKNOWN_TOPIC_PATIENCE_S)
        while True:
            try:
                with self.lock:
                    low, high = self.client.get_watermark_offsets(ClientPartition(*place), timeout=self._timeout, cached=False)
                return low, high
            except KafkaException as error:
                # librdkafka forgets the partitions it knew when it has lost every broker, and knows them again in a moment.
                if error.args[0].name() not in NO_TOPIC or time.monotonic() >= deadline:
                    action = f"ask for the end of {place.topic}[{place.partition}]"
                    raise translate(error.args[0], action, self._bootstrap) from None
            time.sleep(SLICE_S)

    def at_time(self, places: Iterable[TopicPartition], moment: Moment) -> Positions:
        """The first offset at or after a moment; the end where nothing is that new."""
        milliseconds = timestamp_ms("moment", moment)
        try:
            with self.lock:
                found = self.client.offsets_for_times(
                    [ClientPartition(*place, milliseconds) for place in places], timeout=self._timeout
                )
        except KafkaException as error:
            raise translate(error.args[0], "find offsets by time", self._bootstrap) from None
        return {TopicPartition(each.topic, each.partition): each.offset if each.offset >= 0 else OFFSET_END for each in found}

    def all_partitions(self, topics: list[str]) -> list[ClientPartition]:
        return [ClientPartition(topic, index) for topic in topics for index in sorted(self._partitions_of(topic))]

    def _partitions_of(self, topic: str) -> Iterable[int]:
        begun = time.monotonic()
        while True:
            found = self._ask_for(topic, begun + self._timeout)
            # A topic just created is unknown to some brokers for a moment.
            if found is not None and found.error is None:
                partitions: dict[int, object] = found.partitions
                return partitions
            if found is not None and time.monotonic() - begun >= min(self._timeout, JUST_CREATED_PATIENCE_S):
                raise TopicNotFound(self._missing(topic), code=found.error.code(), name=found.error.name())
            time.sleep(SLICE_S)

    def _ask_for(self, topic: str, deadline: float) -> Any:
        """What is known of a topic; None when the connection was lost, and there is time to ask again."""
        try:
            with self.lock:
                return self.client.list_topics(topic, timeout=max(0.1, deadline - time.monotonic())).topics[topic]
        except KafkaException as error:
            if error.args[0].name() == "_TRANSPORT" and time.monotonic() < deadline:
                return None
            raise translate(error.args[0], f"ask for the partitions of topic '{topic}'", self._bootstrap) from None

    def _missing(self, topic: str) -> str:
        """The sentence about a topic that does not exist, with the name that was perhaps meant."""
        near: list[str] = []
        with suppress(KafkaException), self.lock:
            near = get_close_matches(topic, self.client.list_topics(timeout=self._timeout).topics, n=1)
        meant = f"did you mean '{near[0]}'?" if near else "create it, or wait for it with missing_topics='wait'"
        return f"topic '{topic}' does not exist at {self._bootstrap}; {meant}"

    def _committed(self, partitions: list[ClientPartition]) -> list[ClientPartition]:
        try:
            with self.lock:
                answers: list[ClientPartition] = self.client.committed(
                    [ClientPartition(each.topic, each.partition) for each in partitions], timeout=self._timeout
                )
            return answers
        except KafkaException as error:
            raise translate(error.args[0], "ask for committed offsets", self._bootstrap) from None


def places_at(partitions: Iterable[ClientPartition]) -> list[TopicPartition]:
    return [TopicPartition(each.topic, each.partition) for each in partitions]

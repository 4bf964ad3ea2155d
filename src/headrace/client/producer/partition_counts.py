"""How many partitions a producer's topics have: for partitioners in Python, and for partitions asked for by number.

librdkafka knows too, but does not tell; asking it for the metadata of a topic also refreshes what it knows itself, so that
partitions added to a topic can be written to at once.
"""

from __future__ import annotations

import time

from confluent_kafka import KafkaException

from headrace.client.arguments import topic_name, whole_number
from headrace.client.errors import BrokerTimeout, InvalidArgument, TopicNotFound
from headrace.client.librdkafka import Producer as Librdkafka

AGE_S = 60.0
ASK_S = 1.0
AGAIN_S = 0.05
UNKNOWN_TOPIC_PATIENCE_S = 5.0  # a topic that is just being created is unknown for a moment


class PartitionCounts:
    """Asked at most once a minute for each topic, and when a partition is named that was not there before."""

    def __init__(self, client: Librdkafka, bootstrap: str, delivery_timeout: float) -> None:
        self._client = client
        self._bootstrap = bootstrap
        self._patience = min(delivery_timeout, UNKNOWN_TOPIC_PATIENCE_S)
        self._known: dict[str, tuple[int, float]] = {}

    def must_ask(self, topic: str, partition: int | None) -> bool:
        """Whether `of`, or with a partition `existing`, would ask a broker."""
        count, until = self._known.get(topic, (0, 0.0))
        return until < time.monotonic() if partition is None else count <= partition

    def of(self, topic: str) -> int:
        if self.must_ask(topic, None):
            try:
                return self.ask(topic)
            except BrokerTimeout:
                if topic not in self._known:
                    raise
                # The old number is as good as ever: the record can wait for the broker like any other.
                self._known[topic] = self._known[topic][0], time.monotonic() + AGE_S
        return self._known[topic][0]

    def existing(self, topic: str, partition: int) -> int:
        """The partition, if the topic has it."""
        whole_number("partition", partition, at_least=0)
        count = self.ask(topic) if self.must_ask(topic, partition) else self._known[topic][0]
        if partition >= count:
            raise InvalidArgument(f"partition={partition} is not accepted for topic '{topic}'; accepted: 0 to {count - 1}")
        return partition

    def ask(self, topic: str) -> int:
        topic_name("topic", topic)
        deadline = time.monotonic() + self._patience
        while True:
            count, said = self._answer(topic)
            if count:
                self._known[topic] = count, time.monotonic() + AGE_S
                return count
            if time.monotonic() >= deadline:
                break
            time.sleep(AGAIN_S)
        if count == 0:
            raise TopicNotFound(f"topic '{topic}' does not exist ({said})", code=3, name="UNKNOWN_TOPIC_OR_PART")
        raise BrokerTimeout(
            f"could not ask for the partitions of topic '{topic}': no answer from {self._bootstrap} in time ({said})"
        )

    def _answer(self, topic: str) -> tuple[int | None, str]:
        """The number, 0 when the topic is not there, None when nobody answers; and what was said."""
        try:
            found = self._client.list_topics(topic, timeout=min(ASK_S, self._patience)).topics[topic]
        except KafkaException as error:
            return None, error.args[0].str()
        return (0 if found.error is not None else len(found.partitions)), str(found.error)

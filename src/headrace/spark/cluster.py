"""The driver's view of the brokers: topics, their ids and leaders, and where logs begin and end.

Everything goes through the SDK's administration, so every `kafka.*` property (TLS, SASL, …) holds here.  What it lacks is
patience: a broker that is away is asked again until a deadline, after which its error is the caller's.
"""

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, Literal, TypeVar

from headrace.client.admin.admin import Admin
from headrace.client.admin.descriptions import TopicDescription
from headrace.client.errors import BrokerError, BrokerTimeout, InvalidArgument, TopicNotFound
from headrace.client.positions import EARLIEST, LATEST, Position
from headrace.model.identity import TopicPartition
from headrace.spark.options.names import wrong_client_property
from headrace.spark.options.options import Assignment, Subscription, TopicNames, TopicPattern

logger = logging.getLogger("headrace.spark")

CLIENT_ID: Final = "headrace-spark"
REQUEST_SECONDS_MIN: Final = 1.0
RETRY_SECONDS: Final = 0.2

T = TypeVar("T")


class Cluster:
    """Asks the brokers about topics and offsets.  One per reader on the driver; never pickled."""

    def __init__(
        self,
        client: Mapping[str, Any],
        *,
        read_committed: bool = False,
        connect_timeout_ms: int,
        patience_ms: int | None = None,
    ) -> None:
        """`patience_ms`: how long to look for a broker at addresses where none answers; else as long as for an answer."""
        self._isolation: Literal["read_committed", "read_uncommitted"] = (
            "read_committed" if read_committed else "read_uncommitted"
        )
        seconds = max(REQUEST_SECONDS_MIN, connect_timeout_ms / 1000)
        properties = {name: value for name, value in client.items() if name not in CONSUMER_ONLY}
        try:
            self._admin = Admin(
                [address for address in client["bootstrap.servers"].split(",") if address.strip()],
                # Longer than it looks for a broker: what it says of one that is not there says more than librdkafka's time-out.
                timeout=seconds + 1,
                connect_timeout=seconds if patience_ms is None else max(patience_ms / 1000, 0.1),
                client_id=CLIENT_ID,
                librdkafka={"reconnect.backoff.max.ms": 1000} | properties,
            )
        except InvalidArgument as error:
            raise wrong_client_property(str(error)) from None

    def topics(self, subscription: Subscription, timeout_ms: int) -> dict[str, TopicDescription]:
        """The subscribed topics that exist.  Named ones that do not are left out; the caller knows whether that is an error."""
        match subscription:
            case TopicNames(names=names):
                wanted = sorted(names)
            case Assignment(partitions=partitions):
                wanted = sorted({partition.topic for partition in partitions})
            case TopicPattern(expression=expression):
                wanted = [name for name in self.names(timeout_ms) if re.fullmatch(expression, name)]
        return self._ask(lambda: self._admin.topics(wanted), timeout_ms)

    def names(self, timeout_ms: int) -> list[str]:
        """Every topic there is."""
        return self._ask(self._admin.topic_names, timeout_ms)

    def partition_counts(self, timeout_ms: int) -> dict[str, int]:
        """Every topic there is, and how many partitions it has."""
        found = self._ask(lambda: self._admin.topics(internal=True), timeout_ms)
        return {name: len(topic.partitions) for name, topic in found.items()}

    def create(self, topic: str, partitions: int, timeout_ms: int) -> None:
        """Create a topic, replicated as the brokers do it by themselves; somebody may be quicker."""
        self._ask(lambda: self._admin.create_topic(topic, partitions=partitions, exist_ok=True), timeout_ms)

    def earliest(self, partitions: Iterable[TopicPartition], timeout_ms: int) -> dict[TopicPartition, int]:
        """Where each log begins."""
        return self._ends(partitions, EARLIEST, timeout_ms)

    def latest(self, partitions: Iterable[TopicPartition], timeout_ms: int) -> dict[TopicPartition, int]:
        """Where each log ends for a reader of this isolation level."""
        return self._ends(partitions, LATEST, timeout_ms)

    def _ends(self, partitions: Iterable[TopicPartition], position: Position, timeout_ms: int) -> dict[TopicPartition, int]:
        found = self.find(dict.fromkeys(partitions, position), timeout_ms)
        return {partition: offset for partition, offset in found.items() if offset is not None}

    def find(self, positions: Mapping[TopicPartition, Position], timeout_ms: int) -> dict[TopicPartition, int | None]:
        """The offset of each position; None where every record is older than the moment it names."""
        asked = {
            partition: position.number if position.kind == "time" else position.kind
            for partition, position in positions.items()
            if position.kind != "offset"
        }
        found = self._ask(lambda: self._admin.find_offsets(asked, isolation=self._isolation), timeout_ms) if asked else {}
        return found | {partition: position.number for partition, position in positions.items() if position.kind == "offset"}

    def timestamps_never_fall(self, topics: Iterable[str], timeout_ms: int) -> bool:
        """Whether the brokers stamp all these topics themselves, so that timestamps rise with offsets, and we may know it."""
        try:
            settings = [self._ask(partial(self._admin.settings, topic), timeout_ms) for topic in sorted(topics)]
        except BrokerError as error:
            if error.name != "TOPIC_AUTHORIZATION_FAILED":
                raise
            return False
        return all(one["message.timestamp.type"].value == "LogAppendTime" for one in settings)

    def close(self) -> None:
        self._admin.close()

    def _ask(self, question: Callable[[], T], timeout_ms: int) -> T:
        """Ask until there is an answer, a lasting error, or no time left."""
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            try:
                return question()
            except TopicNotFound:
                raise
            except (BrokerTimeout, BrokerError) as error:
                passes = isinstance(error, BrokerTimeout) or error.retriable
                if not passes or time.monotonic() >= deadline:
                    raise
                logger.info("asking again: %s", error)
                time.sleep(RETRY_SECONDS)


# librdkafka warns about consumer properties on an admin client.
CONSUMER_ONLY = frozenset(
    {
        "bootstrap.servers",
        "isolation.level",
        "group.id",
        "fetch.wait.max.ms",
        "fetch.min.bytes",
        "fetch.max.bytes",
        "max.partition.fetch.bytes",
        "fetch.message.max.bytes",
        "max.poll.interval.ms",
        "session.timeout.ms",
        "heartbeat.interval.ms",
        "queued.min.messages",
        "queued.max.messages.kbytes",
        "check.crcs",
        "client.rack",
    }
)

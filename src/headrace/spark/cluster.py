"""The driver's view of the brokers: topics, their ids and leaders, and where logs begin and end.

Everything goes through librdkafka's admin client, so every `kafka.*` property (TLS, SASL, …) holds here.  A broker that is
away is asked again until a deadline; after that one error says who did not answer and why.
"""

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from headrace.model.identity import TopicPartition
from headrace.spark.client_log import client_logger
from headrace.spark.errors import BrokerUnreachableError, TopicMissingError
from headrace.spark.options.names import wrong_client_property
from headrace.spark.options.options import Assignment, Edge, Subscription, TopicNames, TopicPattern

logger = logging.getLogger("headrace.spark")

REQUEST_SECONDS = 10.0
REQUEST_SECONDS_MIN = 1.0
RETRY_SECONDS = 0.2
PASSING_ERRORS = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._RESOLVE,
        KafkaError._WAIT_COORD,
        KafkaError._WAIT_CACHE,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        # A broker that was killed leads in another epoch when it is back, and clients or brokers hear of it a moment later.
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
    }
)
MISSING_ERRORS = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic as the brokers describe it; leaders are `host:port`, None while a partition has none."""

    topic_id: str
    leaders: Mapping[int, str | None]


class Cluster:
    """Asks the brokers about topics and offsets.  One per reader on the driver; never pickled."""

    def __init__(self, client: Mapping[str, str], *, read_committed: bool) -> None:
        self._bootstrap = client["bootstrap.servers"]
        self._isolation = IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED
        self._last_error = ""
        properties: dict[str, Any] = {name: value for name, value in client.items() if name not in CONSUMER_ONLY}
        properties |= {"error_cb": self._remember, "reconnect.backoff.max.ms": 1000}
        try:
            self._admin = AdminClient(properties, logger=client_logger)
        except KafkaException as error:
            raise wrong_client_property(error.args[0].str()) from None

    def topics(self, subscription: Subscription, timeout_ms: int) -> dict[str, Topic]:
        """The subscribed topics that exist.  Named ones that do not are left out; the caller knows whether that is an error."""
        deadline = time.monotonic() + timeout_ms / 1000
        match subscription:
            case TopicNames(names=names):
                wanted = sorted(names)
            case Assignment(partitions=partitions):
                wanted = sorted({partition.topic for partition in partitions})
            case TopicPattern(expression=expression):
                wanted = [name for name in self._names(deadline) if re.fullmatch(expression, name)]
        if not wanted:
            return {}
        return self._ask(lambda seconds: self._describe(wanted, seconds), deadline)

    def names(self, timeout_ms: int) -> list[str]:
        """Every topic there is."""
        return self._names(time.monotonic() + timeout_ms / 1000)

    def _names(self, deadline: float) -> list[str]:
        return sorted(self._ask(lambda seconds: self._admin.list_topics(timeout=seconds), deadline).topics)

    def partition_counts(self, timeout_ms: int) -> dict[str, int]:
        """Every topic there is, and how many partitions it has."""
        found = self._ask(lambda seconds: self._admin.list_topics(timeout=seconds), time.monotonic() + timeout_ms / 1000)
        return {name: len(topic.partitions) for name, topic in found.topics.items()}

    def create(self, topic: str, partitions: int, timeout_ms: int) -> None:
        """Create a topic, replicated as the brokers do it by themselves; somebody may be quicker."""
        wanted = NewTopic(topic, num_partitions=partitions, replication_factor=-1)

        def ask(seconds: float) -> None:
            try:
                self._admin.create_topics([wanted], request_timeout=seconds)[topic].result()
            except KafkaException as failure:
                if failure.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

        self._ask(ask, time.monotonic() + timeout_ms / 1000)

    def edges(self, partitions: Iterable[TopicPartition], edge: Edge, timeout_ms: int) -> dict[TopicPartition, int]:
        """Where each log begins, or ends for a reader of this isolation level."""
        spec = OffsetSpec.earliest() if edge is Edge.EARLIEST else OffsetSpec.latest()
        return self._offsets(dict.fromkeys(partitions, spec), timeout_ms)

    def at_timestamps(self, moments: Mapping[TopicPartition, int], timeout_ms: int) -> dict[TopicPartition, int | None]:
        """The first offset at or after a moment, None where every record is older."""
        specs = {partition: OffsetSpec.for_timestamp(moment) for partition, moment in moments.items()}
        found = self._offsets(specs, timeout_ms)
        return {partition: None if offset < 0 else offset for partition, offset in found.items()}

    def timestamps_never_fall(self, topics: Iterable[str], timeout_ms: int) -> bool:
        """Whether the brokers stamp all these topics themselves, so that timestamps rise with offsets."""
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in sorted(topics)]

        def ask(seconds: float) -> bool:
            answers = self._admin.describe_configs(resources, request_timeout=seconds)
            return all(answer.result()["message.timestamp.type"].value == "LogAppendTime" for answer in answers.values())

        return self._ask(ask, time.monotonic() + timeout_ms / 1000)

    def _describe(self, names: list[str], seconds: float) -> dict[str, Topic]:
        found: dict[str, Topic] = {}
        for name, answer in self._admin.describe_topics(TopicCollection(names), request_timeout=seconds).items():
            try:
                described = answer.result()
            except KafkaException as error:
                if error.args[0].code() in MISSING_ERRORS:
                    continue
                raise
            leaders = {
                one.id: None if one.leader is None else f"{one.leader.host}:{one.leader.port}" for one in described.partitions
            }
            found[name] = Topic(topic_id=str(described.topic_id), leaders=leaders)
        return found

    def _offsets(self, specs: Mapping[TopicPartition, OffsetSpec], timeout_ms: int) -> dict[TopicPartition, int]:
        if not specs:
            return {}
        question = {ClientPartition(partition.topic, partition.partition): spec for partition, spec in specs.items()}

        def ask(seconds: float) -> dict[TopicPartition, int]:
            answers: dict[ClientPartition, Future[Any]] = self._admin.list_offsets(
                question, isolation_level=self._isolation, request_timeout=seconds
            )
            return {TopicPartition(one.topic, one.partition): answer.result().offset for one, answer in answers.items()}

        return self._ask(ask, time.monotonic() + timeout_ms / 1000)

    def _ask(self, question: Callable[[float], T], deadline: float) -> T:
        """Ask until there is an answer, a lasting error, or no time left."""
        while True:
            try:
                return question(max(REQUEST_SECONDS_MIN, min(REQUEST_SECONDS, deadline - time.monotonic())))
            except KafkaException as failure:
                error = failure.args[0]
                if error.code() in MISSING_ERRORS:
                    raise TopicMissingError(f"a topic or partition is not there: {error.str()}") from None
                if error.code() not in PASSING_ERRORS:
                    raise BrokerUnreachableError(f"the brokers at {self._bootstrap} refused a request: {error.str()}") from None
                self._admin.poll(0)  # lets librdkafka say what the trouble was
                if time.monotonic() >= deadline:
                    raise BrokerUnreachableError(
                        f"no broker answered at {self._bootstrap}: {self._last_error or error.str()}"
                    ) from None
                logger.info("asking %s again after %s", self._bootstrap, error.str())
                time.sleep(RETRY_SECONDS)

    def _remember(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN or not self._last_error:
            self._last_error = error.str()


# librdkafka warns about consumer properties on an admin client.
CONSUMER_ONLY = frozenset(
    {
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

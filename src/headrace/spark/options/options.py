"""The options of a source and of a sink, checked whole before anything is asked of a broker."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from headrace.model.identity import TopicPartition
from headrace.spark.errors import OptionError
from headrace.spark.options import option_types
from headrace.spark.options.names import SINK_NAMES, SOURCE_NAMES, SPARK_SINK_NAMES, check_names, client_properties

EARLIEST = -2  # in startingOffsets' JSON
LATEST = -1  # in startingOffsets' and endingOffsets' JSON


@dataclass(frozen=True, slots=True)
class TopicNames:
    """Subscribe to these topics, all partitions, new ones included."""

    names: frozenset[str]

    def names_topic(self, topic: str) -> bool:
        return topic in self.names


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """Subscribe to every topic whose whole name matches, new ones included."""

    expression: str

    def names_topic(self, topic: str) -> bool:
        return re.fullmatch(self.expression, topic) is not None


@dataclass(frozen=True, slots=True)
class Assignment:
    """Read exactly these partitions."""

    partitions: frozenset[TopicPartition]

    def names_topic(self, topic: str) -> bool:
        return any(one.topic == topic for one in self.partitions)


Subscription = TopicNames | TopicPattern | Assignment


class Edge(Enum):
    """An end of the log."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset per partition; EARLIEST and LATEST stand for the ends of the log."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """The first record at or after one moment, in every partition."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    """The first record at or after a moment of its own in each partition."""

    timestamps_ms: Mapping[TopicPartition, int]


OffsetChoice = Edge | AtOffsets | AtTimestamp | AtTimestamps


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Everything a reader was told.  `client` holds librdkafka's properties."""

    client: Mapping[str, str]
    subscription: Subscription
    starting: OffsetChoice
    ending: OffsetChoice
    late_timestamp_means_latest: bool
    offsets_per_trigger_max: int | None
    offsets_per_trigger_min: int | None
    trigger_delay_max_ms: int
    partitions_min: int | None
    records_per_partition_max: int | None
    fail_on_data_loss: bool
    include_headers: bool
    group_id: str | None
    group_id_prefix: str
    poll_timeout_ms: int
    connect_timeout_ms: int
    fetch_with: str

    @property
    def read_committed(self) -> bool:
        return self.client.get("isolation.level", "read_uncommitted") == "read_committed"


def source_options(raw: Mapping[str, str], *, streaming: bool | None) -> SourceOptions:
    """Check and read the options of `spark.read` or `spark.readStream`; with None, what both have in common."""
    check_names(raw, SOURCE_NAMES, "source")
    client = client_properties(raw)
    group_id = option_types.text(raw, "group.id") or client.get("group.id")
    client.pop("group.id", None)
    isolation = client.get("isolation.level")
    if isolation not in (None, "read_committed", "read_uncommitted"):
        raise OptionError(f"option 'kafka.isolation.level' is '{isolation}', but it takes read_committed or read_uncommitted")
    # Spark's source reads uncommitted unless told otherwise, librdkafka reads committed: the former is what moves over.
    client["isolation.level"] = isolation or "read_uncommitted"
    if streaming:
        _refuse_batch_only(raw)
    return SourceOptions(
        client=client,
        subscription=_subscription(raw),
        starting=_position(raw, "starting", Edge.LATEST if streaming else Edge.EARLIEST, streaming=streaming),
        ending=_position(raw, "ending", Edge.LATEST, streaming=streaming),
        late_timestamp_means_latest=option_types.choice(raw, "startingOffsetsByTimestampStrategy", "error", ("error", "latest"))
        == "latest",
        offsets_per_trigger_max=option_types.integer(raw, "maxOffsetsPerTrigger", None, at_least=1),
        offsets_per_trigger_min=option_types.integer(raw, "minOffsetsPerTrigger", None, at_least=1),
        trigger_delay_max_ms=option_types.duration_ms(raw, "maxTriggerDelay", 900_000),
        partitions_min=option_types.integer(raw, "minPartitions", None, at_least=1),
        records_per_partition_max=option_types.integer(raw, "maxRecordsPerPartition", None, at_least=1),
        fail_on_data_loss=option_types.switch(raw, "failOnDataLoss", True),
        include_headers=option_types.switch(raw, "includeHeaders", False),
        group_id=group_id,
        group_id_prefix=option_types.text(raw, "groupIdPrefix") or "headrace-spark",
        poll_timeout_ms=option_types.integer(raw, "kafkaConsumer.pollTimeoutMs", 120_000, at_least=1) or 0,
        connect_timeout_ms=option_types.integer(raw, "connectTimeoutMs", 15_000, at_least=1) or 0,
        fetch_with=option_types.choice(raw, "fetchWith", "auto", ("auto", "direct", "librdkafka")),
    )


def _refuse_batch_only(raw: Mapping[str, str]) -> None:
    for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
        if option_types.text(raw, name) is not None:
            raise OptionError(f"option '{name}' is for batch reads; a stream has no end")


def _subscription(raw: Mapping[str, str]) -> Subscription:
    given = [name for name in ("subscribe", "subscribePattern", "assign") if option_types.text(raw, name) is not None]
    if len(given) != 1:
        found = "none of them is given" if not given else "given are " + " and ".join(given)
        raise OptionError(f"exactly one of the options subscribe, subscribePattern and assign names what to read; {found}")
    value = option_types.text(raw, given[0]) or ""
    if given[0] == "assign":
        return Assignment(option_types.partition_lists("assign", value))
    if given[0] == "subscribePattern":
        try:
            re.compile(value)
        except re.error as error:
            raise OptionError(f"option 'subscribePattern' is '{value}', which is not a regular expression: {error}") from None
        return TopicPattern(value)
    names = frozenset(name.strip() for name in value.split(",") if name.strip())
    if not names:
        raise OptionError(f"option 'subscribe' is '{value}', but it takes topic names separated by commas")
    return TopicNames(names)


def _position(raw: Mapping[str, str], side: str, default: Edge, *, streaming: bool | None) -> OffsetChoice:
    """Spark's order of precedence: one timestamp, timestamps by partition, offsets."""
    moment = option_types.integer(raw, f"{side}Timestamp", None, at_least=0)
    if moment is not None:
        return AtTimestamp(moment)
    name = f"{side}OffsetsByTimestamp"
    value = option_types.text(raw, name)
    if value is not None:
        return AtTimestamps(option_types.partition_numbers(name, value, smallest=0))
    name = f"{side}Offsets"
    value = option_types.text(raw, name)
    if value is None:
        return default
    if value.lower() in ("earliest", "latest"):
        edge = Edge(value.lower())
        if side == "ending" and edge is Edge.EARLIEST:
            raise OptionError("option 'endingOffsets' is 'earliest': a read that ends there reads nothing")
        if side == "starting" and edge is Edge.LATEST and streaming is False:
            raise OptionError("option 'startingOffsets' is 'latest': a batch read that starts there reads nothing")
        return edge
    if not value.startswith("{"):
        raise OptionError(
            f"option '{name}' is '{value}', but it takes earliest, latest or JSON such as {{\"orders\": {{\"0\": 23}}}}"
        )
    offsets = option_types.partition_numbers(name, value, smallest=EARLIEST)
    unusable = EARLIEST if side == "ending" else LATEST if streaming is False else None
    if unusable is not None and unusable in offsets.values():
        raise OptionError(f"option '{name}' has {unusable} for a partition, from which nothing would be read")
    return AtOffsets(offsets)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Everything a writer was told."""

    client: Mapping[str, str]
    topic: str | None
    exactly_once: bool
    delivery_id: str | None
    connect_timeout_ms: int


def sink_options(raw: Mapping[str, str]) -> SinkOptions:
    """Check and read the options of `write` or `writeStream`."""
    check_names(raw, SINK_NAMES + SPARK_SINK_NAMES, "sink")
    if option_types.text(raw, "path") is not None:
        raise OptionError(f"the headrace sink has no path ('{raw['path']}' was given): name the topic by the option 'topic'")
    client = client_properties(raw)
    if client.get("acks", "all") not in ("all", "-1"):
        raise OptionError(f"option 'kafka.acks' is '{client['acks']}', but the sink promises delivery and needs all")
    return SinkOptions(
        client=client,
        topic=option_types.text(raw, "topic"),
        exactly_once=option_types.choice(raw, "delivery", "at-least-once", ("at-least-once", "exactly-once")) == "exactly-once",
        delivery_id=option_types.text(raw, "deliveryId"),
        connect_timeout_ms=option_types.integer(raw, "connectTimeoutMs", 15_000, at_least=1) or 0,
    )

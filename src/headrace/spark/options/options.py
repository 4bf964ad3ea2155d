"""The options of a source and of a sink, checked whole before anything is asked of a broker."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.client.positions import EARLIEST, LATEST, Position
from headrace.model.identity import TopicPartition
from headrace.spark.errors import OptionError
from headrace.spark.options import option_types
from headrace.spark.options.names import SINK_NAMES, SOURCE_NAMES, SPARK_SINK_NAMES, check_names, client_properties
from headrace.spark.schemas.value_format import FORMATS, ValueFormat

# What stands for an end of the log in the JSON of startingOffsets and, the latter, of endingOffsets.
EARLIEST_NUMBER = -2
LATEST_NUMBER = -1


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


# One for every partition, or one for each.
Positions = Position | Mapping[TopicPartition, Position]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Everything a reader was told.  `client` holds librdkafka's properties."""

    client: Mapping[str, Any]
    subscription: Subscription
    starting: Positions
    ending: Positions
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
    value: ValueFormat | None = None

    @property
    def read_committed(self) -> bool:
        return bool(self.client.get("isolation.level", "read_uncommitted") == "read_committed")


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
        starting=_positions(raw, "starting", LATEST if streaming else EARLIEST, streaming=streaming),
        ending=_positions(raw, "ending", LATEST, streaming=streaming),
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
        value=_value_format(raw, _only_topic(raw)),
    )


def _only_topic(raw: Mapping[str, str]) -> str | None:
    found = _subscription(raw)
    names = found.names if isinstance(found, TopicNames) else frozenset()
    if isinstance(found, Assignment):
        names = frozenset(one.topic for one in found.partitions)
    return next(iter(names)) if len(names) == 1 else None


def _value_format(raw: Mapping[str, str], topic: str | None) -> ValueFormat | None:
    if option_types.text(raw, "valueFormat") is None:
        for name in ("valueSubject", "schemaRegistry", "badValues"):
            if option_types.text(raw, name) is not None:
                raise OptionError(f"option '{name}' is given without valueFormat, which takes one of {', '.join(FORMATS)}")
        return None
    subject = option_types.text(raw, "valueSubject")
    if subject is None and topic is None:
        raise OptionError("option 'valueFormat' needs valueSubject beside it where not exactly one topic is named")
    return ValueFormat(
        kind=option_types.choice(raw, "valueFormat", "avro", tuple(FORMATS)),
        registry=option_types.text(raw, "schemaRegistry"),
        subject=subject or f"{topic}-value",
        bad_is_null=option_types.choice(raw, "badValues", "fail", ("fail", "null")) == "null",
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


def _positions(raw: Mapping[str, str], side: str, default: Position, *, streaming: bool | None) -> Positions:
    """Spark's order of precedence: one timestamp, timestamps by partition, offsets."""
    moment = option_types.integer(raw, f"{side}Timestamp", None, at_least=0)
    if moment is not None:
        return Position("time", moment)
    name = f"{side}OffsetsByTimestamp"
    value = option_types.text(raw, name)
    if value is not None:
        moments = option_types.partition_numbers(name, value, smallest=0)
        return {partition: Position("time", found) for partition, found in moments.items()}
    name = f"{side}Offsets"
    value = option_types.text(raw, name)
    if value is None:
        return default
    if value.lower() in ("earliest", "latest"):
        position = EARLIEST if value.lower() == "earliest" else LATEST
        if side == "ending" and position is EARLIEST:
            raise OptionError("option 'endingOffsets' is 'earliest': a read that ends there reads nothing")
        if side == "starting" and position is LATEST and streaming is False:
            raise OptionError("option 'startingOffsets' is 'latest': a batch read that starts there reads nothing")
        return position
    if not value.startswith("{"):
        raise OptionError(
            f"option '{name}' is '{value}', but it takes earliest, latest or JSON such as {{\"orders\": {{\"0\": 23}}}}"
        )
    offsets = option_types.partition_numbers(name, value, smallest=EARLIEST_NUMBER)
    unusable = EARLIEST_NUMBER if side == "ending" else LATEST_NUMBER if streaming is False else None
    if unusable is not None and unusable in offsets.values():
        raise OptionError(f"option '{name}' has {unusable} for a partition, from which nothing would be read")
    ends = {EARLIEST_NUMBER: EARLIEST, LATEST_NUMBER: LATEST}
    return {partition: ends.get(offset) or Position("offset", offset) for partition, offset in offsets.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Everything a writer was told."""

    client: Mapping[str, Any]
    topic: str | None
    exactly_once: bool
    delivery_id: str | None
    connect_timeout_ms: int
    value: ValueFormat | None = None


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
        value=_value_format(raw, option_types.text(raw, "topic")),
    )

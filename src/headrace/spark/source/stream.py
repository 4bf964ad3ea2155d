"""`spark.readStream.format("headrace")`: positions, limits and tasks of micro-batches.

Always: a micro-batch is exactly the offset ranges between two positions of the checkpoint, so run again it gives the same rows;
and the position is committed to the consumer group only after Spark has the batch done.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from headrace.client.errors import InvalidArgument
from headrace.client.librdkafka import Consumer, new_consumer
from headrace.model.identity import TopicPartition
from headrace.spark.client_log import client_logger
from headrace.spark.cluster import Cluster
from headrace.spark.errors import DataLossError, HeadraceSparkError
from headrace.spark.options.options import SourceOptions
from headrace.spark.source.admission import Advance, LogState, advance, position_after
from headrace.spark.source.plan import split
from headrace.spark.source.reader import input_partitions, read_partition
from headrace.spark.source.rows import arrow_schema
from headrace.spark.source.stream_offsets import StreamOffsets, by_topic, ranges_of_batch, read_stream_offsets
from headrace.spark.source.subscription import Subscribed, resolve, subscribed

logger = logging.getLogger("headrace.spark")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives on the driver for as long as the query; `read` alone runs on executors, where only options and schema exist."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = arrow_schema(schema)
        self._planner: _Planner | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_schema": self._schema, "_planner": None}

    @property
    def _planning(self) -> "_Planner":
        if self._planner is None:
            self._planner = _Planner(self._options)
        return self._planner

    def initialOffset(self) -> dict[str, Any]:
        return self._planning.initial().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.offsets_per_trigger_max
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        self._planning.fix_target()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        before = read_stream_offsets(start)
        after = self._planning.next_position(before, limit)
        # What was handed in goes back unchanged when there is nothing new: Spark compares the text.
        return start if after is before else after.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return self._planning.report()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return self._planning.tasks(read_stream_offsets(start), read_stream_offsets(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self._options, self._schema)

    def commit(self, end: dict[str, Any]) -> None:
        self._planning.commit(read_stream_offsets(end))

    def stop(self) -> None:
        if self._planner is not None:
            self._planner.close()


class _Planner:
    """Plans micro-batches, on the driver.  Losing what it keeps between them loses nothing: all of it is asked for again."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._cluster = Cluster(
            options.client, read_committed=options.read_committed, connect_timeout_ms=options.connect_timeout_ms
        )
        self._timeout_ms = options.connect_timeout_ms  # until a broker has answered; from then on it may be away for longer
        self._found: Subscribed | None = None
        self._latest: Mapping[TopicPartition, int] | None = None
        self._target: Mapping[TopicPartition, int] | None = None
        self._last_batch_at = time.monotonic()
        self._group: Consumer | None = None
        self._committed: Mapping[TopicPartition, int] = {}

    def initial(self) -> StreamOffsets:
        found = self._look()
        positions = resolve(self._cluster, self._options, self._options.starting, found.partitions, latest_is_end=False)
        return StreamOffsets(positions=positions, topic_ids=found.topic_ids, planned_at_ms=_now_ms())

    def fix_target(self) -> None:
        """Trigger available-now: whatever is written from here on is for the next run."""
        self._target = self._cluster.latest(self._look(may_be_missing=True).partitions, self._timeout_ms)

    def next_position(self, before: StreamOffsets, limit: ReadLimit) -> StreamOffsets:
        self.commit(before)
        found = self._look(may_be_missing=True)
        before = self._of_this_query(before, found)
        state = LogState(
            topic_ids=found.topic_ids,
            earliest=self._cluster.earliest(found.partitions, self._timeout_ms),
            latest=self._cluster.latest(found.partitions, self._timeout_ms),
        )
        self._latest = state.latest
        ahead = advance(before, state, self._target)
        self._report_losses(ahead.losses)
        if self._waits_for_more(ahead, limit):
            return before
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        after = position_after(before, ahead, state, offsets_max=most, planned_at_ms=_now_ms())
        if after is not before:
            self._last_batch_at = time.monotonic()
        return after

    def tasks(self, start: StreamOffsets, end: StreamOffsets) -> list[InputPartition]:
        options = self._options
        ranges = split(
            ranges_of_batch(start, end), partitions_min=options.partitions_min, records_max=options.records_per_partition_max
        )
        if not ranges:
            return []
        found = self._found or self._look(may_be_missing=True)
        return input_partitions(ranges, found.leaders, now_ms=end.planned_at_ms)

    def report(self) -> dict[str, Any] | None:
        """The ends of the logs, for the query's progress: what is between them and the position is the lag."""
        if self._latest is None:
            return None
        return by_topic(self._latest)

    def commit(self, done: StreamOffsets) -> None:
        """Tell the consumer group how far the query is, so that every Kafka tool shows its lag.  Never fails the query."""
        if self._options.group_id is None or done.positions == self._committed or not done.positions:
            return
        offsets = [ClientPartition(one.topic, one.partition, offset) for one, offset in done.positions.items()]
        try:
            if self._group is None:
                properties = dict(self._options.client) | {"group.id": self._options.group_id} | GROUP_PROPERTIES
                self._group = new_consumer(properties, client_logger)
            self._group.commit(offsets=offsets, asynchronous=True)
            self._committed = dict(done.positions)
        except (KafkaException, InvalidArgument) as error:
            logger.warning("the position could not be committed to group %s: %s", self._options.group_id, error)

    def close(self) -> None:
        self._cluster.close()
        if self._group is not None:
            self._group.close()  # sends what is still to be committed

    def _look(self, *, may_be_missing: bool = False) -> Subscribed:
        self._found = subscribed(self._cluster, self._options, self._timeout_ms, may_be_missing=may_be_missing)
        self._timeout_ms = self._options.poll_timeout_ms
        return self._found

    def _of_this_query(self, before: StreamOffsets, found: Subscribed) -> StreamOffsets:
        """Drop topics that the query no longer subscribes to; refuse a checkpoint that has none of its topics."""
        foreign = sorted(
            topic for topic in before.topics if topic not in found.topics and not self._options.subscription.names_topic(topic)
        )
        if not foreign:
            return before
        if len(foreign) == len(before.topics):
            raise HeadraceSparkError(
                f"the checkpoint is of {', '.join(foreign)}, but the query reads other topics; "
                "give it a checkpointLocation of its own"
            )
        logger.warning("the query no longer subscribes to %s, going on without", ", ".join(foreign))
        return StreamOffsets(
            positions={one: offset for one, offset in before.positions.items() if one.topic not in foreign},
            topic_ids={topic: one for topic, one in before.topic_ids.items() if topic not in foreign},
            begins={one: offset for one, offset in before.begins.items() if one.topic not in foreign},
            planned_at_ms=before.planned_at_ms,
        )

    def _report_losses(self, losses: Sequence[str]) -> None:
        if losses and self._options.fail_on_data_loss:
            raise DataLossError(f"{'; '.join(losses)}; set failOnDataLoss to false to go on without them")
        for loss in losses:
            logger.warning("%s; going on, as failOnDataLoss is false", loss)

    def _waits_for_more(self, ahead: Advance, limit: ReadLimit) -> bool:
        """minOffsetsPerTrigger: too few offsets wait for others, but not for ever, and not when the run is to end."""
        least = self._options.offsets_per_trigger_min
        if (
            least is None
            or self._target is not None
            or (isinstance(limit, ReadAllAvailable) and self._options.offsets_per_trigger_max)
        ):
            return False
        waited_ms = (time.monotonic() - self._last_batch_at) * 1000
        return ahead.offset_count < least and waited_ms < self._options.trigger_delay_max_ms


GROUP_PROPERTIES: dict[str, Any] = {"enable.auto.commit": False, "reconnect.backoff.max.ms": 1000}


def _now_ms() -> int:
    return int(time.time() * 1000)

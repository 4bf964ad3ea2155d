"""What a task does: read one range of offsets and give its rows as Arrow batches.

Directly from the leader where that is possible, through librdkafka otherwise or from the point where the direct way failed.
Both give the same rows (one test runs over both).
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from headrace.client.broker_connection import is_for_librdkafka_only
from headrace.model.identity import TopicPartition
from headrace.spark.cluster import Cluster
from headrace.spark.errors import DataLossError
from headrace.spark.options.options import SourceOptions
from headrace.spark.schemas.value_format import decoded, with_bytes
from headrace.spark.source.plan import OffsetRange
from headrace.spark.source.range_read import DirectFetchFailed, OutOfRange, RangeRead
from headrace.spark.worker_process import settle

logger = logging.getLogger("headrace.spark")


@dataclass(frozen=True)
class RangePartition(InputPartition):
    """One task of a batch, as it travels to an executor."""

    range: OffsetRange
    leader: str | None
    now_ms: int


def input_partitions(
    ranges: list[OffsetRange], leaders: Mapping[TopicPartition, str | None], now_ms: int
) -> list[InputPartition]:
    return [RangePartition(range=one, leader=leaders.get(one.partition), now_ms=now_ms) for one in ranges]


def read_partition(task: InputPartition, options: SourceOptions, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of one task."""
    settle()
    if not isinstance(task, RangePartition):
        return  # Spark's stand-in for "no tasks at all"
    wanted = options.value
    read = RangeRead(
        range=task.range,
        schema=schema if wanted is None else with_bytes(schema),
        client=options.client,
        leader=task.leader,
        now_ms=task.now_ms,
        fail_on_data_loss=options.fail_on_data_loss,
        timeout_ms=options.poll_timeout_ms,
        group_id_prefix=options.group_id_prefix,
        fetch_with=options.fetch_with,
    )
    yield from _all(read) if wanted is None else decoded(_all(read), schema, wanted)


def _all(read: RangeRead) -> Iterator[pa.RecordBatch]:
    try:
        yield from _read(read)
    except OutOfRange as gone:
        yield from _after_loss(read, gone.position)


def _read(read: RangeRead) -> Iterator[pa.RecordBatch]:
    # Here, since the processes that only plan a query would import the decoders for nothing.
    from headrace.spark.source.fetching.direct import read_directly
    from headrace.spark.source.fetching.librdkafka import read_through_librdkafka

    start = read.range.start
    if read.fetch_with == "direct" or (read.fetch_with == "auto" and not is_for_librdkafka_only(read.client)):
        try:
            yield from read_directly(read)
            return
        except DirectFetchFailed as failure:
            logger.info(
                "%s: going on through librdkafka at offset %d: %s", read.range.partition, failure.position, failure.reason
            )
            start = failure.position
    if start < read.range.end:
        yield from read_through_librdkafka(read, start)


def _after_loss(read: RangeRead, position: int) -> Iterator[pa.RecordBatch]:
    """Records of the range are gone: say so, or go on with what is left of it."""
    one = read.range.partition
    with closing(Cluster(read.client, read_committed=read.read_committed, connect_timeout_ms=read.timeout_ms)) as cluster:
        earliest = cluster.earliest([one], read.timeout_ms)[one]
    lost = f"offsets {position} to {min(max(earliest, position), read.range.end)} of {one} are gone"
    if earliest <= position:
        lost = f"{one} ends before offset {position}, which was to be read: its log was cut"
    if read.fail_on_data_loss:
        raise DataLossError(f"{lost}; set failOnDataLoss to false to go on without them")
    logger.warning("%s; going on without them, as failOnDataLoss is false", lost)
    if position < earliest < read.range.end:
        yield from _read(replace(read, range=replace(read.range, start=earliest)))

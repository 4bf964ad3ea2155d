"""`write` and `writeStream` with format("headrace"): what runs on the driver and in each task of the sink."""

import logging
import uuid
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from headrace.spark.errors import DeliveryError
from headrace.spark.options.options import SinkOptions
from headrace.spark.schemas.value_format import encoded
from headrace.spark.sink.at_least_once import write_at_least_once
from headrace.spark.sink.exactly_once import Delivery, write_exactly_once
from headrace.spark.sink.producing import RecordProducer
from headrace.spark.sink.task_report import TaskReport
from headrace.spark.worker_process import settle

logger = logging.getLogger("headrace.spark")

GROUP_PREFIX = "headrace-sink"
QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"


class BatchWriter(DataSourceArrowWriter):
    """One batch job.

    Exactly once holds for the job: its tasks may be retried and run twice.  With `deliveryId` it holds across jobs: one that is
    run again with the same id adds nothing (within foreachBatch: with the same id in the same batch of the same query).
    """

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._job = options.delivery_id or str(uuid.uuid4())
        if options.topic is not None:
            RecordProducer(options.client).require_topic(options.topic, options.connect_timeout_ms)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        settle()
        options = self._options
        iterator = encoded(iterator, options.value)
        if not options.exactly_once:
            return write_at_least_once(iterator, options)
        context = _task()
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        within_query = options.delivery_id is not None and query is not None and batch is not None
        name = f"{GROUP_PREFIX}-{self._job}-{query}" if within_query else f"{GROUP_PREFIX}-{self._job}"
        delivery = Delivery(name=name, batch_id=int(batch or 0) if within_query else 0, task=context.partitionId())
        return write_exactly_once(iterator, options, delivery)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _log(messages, f"job {self._job}")


class StreamWriter(DataSourceStreamArrowWriter):
    """The sink of a streaming query; the query's id, kept in its checkpoint, names what has been delivered."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        settle()
        options = self._options
        iterator = encoded(iterator, options.value)
        if not options.exactly_once:
            return write_at_least_once(iterator, options)
        context = _task()
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        if query is None or batch is None:
            raise DeliveryError(
                "Spark did not say which query and batch this task belongs to, and exactly-once cannot do without"
            )
        delivery = Delivery(name=f"{GROUP_PREFIX}-{query}", batch_id=int(batch), task=context.partitionId())
        return write_exactly_once(iterator, options, delivery)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        _log(messages, f"batch {batchId}")


def _task() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise DeliveryError("exactly-once delivery works inside a Spark task only")
    return context


def _log(messages: Sequence[WriterCommitMessage | None], what: str) -> None:
    written = [message for message in messages if isinstance(message, TaskReport)]
    skipped = sum(message.skipped for message in written)
    rows, size = sum(message.rows for message in written), sum(message.byte_count for message in written)
    logger.info("%s: %d rows, %d bytes written, %d of %d tasks had been written before", what, rows, size, skipped, len(written))

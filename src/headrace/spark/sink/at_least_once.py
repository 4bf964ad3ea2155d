"""At least once: a task's rows are written and acknowledged before the task ends.  Run again, they are written again."""

from collections.abc import Iterator

import pyarrow as pa

from headrace.spark.options.options import SinkOptions
from headrace.spark.sink.outgoing import outgoing
from headrace.spark.sink.pool import Pool
from headrace.spark.sink.producing import RecordProducer
from headrace.spark.sink.task_report import TaskReport

PRODUCERS_MAX = 8
IDLE_SECONDS = 600.0

# By their properties.
_producers: Pool[frozenset[tuple[str, str]], RecordProducer] = Pool(most=PRODUCERS_MAX, idle_seconds=IDLE_SECONDS)


def write_at_least_once(batches: Iterator[pa.RecordBatch], options: SinkOptions) -> TaskReport:
    """Write all rows; returns when every one is acknowledged."""
    key = frozenset(options.client.items())
    # Taken out while in use: after a failure its queue may hold rows of a task that is no more.
    producer = _producers.take(key)
    rows = bytes_written = 0
    for batch in batches:
        for run in outgoing(batch):
            if producer is None:
                producer = RecordProducer(options.client)
            if options.topic is not None:
                producer.require_topic(options.topic, options.connect_timeout_ms)
            producer.send(run, options.topic)
            rows += run.row_count
            bytes_written += run.byte_count
    if producer is not None:
        producer.finish()
        _producers.put(key, producer)
    return TaskReport(rows=rows, byte_count=bytes_written)

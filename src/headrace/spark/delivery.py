"""At least once: a task's rows are written and acknowledged before the task ends.  Run again, they are written again."""

from collections.abc import Iterator

import pyarrow as pa

from headrace.spark.options import SinkOptions
from headrace.spark.outgoing import outgoing
from headrace.spark.producing import RecordProducer
from headrace.spark.written import Written

_producers: dict[frozenset[tuple[str, str]], RecordProducer] = {}  # kept between the tasks of a worker process


def write_at_least_once(batches: Iterator[pa.RecordBatch], options: SinkOptions) -> Written:
    """Write all rows; returns when every one is acknowledged."""
    key = frozenset(options.client.items())
    # Taken out while in use: after a failure its queue may hold rows of a task that is no more.
    producer = _producers.pop(key, None)
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
        _producers[key] = producer
    return Written(rows=rows, byte_count=bytes_written)

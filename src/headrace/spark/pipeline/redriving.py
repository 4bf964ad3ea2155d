"""A batch of dead letters: what goes back, what is put aside, and what stays where it is.

The rule is that of `client/deadletter/redrive.py`: one record that cannot go back stops none of the others.  It stays in the
dead-letter topic, is counted, and is named with the reason.  Where it differs: a stream's checkpoint passes what stays, so the
pipeline does not try it again, as the command does.
"""

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.client.deadletter.redrive import Skipped, no_way_back
from headrace.spark.cluster import Cluster
from headrace.spark.options.options import sink_options

NAMED_MAX = 20
FATE = "why STRING, partition INT"
ORIGIN = "origin"
ORIGIN_PARTITION = "origin_partition"
PARKED = "parked_topic"  # where a record goes that has been sent back often enough; null for the others


def send_back(letters: DataFrame, options: Mapping[str, str], say: Callable[[str], None]) -> DataFrame:
    """Rows for the sink, of letters with `origin`, `origin_partition` and `parked_topic`; what stays is told to `say`."""
    sink = sink_options({name.lower(): value for name, value in options.items()})
    with closing(Cluster(sink.client, connect_timeout_ms=sink.connect_timeout_ms)) as cluster:
        counts = cluster.partition_counts(sink.connect_timeout_ms)
        for row in letters.where(F.col(PARKED).isNotNull()).select("topic", PARKED).distinct().collect():
            if row[PARKED] not in counts:
                cluster.create(row[PARKED], counts.get(row["topic"], 1), sink.connect_timeout_ms)
    decided = letters.withColumn("fate", _fate(counts))
    _name_those_that_stay(decided.where(F.col("fate.why").isNotNull()), say)
    going = decided.where(F.col("fate.why").isNull())
    return going.select(
        F.coalesce(PARKED, ORIGIN).alias("topic"), "key", "value", F.col("fate.partition").alias("partition"), "headers"
    )


def _fate(counts: Mapping[str, int]) -> Column:
    """Why a letter stays, and the partition it goes back to: the one it came from, where the records of its key are."""

    def decide(origin: str | None, partition: int | None, parked: str | None) -> tuple[str | None, int | None]:
        if parked is not None:
            return None, None
        known = origin is not None and partition is not None and 0 <= partition < counts.get(origin, 0)
        return no_way_back(origin or "", counts), partition if known else None

    decision: Any = F.udf(decide, FATE, useArrow=True)
    column: Column = decision(ORIGIN, ORIGIN_PARTITION, PARKED)
    return column


def _name_those_that_stay(stay: DataFrame, say: Callable[[str], None]) -> None:
    places = stay.select("topic", "partition", "offset", F.col("fate.why").alias("why"))
    named = places.take(NAMED_MAX + 1)
    for row in named[:NAMED_MAX]:
        say(f"{Skipped(row['topic'], row['partition'], row['offset'], row['why'])}; it is not sent back")
    if named:
        total = len(named) if len(named) <= NAMED_MAX else places.count()
        say(f"{total:,} record{'s stay' if total > 1 else ' stays'} in the dead-letter topic")

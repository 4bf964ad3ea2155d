"""An archive back into a topic: the keys, values, headers, timestamps, partitions and the order that the records had."""

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.spark.pipeline.target_topic import require_target

DEFAULTS: Mapping[str, Any] = {
    "topic": "",  # which of the archived topics; empty: all
    "from": "",  # only records of this moment or later, such as 2026-01-31T06:00:00Z
    "to": "",  # only records before this moment
    "tasks": 8,  # at most so many partitions are written at the same time
}


def transform(frame: DataFrame, settings: Mapping[str, Any]) -> DataFrame:
    """Rows for the sink.  All records of a partition are in one task and sorted, so they are written in their order."""
    rows = frame.where(F.col("topic") == settings["topic"]) if settings["topic"] else frame
    if settings["from"]:
        rows = rows.where(F.col("timestamp") >= F.to_timestamp(F.lit(settings["from"])))
    if settings["to"]:
        rows = rows.where(F.col("timestamp") < F.to_timestamp(F.lit(settings["to"])))
    together = rows.repartition(int(settings["tasks"]), "topic", "partition").sortWithinPartitions("topic", "partition", "offset")
    return together.select("key", "value", "topic", "partition", "timestamp", "headers")


def prepare(
    rows: DataFrame, settings: Mapping[str, Any], options: Mapping[str, str], say: Callable[[str], None]
) -> DataFrame | None:
    """The rows, once there is a topic with room for them; None when there are none."""
    return rows if require_target(rows, options) else None

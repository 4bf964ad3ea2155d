"""JSON events to count, sum, mean and 95th percentile per key over windows of event time.

An event belongs to the window of its own time, whenever it arrives.  A window is given out once, when the watermark has passed
its end; what comes later than that is dropped and counted.  Windows without events give no row.
"""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

DEFAULTS: Mapping[str, Any] = {
    "key": "key",  # the field to group by
    "value": "value",  # the number to describe
    "time": "time",  # the event's own time
    "window": "4 minutes",
    "slide": "",  # a window begins every so often; empty: windows follow each other
}


def transform(frame: DataFrame, settings: Mapping[str, Any]) -> DataFrame:
    """One row per key and window."""
    number = F.col(settings["value"])
    window = F.window(settings["time"], settings["window"], settings["slide"] or None)
    grouped = frame.groupBy(window.alias("window"), F.col(settings["key"]).alias("key"))
    statistics = grouped.agg(
        F.count(number).alias("count"),
        F.sum(number).alias("sum"),
        F.avg(number).alias("mean"),
        F.percentile_approx(number, 0.95, 1000).alias("p95"),
    )
    bounds = [F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end")]
    return statistics.select("key", *bounds, "count", "sum", "mean", "p95")

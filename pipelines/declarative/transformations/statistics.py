"""Events from a topic, statistics per key and window to another one; format("headrace") at both ends, nothing to register."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

BOOTSTRAP = os.environ.get("HEADRACE_BOOTSTRAP", "127.0.0.1:9092")
EVENTS = os.environ.get("EVENTS_TOPIC", "events")
SCHEMA = "key STRING, value DOUBLE, time TIMESTAMP"

spark = SparkSession.active()


@dp.temporary_view
def events() -> DataFrame:
    """Events that parse, with their own time."""
    records = (
        spark.readStream.format("headrace")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("subscribe", EVENTS)
        .option("startingOffsets", "earliest")
        .load()
    )
    parsed = records.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("event")).select("event.*")
    return parsed.where("key IS NOT NULL AND time IS NOT NULL").withWatermark("time", "10 minutes")


dp.create_sink(
    "statistics",
    "headrace",
    {"kafka.bootstrap.servers": BOOTSTRAP, "topic": f"{EVENTS}.statistics", "delivery": "exactly-once"},
)


@dp.append_flow(target="statistics")
def statistics_flow() -> DataFrame:
    """One record per key and window, when the watermark has passed its end."""
    grouped = spark.readStream.table("events").groupBy(F.window("time", "4 minutes").alias("window"), "key")
    rows = grouped.agg(F.count("value").alias("count"), F.avg("value").alias("mean"))
    return rows.select("key", F.to_json(F.struct("key", "window.start", "window.end", "count", "mean")).alias("value"))

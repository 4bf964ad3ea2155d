"""The questions, each answered by rows of a table: what, and how much."""

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.datasource import ReadAllAvailable

from benchmarks.spark.stage import Stage, WorkerMemory, best_of
from headrace.spark.options import source_options
from headrace.spark.rows import source_schema
from headrace.spark.stream import StreamReader

Row = tuple[str, str]
SIZES = (100, 1024)
RUNS = 3
EMPTY_TRIGGERS = 200


def readers(stage: Stage) -> list[tuple[str, str, dict[str, str]]]:
    """Name, format and options of each way to read."""
    ways = [("headrace", "headrace", {}), ("headrace through librdkafka", "headrace", {"fetchWith": "librdkafka"})]
    if stage.connector is not None:
        ways.append((f"Spark's Kafka connector {stage.connector}", "kafka", {}))
    return ways  # type: ignore[return-value]


def look_at(frame: DataFrame) -> None:
    """Touch every row's key and value, and little more."""
    frame.agg(F.count(F.lit(1)), F.sum(F.length("key") + F.length("value")), F.max("offset")).collect()


def reading(stage: Stage) -> Iterator[Row]:
    """Batch reads: every key and value is looked at"""
    for size in SIZES:
        for name, kind, options in readers(stage):
            seconds = best_of(
                RUNS, lambda kind=kind, options=options, size=size: look_at(batch_frame(stage, kind, size, options))
            )  # type: ignore[misc]
            yield f"{size:>5}-byte records, {name}", per_second(stage.rows(size), seconds)
        path = str(stage.folder / f"parquet-{size}")
        batch_frame(stage, "headrace", size, {}).write.parquet(path)
        seconds = best_of(RUNS, lambda path=path: look_at(stage.spark.read.parquet(path)))  # type: ignore[misc]
        yield f"{size:>5}-byte records, the same as Parquet files", per_second(stage.rows(size), seconds)


def batch_frame(stage: Stage, kind: str, size: int, options: dict[str, str]) -> DataFrame:
    reader = stage.spark.read.format(kind).option("kafka.bootstrap.servers", stage.bootstrap)
    return reader.option("subscribe", stage.topic(size)).options(**options).load()


def streaming(stage: Stage) -> Iterator[Row]:
    """Streaming reads to a sink that drops everything, ten batches"""
    for size in SIZES:
        for name, kind, options in readers(stage):
            seconds = best_of(2, lambda kind=kind, options=options, size=size: drain(stage, kind, size, options))  # type: ignore[misc]
            yield f"{size:>5}-byte records, {name}", per_second(stage.rows(size), seconds)


def drain(stage: Stage, kind: str, size: int, options: dict[str, str]) -> None:
    reader = stage.spark.readStream.format(kind).option("kafka.bootstrap.servers", stage.bootstrap).options(**options)
    reader = reader.option("subscribe", stage.topic(size)).option("startingOffsets", "earliest")
    frame = reader.option("maxOffsetsPerTrigger", stage.rows(size) // 10).load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(stage.folder / uuid.uuid4().hex))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()


def writing(stage: Stage) -> Iterator[Row]:
    """The sink, from rows that Spark makes up"""
    rows = stage.rows(100) // 4
    ways: list[tuple[str, str, dict[str, str]]] = [
        ("headrace at least once", "headrace", {}),
        ("headrace exactly once", "headrace", {"delivery": "exactly-once"}),
    ]
    if stage.connector is not None:
        ways.append((f"Spark's Kafka connector {stage.connector}", "kafka", {}))
    for name, kind, options in ways:
        seconds = best_of(2, lambda kind=kind, options=options: write(stage, rows, kind, options))  # type: ignore[misc]
        yield f"  100-byte records, {name}", per_second(rows, seconds)


def write(stage: Stage, rows: int, kind: str, options: dict[str, str]) -> None:
    frame = stage.spark.range(0, rows, 1, 2).select(
        F.format_string("%08d", F.col("id") % 1000).alias("key"), F.rpad(F.col("id").cast("string"), 92, "x").alias("value")
    )
    writer = frame.write.format(kind).mode("append").option("kafka.bootstrap.servers", stage.bootstrap)
    writer.option("topic", "bench-sink").options(**options).save()


def small(stage: Stage) -> Iterator[Row]:
    """What a stream costs that has nothing to do, and what a worker needs"""
    options = {"kafka.bootstrap.servers": stage.bootstrap, "subscribe": stage.topic(100), "startingoffsets": "latest"}
    reader = StreamReader(source_options(options, streaming=True), source_schema(include_headers=False))
    position = reader.initialOffset()
    began = time.perf_counter()
    for _ in range(EMPTY_TRIGGERS):
        assert reader.latestOffset(position, ReadAllAvailable()) == position
    yield "an empty trigger: asking for new records", f"{(time.perf_counter() - began) / EMPTY_TRIGGERS * 1000:.1f} ms"
    reader.stop()
    yield "a micro-batch of one record, whole", f"{one_record_batch(stage):.0f} ms"
    for size in SIZES:
        with WorkerMemory() as memory:
            look_at(batch_frame(stage, "headrace", size, {}))
        yield f"memory of a Python worker, {size:>5}-byte records", f"{memory.most_mb:.0f} MB"


def one_record_batch(stage: Stage) -> float:
    """The quickest of twenty batches of one record each, from trigger to commit."""
    reader = stage.spark.readStream.format("headrace").option("kafka.bootstrap.servers", stage.bootstrap)
    reader = reader.option("subscribe", stage.topic(100)).option("startingOffsets", "earliest")
    frame = reader.option("maxOffsetsPerTrigger", "1").load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(stage.folder / uuid.uuid4().hex))
    query = writer.start()
    while len(query.recentProgress) < 20:
        time.sleep(0.1)
    query.stop()
    progress: list[Any] = query.recentProgress
    return float(min(one["durationMs"]["triggerExecution"] for one in progress))


def per_second(rows: int, seconds: float) -> str:
    return f"{rows / seconds:,.0f} rows/s"


QUESTIONS: dict[str, Callable[[Stage], Iterator[Row]]] = {
    "reading": reading,
    "streaming": streaming,
    "writing": writing,
    "small": small,
}

"""The questions, each answered by rows of a table: what, how much, and beside Spark's own connector.

What is compared takes turns, round after round, so that whatever else the machine does falls on all alike; the quickest round
of each counts.  CPU is that of the broker, Java and the Python workers together: where all share two cores, it says more than
the clock.
"""

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.datasource import ReadAllAvailable

from benchmarks.spark.stage import Stage, WorkerMemory, cpu_seconds
from headrace.spark.options.options import source_options
from headrace.spark.source.rows import source_schema
from headrace.spark.source.stream import StreamReader

Row = tuple[str, str, str, str]
SIZES = (100, 1024)
ROUNDS = 3
BATCHES = 10
EMPTY_TRIGGERS = 200
SMALL_BATCHES = 20


@dataclass(frozen=True, kw_only=True)
class Way:
    """One of several ways to do the same.  Work that has a clock of its own gives the seconds."""

    name: str
    work: Callable[[], float | None]
    is_peer: bool = False


@dataclass(frozen=True)
class Taken:
    """What one round of it took."""

    seconds: float
    cpu_seconds: float


def compared(rows: int, ways: Sequence[Way], rounds: int = ROUNDS) -> Iterator[Row]:
    """Rows a second, how many times the peer's, and microseconds of CPU for a row."""
    taken: dict[str, list[Taken]] = {way.name: [] for way in ways}
    for _ in range(rounds):
        for way in ways:
            taken[way.name].append(_measured(way.work))
    seconds = {name: min(one.seconds for one in found) for name, found in taken.items()}
    peer = next((seconds[way.name] for way in ways if way.is_peer), None)
    for way in ways:
        cpu = min(one.cpu_seconds for one in taken[way.name]) / rows * 1e6
        ratio = "" if peer is None else f"{peer / seconds[way.name]:.2f}"
        yield way.name, f"{rows / seconds[way.name]:,.0f} rows/s", ratio, f"{cpu:.2f} µs"


def _measured(work: Callable[[], float | None]) -> Taken:
    cpu, began = cpu_seconds(), time.perf_counter()
    own = work()
    return Taken(time.perf_counter() - began if own is None else own, cpu_seconds() - cpu)


def kinds(stage: Stage) -> list[tuple[str, str, dict[str, str]]]:
    """Name, format and options of each way to read."""
    found: list[tuple[str, str, dict[str, str]]] = [
        ("headrace", "headrace", {}),
        ("headrace through librdkafka", "headrace", {"fetchWith": "librdkafka"}),
    ]
    if stage.connector is not None:
        found.append((peer_name(stage), "kafka", {}))
    return found


def peer_name(stage: Stage) -> str:
    return f"Spark's Kafka connector {stage.connector}"


def reading(stage: Stage) -> Iterator[Row]:
    """Batch reads: every key and value is looked at"""
    for size in SIZES:
        ways = [
            Way(name=f"{size:>5} bytes, {name}", work=_look(stage, kind, size, options), is_peer=kind == "kafka")
            for name, kind, options in kinds(stage)
        ]
        path = files(stage, size)
        ways.append(Way(name=f"{size:>5} bytes, Parquet files", work=lambda path=path: look_at(stage.spark.read.parquet(path))))  # type: ignore[misc]
        yield from compared(stage.rows(size), ways)


def _look(stage: Stage, kind: str, size: int, options: dict[str, str]) -> Callable[[], None]:
    return lambda: look_at(batch_frame(stage, kind, size, options))


def look_at(frame: DataFrame) -> None:
    """Touch every row's key and value, and little more."""
    frame.agg(F.count(F.lit(1)), F.sum(F.length("key") + F.length("value")), F.max("offset")).collect()


def batch_frame(stage: Stage, kind: str, size: int, options: dict[str, str]) -> DataFrame:
    reader = stage.spark.read.format(kind).option("kafka.bootstrap.servers", stage.bootstrap)
    return reader.option("subscribe", stage.topic(size)).options(**options).load()


def files(stage: Stage, size: int) -> str:
    """The same rows as Parquet files, four for each of the stream's batches."""
    path = stage.folder / f"parquet-{size}"
    if not path.exists():
        batch_frame(stage, "headrace", size, {"minPartitions": str(4 * BATCHES)}).write.parquet(str(path))
    return str(path)


def streaming(stage: Stage) -> Iterator[Row]:
    """Streaming reads to a sink that drops everything: the time of ten batches, without the query's start"""
    for size in SIZES:
        ways = [
            Way(name=f"{size:>5} bytes, {name}", work=_drain(stage, kind, size, options), is_peer=kind == "kafka")
            for name, kind, options in kinds(stage)
        ]
        path = files(stage, size)
        schema = stage.spark.read.parquet(path).schema
        reader = stage.spark.readStream.schema(schema).option("maxFilesPerTrigger", 4)
        ways.append(
            Way(
                name=f"{size:>5} bytes, Parquet files",
                work=lambda reader=reader, path=path: drain(stage, reader.parquet(path)),  # type: ignore[misc]
            )
        )
        yield from compared(stage.rows(size), ways, rounds=2)


def _drain(stage: Stage, kind: str, size: int, options: dict[str, str]) -> Callable[[], float]:
    most = stage.rows(size) // BATCHES
    return lambda: drain(stage, stream_frame(stage, kind, stage.topic(size), most, options))


def stream_frame(stage: Stage, kind: str, topic: str, most: int, options: dict[str, str]) -> DataFrame:
    reader = stage.spark.readStream.format(kind).option("kafka.bootstrap.servers", stage.bootstrap).options(**options)
    return reader.option("subscribe", topic).option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", most).load()


def drain(stage: Stage, frame: DataFrame) -> float:
    """Read all there is; the seconds from each batch's trigger to its commit, together."""
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(stage.folder / uuid.uuid4().hex))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return sum(one["durationMs"]["triggerExecution"] for one in query.recentProgress) / 1000


def writing(stage: Stage) -> Iterator[Row]:
    """The sink, from rows that Spark makes up"""
    for size in SIZES:
        rows = stage.rows(size) // 4
        options: list[tuple[str, str, dict[str, str]]] = [
            ("headrace at least once", "headrace", {}),
            ("headrace exactly once", "headrace", {"delivery": "exactly-once"}),
        ]
        if stage.connector is not None:
            options.append((f"{peer_name(stage)} (at least once)", "kafka", {}))
        ways = [
            Way(name=f"{size:>5} bytes, {name}", work=_write(stage, rows, size, kind, given), is_peer=kind == "kafka")
            for name, kind, given in options
        ]
        yield from compared(rows, ways)


def _write(stage: Stage, rows: int, size: int, kind: str, options: dict[str, str]) -> Callable[[], None]:
    frame = stage.spark.range(0, rows, 1, 2).select(
        F.format_string("%08d", F.col("id") % 1000).alias("key"), F.rpad(F.col("id").cast("string"), size - 8, "x").alias("value")
    )
    writer = frame.write.format(kind).mode("append").option("kafka.bootstrap.servers", stage.bootstrap)
    return lambda: writer.option("topic", f"bench-sink-{size}").options(**options).save()


def small(stage: Stage) -> Iterator[Row]:
    """What a stream costs that has little or nothing to do, and what a Python worker needs"""
    yield "an empty trigger: asking for new records", f"{empty_trigger_ms(stage):.1f} ms", "", ""
    for name, kind, options in kinds(stage):
        if not options:
            yield f"the start of a query, {name}", f"{start_ms(stage, kind):.0f} ms", "", ""
    of_ours = one_record_batch_ms(stage, "headrace")
    of_peer = one_record_batch_ms(stage, "kafka") if stage.connector is not None else None
    ratio = "" if of_peer is None else f"{of_peer / of_ours:.2f}"
    yield "a micro-batch of one record, whole, headrace", f"{of_ours:.0f} ms", ratio, ""
    if of_peer is not None:
        yield f"a micro-batch of one record, whole, {peer_name(stage)}", f"{of_peer:.0f} ms", "1.00", ""
    for size in SIZES:
        with WorkerMemory() as memory:
            look_at(batch_frame(stage, "headrace", size, {}))
        yield f"memory of a Python worker, {size} bytes", f"{memory.most_mb:.0f} MB", "", ""


def empty_trigger_ms(stage: Stage) -> float:
    options = {"kafka.bootstrap.servers": stage.bootstrap, "subscribe": stage.topic(100), "startingoffsets": "latest"}
    reader = StreamReader(source_options(options, streaming=True), source_schema(include_headers=False))
    position = reader.initialOffset()
    began = time.perf_counter()
    for _ in range(EMPTY_TRIGGERS):
        assert reader.latestOffset(position, ReadAllAvailable()) == position
    taken = time.perf_counter() - began
    reader.stop()
    return taken / EMPTY_TRIGGERS * 1000


def start_ms(stage: Stage, kind: str) -> float:
    """From start() to the end of the first batch, of one record, without the batch itself: the quickest of three."""
    found = []
    for _ in range(3):
        frame = stream_frame(stage, kind, stage.topic(100), 1, {})
        began = time.perf_counter()
        query = frame.writeStream.format("noop").option("checkpointLocation", str(stage.folder / uuid.uuid4().hex)).start()
        while not query.recentProgress:
            time.sleep(0.01)
        found.append((time.perf_counter() - began) * 1000 - query.recentProgress[0]["durationMs"]["triggerExecution"])
        query.stop()
    return min(found)


def one_record_batch_ms(stage: Stage, kind: str) -> float:
    """The quickest of twenty batches of one record each, from trigger to commit."""
    frame = stream_frame(stage, kind, stage.topic(100), 1, {})
    query = frame.writeStream.format("noop").option("checkpointLocation", str(stage.folder / uuid.uuid4().hex)).start()
    while len(query.recentProgress) < SMALL_BATCHES:
        time.sleep(0.1)
    query.stop()
    progress: list[Any] = query.recentProgress
    return float(min(one["durationMs"]["triggerExecution"] for one in progress))


QUESTIONS: dict[str, Callable[[Stage], Iterator[Row]]] = {
    "reading": reading,
    "streaming": streaming,
    "writing": writing,
    "small": small,
}

"""Runs a pipeline: source, parsing, transform, sinks.  The same on a laptop and under spark-submit.

Streaming: one query per pipeline, and a second one for records that do not parse.  A single topic as sink is written by Spark
itself; several sinks, or files, are written batch by batch, each of them so that a batch run again adds nothing.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headrace.spark.audit.report import verdict_text
from headrace.spark.errors import PipelineError
from headrace.spark.pipeline.catalog import Loaded
from headrace.spark.pipeline.file import PipelineFile, Sink
from headrace.spark.pipeline.metrics import OBSERVED, observed_columns
from headrace.spark.pipeline.parsing import dead_letters, good, parse
from headrace.spark.sink.file_sink import FileSink, committed_files

logger = logging.getLogger("headrace.spark")

QUERY_ID = "sql.streaming.queryId"
DEAD_LETTER_QUERY = "dead-letters"
BATCH_GRACE_SECONDS = 15.0
ORDER = ("topic", "partition", "offset")

Say = Callable[[str], None]
Prepare = Callable[[DataFrame, Sink], DataFrame | None]


def nobody_listens(text: str) -> None:
    """For runs that no person watches."""


@dataclass(slots=True)
class Running:
    """The queries of a pipeline that streams; nothing for one that ran as a batch and is done."""

    pipeline: PipelineFile
    queries: list[StreamingQuery] = field(default_factory=list)
    findings: int = 0  # what a report found, for the exit code
    say: Say = nobody_listens

    def stop(self, grace_seconds: float = BATCH_GRACE_SECONDS) -> None:
        """End the queries between two batches if that comes soon; else the batch that runs is dropped and will run again."""
        deadline = time.monotonic() + grace_seconds
        for query in self.queries:
            try:
                while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
                    time.sleep(0.05)
                query.stop()
            except (OSError, Py4JError) as error:
                # Whoever ended us may have ended Java before us: then there is nothing left to stop.
                logger.info("query %s was gone already: %s", query.name, error)

    def last_batches(self) -> dict[str, int]:
        """The last batch of each query that ran one, by the query's id; triggers without records are reported, too."""
        found: dict[str, int] = {}
        for query in self.queries:
            try:
                reports: Sequence[Any] = query.recentProgress
            except (OSError, Py4JError):
                continue
            ran = [int(report["batchId"]) for report in reports if "addBatch" in report["durationMs"]]
            found |= {str(query.id): ran[-1]} if ran else {}
        return found

    @property
    def active(self) -> bool:
        return any(query.isActive for query in self.queries)

    def doing(self) -> str:
        """What each query is at, in Spark's words."""
        prefix = f"{self.pipeline.name}-"
        said = [f"{str(query.name).removeprefix(prefix)}: {query.status['message'].lower()}" for query in self.queries]
        return "; ".join(said)

    def failure(self) -> str | None:
        """The first query's error, in Spark's words."""
        found = (query.exception() for query in self.queries)
        return next((str(error) for error in found if error is not None), None)


def start(spark: SparkSession, pipeline: PipelineFile, loaded: Loaded, say: Say = nobody_listens) -> Running:
    """Start a pipeline's queries, or run it as a batch job to its end.  `say` gets what a person should hear of its work."""
    settings = {**loaded.defaults, **pipeline.settings}
    if not pipeline.streaming:
        return _run_batch(spark, pipeline, loaded, settings, say)
    source = _source(spark, pipeline, group=f"pipeline-{pipeline.name}").observe(OBSERVED, *observed_columns())
    running = Running(pipeline, say=say)
    if pipeline.schema is None:
        frame = source
    else:
        parsed = parse(source, pipeline.schema)
        frame = good(parsed)
        again = _source(spark, pipeline, group=f"pipeline-{pipeline.name}-{DEAD_LETTER_QUERY}")
        running.queries.append(_start_dead_letters(dead_letters(parse(again, pipeline.schema), pipeline), pipeline))
    if pipeline.watermark is not None:
        frame = frame.withWatermark(pipeline.watermark.column, pipeline.watermark.delay)
    results = loaded.transform(frame, settings)
    running.queries.append(_start_main(spark, results, pipeline, _preparer(pipeline, loaded, settings, say)))
    return running


def _preparer(pipeline: PipelineFile, loaded: Loaded, settings: Mapping[str, Any], say: Say) -> Prepare | None:
    """The pipeline's own step between its rows and a topic, for what `transform` cannot do: ask the brokers, tell a person."""
    prepare: Callable[..., DataFrame | None] | None = getattr(loaded.module, "prepare", None)
    if prepare is None:
        return None

    def prepared(rows: DataFrame, sink: Sink) -> DataFrame | None:
        return prepare(rows, settings, sink.options, lambda text: say(f"{pipeline.name}: {text}"))

    return prepared


def _source(spark: SparkSession, pipeline: PipelineFile, *, group: str | None) -> DataFrame:
    """The source as a stream whose position the group shows, or as a batch without one."""
    options = dict(pipeline.source)
    if pipeline.source_format == "parquet":
        return _archive(spark, pipeline, options)
    if pipeline.source_format == "headrace":
        options.setdefault("includeHeaders", "true")
        options.setdefault("kafka.isolation.level", "read_committed")
        if group is not None:
            options.setdefault("startingOffsets", "earliest")
            options["group.id"] = group
    reader: Any = spark.read if group is None else spark.readStream
    return reader.format(pipeline.source_format).options(**options).load()  # type: ignore[no-any-return]


def _archive(spark: SparkSession, pipeline: PipelineFile, options: Mapping[str, str]) -> DataFrame:
    """Exactly the committed rows of a folder that the file sink wrote."""
    path = options.get("path")
    if path is None:
        raise PipelineError(f"{pipeline.path}: [source] with format parquet lacks 'path'")
    if pipeline.streaming:
        raise PipelineError(f"{pipeline.path}: files are read as a batch: set [trigger] batch = true")
    files = committed_files(spark, path)
    if not files:
        raise PipelineError(f"there are no Parquet files under {path}")
    return spark.read.option("basePath", path).parquet(*files)


def _start_dead_letters(letters: DataFrame, pipeline: PipelineFile) -> StreamingQuery:
    writer = letters.writeStream.format("headrace").options(**_same_brokers(pipeline), delivery="exactly-once")
    return _begin(writer, pipeline, DEAD_LETTER_QUERY)


def _same_brokers(pipeline: PipelineFile) -> dict[str, str]:
    """The source's way to its brokers, for the sink of what it could not read."""
    options = {name: value for name, value in pipeline.source.items() if name.startswith("kafka.")}
    options.pop("kafka.isolation.level", None)
    return options


def _start_main(spark: SparkSession, results: DataFrame, pipeline: PipelineFile, prepare: Prepare | None) -> StreamingQuery:
    sinks = pipeline.sinks
    mode = sinks[0].output_mode
    # Spark takes "update" for rows that are handed over batch by batch, and not for a sink written in Python: see sink/modes.py.
    if len(sinks) == 1 and sinks[0].format == "headrace" and prepare is None and mode != "update":
        options = {"delivery": "exactly-once"} | dict(sinks[0].options)
        writer = encoded(results, sinks[0]).writeStream.format("headrace").options(**options)
    else:
        writer = results.writeStream.foreachBatch(_to_all(spark, pipeline, prepare))
    return _begin(writer.outputMode(mode), pipeline, "main")


def _begin(writer: DataStreamWriter, pipeline: PipelineFile, part_name: str) -> StreamingQuery:
    writer = writer.option("checkpointLocation", f"{pipeline.checkpoint}/{part_name}").queryName(f"{pipeline.name}-{part_name}")
    if pipeline.trigger.available_now:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=pipeline.trigger.every or "4 minutes").start()


def _to_all(spark: SparkSession, pipeline: PipelineFile, prepare: Prepare | None) -> Callable[[DataFrame, int], None]:
    """Write a batch to every sink; each remembers by itself what it has."""
    file_sinks = {sink.name: _file_sink(spark, sink) for sink in pipeline.sinks if sink.format == "parquet"}
    for one in file_sinks.values():
        one.finish_merges()

    def write(rows: DataFrame, batch: int) -> None:
        query = str(rows.sparkSession.sparkContext.getLocalProperty(QUERY_ID))
        kept = rows.persist()
        try:
            for sink in pipeline.sinks:
                if sink.name in file_sinks:
                    file_sinks[sink.name].write(kept, query, batch)
                else:
                    ready = kept if prepare is None else prepare(kept, sink)
                    if ready is not None:
                        _write_topic(ready, sink, delivery_id=f"{pipeline.name}-{sink.name}")
        finally:
            kept.unpersist()

    return write


def _file_sink(spark: SparkSession, sink: Sink) -> FileSink:
    assert sink.path is not None, "a file sink's path is checked when the file is read"
    return FileSink(spark, sink.path, partition_by=sink.partition_by, merge_after=sink.merge_after, order_by=ORDER)


def _write_topic(rows: DataFrame, sink: Sink, delivery_id: str | None) -> None:
    options = {"delivery": "exactly-once"} | dict(sink.options)
    if delivery_id is not None:
        options.setdefault("deliveryId", delivery_id)
    encoded(rows, sink).write.format("headrace").mode("append").options(**options).save()


def encoded(rows: DataFrame, sink: Sink) -> DataFrame:
    """Rows as a topic wants them: all columns as one JSON value where the sink says so."""
    if sink.encode is None:
        return rows
    if sink.encode != "json":
        raise PipelineError(f"sink '{sink.name}' has encode '{sink.encode}'; there is json")
    value = F.to_json(F.struct(*rows.columns)).alias("value")
    return rows.select(value) if sink.key is None else rows.select(F.col(sink.key).cast("string").alias("key"), value)


def _run_batch(spark: SparkSession, pipeline: PipelineFile, loaded: Loaded, settings: Mapping[str, Any], say: Say) -> Running:
    source = _source(spark, pipeline, group=None)
    running = Running(pipeline, say=say)
    prepare = _preparer(pipeline, loaded, settings, say)
    frame = source
    if pipeline.schema is not None:
        parsed = parse(source, pipeline.schema)
        frame = good(parsed)
        letters = Sink(name=DEAD_LETTER_QUERY, format="headrace", options=_same_brokers(pipeline))
        _write_topic(dead_letters(parsed, pipeline), letters, delivery_id=None)
    results = loaded.transform(frame, settings)
    for sink in pipeline.sinks:
        match sink.format:
            case "report":
                verdict = loaded.module.report(results, settings, sink.path)
                running.findings += int(verdict)
                say(f"{pipeline.name}: {verdict_text(verdict)}, see {sink.path}/report.md")
            case "parquet":
                rows, count = _counted(results)
                _file_sink(spark, sink).write(rows, f"batch-{spark.sparkContext.applicationId}", 0)
                say(f"{pipeline.name}: {count():,} rows written to {sink.path}")
            case _:
                ready = results if prepare is None else prepare(results, sink)
                rows, count = _counted(results if ready is None else ready)
                if ready is not None:
                    _write_topic(rows, sink, delivery_id=None)
                written = 0 if ready is None else count()
                say(f"{pipeline.name}: {written:,} rows written to {_target(sink)}")
    return running


def _counted(rows: DataFrame) -> tuple[DataFrame, Callable[[], int]]:
    """The rows, and how many of them went through once they are written."""
    seen = Observation()
    return rows.observe(seen, F.count(F.lit(1)).alias("rows")), lambda: int(seen.get["rows"])


def _target(sink: Sink) -> str:
    return f"topic {sink.options['topic']}" if "topic" in sink.options else "the topics they name"

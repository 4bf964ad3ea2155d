"""`write` and `writeStream` with format("headrace") against a real broker."""

import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.readwriter import DataFrameWriter
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headrace.spark.sink.modes import take_kafka_modes
from tests.spark.conftest import FrameReader, RecordWriter, TopicMaker, committed_messages

Values = Callable[..., list[bytes]]


@pytest.fixture
def write(bootstrap: str) -> Callable[..., None]:
    def save(frame: DataFrame, topic: str | None = None, **options: Any) -> None:
        writer = frame.write.format("headrace").mode("append").option("kafka.bootstrap.servers", bootstrap)
        if topic is not None:
            writer = writer.option("topic", topic)
        for name, value in options.items():
            writer = writer.option(name.replace("__", "."), value)
        writer.save()

    return save


@pytest.fixture
def write_stream(bootstrap: str, tmp_path: Path) -> Callable[..., Any]:
    def start(frame: DataFrame, topic: str, checkpoint: str = "checkpoint", **options: Any) -> Any:
        writer = (
            frame.writeStream.format("headrace")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", topic)
            .option("checkpointLocation", str(tmp_path / checkpoint))
        )
        for name, value in options.items():
            writer = writer.option(name.replace("__", "."), value)
        return writer.trigger(availableNow=True).start()

    return start


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_every_column_is_written(
    delivery: str, spark: SparkSession, bootstrap: str, make_topic: TopicMaker, write: Callable[..., None]
) -> None:
    topic = make_topic(3)
    moment = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)
    rows = [
        (b"k", b"v", 2, moment, [("h", b"1"), ("h", None)]),
        (None, None, 1, moment, None),
        (b"", b"", None, moment, []),
    ]
    schema = "key BINARY, value BINARY, partition INT, timestamp TIMESTAMP, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
    write(spark.createDataFrame(rows, schema).coalesce(1), topic, delivery=delivery)

    found = sorted(
        committed_messages(bootstrap, topic, 3), key=lambda message: (message.value() is None, -len(message.value() or b""))
    )

    assert [(message.key(), message.value(), message.headers()) for message in found] == [
        (b"k", b"v", [("h", b"1"), ("h", None)]),
        (b"", b"", None),
        (None, None, None),
    ]
    assert [found[0].partition(), found[2].partition()] == [2, 1]
    assert {message.timestamp()[1] for message in found} == {round(moment.timestamp() * 1000)}


@pytest.mark.parametrize("column", ["partition", "timestamp"])
def test_partition_and_timestamp_are_heeded_without_the_other_columns(
    column: str, spark: SparkSession, bootstrap: str, make_topic: TopicMaker, write: Callable[..., None]
) -> None:
    topic = make_topic(3)
    moment = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)
    rows = [(b"%d" % at, at % 3, moment) for at in range(30)]
    frame = spark.createDataFrame(rows, "value BINARY, partition INT, timestamp TIMESTAMP").coalesce(1)
    write(frame.select("value", column), topic)
    found = committed_messages(bootstrap, topic, 3)

    assert len(found) == 30
    if column == "partition":
        assert [(one.partition(), int(one.value())) for one in found] == sorted((at % 3, at) for at in range(30))
    else:
        assert {one.timestamp()[1] for one in found} == {round(moment.timestamp() * 1000)}


@pytest.mark.parametrize(
    ("partition", "said"), [(7, "{topic}-7 was not written: .*Unknown partition"), (-5, "a row has partition -5, but")]
)
def test_a_partition_that_there_is_not_is_named_and_nothing_is_lost_in_silence(
    partition: int, said: str, spark: SparkSession, make_topic: TopicMaker, write: Callable[..., None]
) -> None:
    topic = make_topic(3)
    frame = spark.createDataFrame([("a", 1), ("b", partition)], "value STRING, partition INT")

    with pytest.raises(Exception, match=said.format(topic=topic)):
        write(frame, topic)


def test_strings_are_written_as_their_bytes_and_the_topic_may_be_a_column(
    spark: SparkSession, make_topic: TopicMaker, write: Callable[..., None], committed_values: Values
) -> None:
    one, other = make_topic(), make_topic()
    write(spark.createDataFrame([(one, "grün"), (other, "blau")], "topic STRING, value STRING"))

    assert committed_values(one) == ["grün".encode()]
    assert committed_values(other) == [b"blau"]


def test_the_topic_option_counts_for_all_rows(
    spark: SparkSession, make_topic: TopicMaker, write: Callable[..., None], committed_values: Values
) -> None:
    one, other = make_topic(), make_topic()
    write(spark.createDataFrame([(other, "a")], "topic STRING, value STRING"), one)

    assert (committed_values(one), committed_values(other)) == ([b"a"], [])


def test_equal_keys_go_where_the_java_client_puts_them(
    spark: SparkSession, bootstrap: str, make_topic: TopicMaker, write: Callable[..., None]
) -> None:
    topic, reference = make_topic(5), make_topic(5)
    java_like = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2"})
    for index in range(30):
        java_like.produce(reference, b"", b"key-%d" % index)
    java_like.flush(30)
    write(spark.range(30).select(F.concat(F.lit("key-"), "id").alias("key"), F.lit("").alias("value")), topic)

    assert _placement(bootstrap, topic) == _placement(bootstrap, reference)


def _placement(bootstrap: str, topic: str) -> dict[bytes, int]:
    return {message.key(): message.partition() for message in committed_messages(bootstrap, topic, 5)}


def test_many_rows_keep_their_order_within_a_task(
    spark: SparkSession, make_topic: TopicMaker, write: Callable[..., None], committed_values: Values
) -> None:
    topic = make_topic()
    write(spark.range(0, 30_000, 1, 1).select(F.col("id").cast("string").alias("value")), topic)

    assert [int(value) for value in committed_values(topic)] == list(range(30_000))


def test_a_stream_is_written_once_even_when_its_batch_runs_again(
    tmp_path: Path,
    make_topic: TopicMaker,
    produce: RecordWriter,
    read_stream: FrameReader,
    write_stream: Callable[..., Any],
    committed_values: Values,
) -> None:
    source, sink = make_topic(2), make_topic(2)
    produce(source, [b"%d" % at for at in range(20)], partition=[at % 2 for at in range(20)])

    def run() -> None:
        frame = read_stream(source, maxOffsetsPerTrigger="12").select("value")
        assert write_stream(frame, sink, delivery="exactly-once").awaitTermination(90)

    run()
    # The driver died after the tasks of batch 1 had committed, before it wrote that down.
    for name in ("1", ".1.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink()
    run()
    produce(source, [b"last"])
    run()

    assert sorted(committed_values(sink, 2)) == sorted([b"%d" % at for at in range(20)] + [b"last"])


def test_at_least_once_writes_a_batch_again_when_it_runs_again(
    tmp_path: Path,
    make_topic: TopicMaker,
    produce: RecordWriter,
    read_stream: FrameReader,
    write_stream: Callable[..., Any],
    committed_values: Values,
) -> None:
    source, sink = make_topic(), make_topic()
    produce(source, [b"a"])
    assert write_stream(read_stream(source).select("value"), sink).awaitTermination(90)
    for name in ("0", ".0.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink()
    assert write_stream(read_stream(source).select("value"), sink).awaitTermination(90)

    assert committed_values(sink) == [b"a", b"a"]


def test_a_batch_job_with_a_delivery_id_adds_nothing_when_run_again(
    spark: SparkSession, make_topic: TopicMaker, write: Callable[..., None], committed_values: Values
) -> None:
    topic, name = make_topic(), str(uuid.uuid4())
    frame = spark.range(0, 10, 1, 2).select(F.col("id").cast("string").alias("value"))

    for _ in range(2):
        write(frame, topic, delivery="exactly-once", deliveryId=name)
    assert len(committed_values(topic)) == 10
    write(frame, topic, delivery="exactly-once")
    assert len(committed_values(topic)) == 20


def test_two_writes_within_one_foreach_batch_both_arrive(
    tmp_path: Path,
    make_topic: TopicMaker,
    produce: RecordWriter,
    read_stream: FrameReader,
    write: Callable[..., None],
    committed_values: Values,
) -> None:
    source, sink = make_topic(), make_topic()
    produce(source, [b"a", b"b"])

    def both(rows: DataFrame, batch: int) -> None:
        for name in ("first", "second"):
            write(rows.select("value"), sink, delivery="exactly-once", deliveryId=name)

    for _ in range(2):
        query = read_stream(source).writeStream.foreachBatch(both).option("checkpointLocation", str(tmp_path / "c"))
        assert query.trigger(availableNow=True).start().awaitTermination(90)
        for name in ("0", ".0.crc"):
            (tmp_path / "c" / "commits" / name).unlink()

    assert sorted(committed_values(sink)) == [b"a", b"a", b"b", b"b"]


class TestModes:
    """Those of Spark's own Kafka sink: rows are appended in all of them."""

    @pytest.fixture(autouse=True)
    def taught(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # So that it is undone: other tests see Spark as it is.
        monkeypatch.setattr(DataFrameWriter, "save", DataFrameWriter.save)
        monkeypatch.setattr(DataStreamWriter, "start", DataStreamWriter.start)
        for _ in range(2):
            take_kafka_modes()

    @pytest.mark.parametrize("mode", [None, "append", "error", "errorifexists"])
    def test_a_batch_is_appended(
        self, mode: str | None, spark: SparkSession, bootstrap: str, make_topic: TopicMaker, committed_values: Values
    ) -> None:
        topic = make_topic()
        frame = spark.createDataFrame([("a",)], "value STRING")
        for _ in range(2):
            writer = frame.write.format("headrace").option("kafka.bootstrap.servers", bootstrap)
            writer.save(mode=mode, topic=topic)

        assert committed_values(topic) == [b"a", b"a"]

    @pytest.mark.parametrize("mode", ["overwrite", "ignore"])
    def test_a_batch_in_another_mode_is_refused(
        self, mode: str, spark: SparkSession, bootstrap: str, make_topic: TopicMaker, committed_values: Values
    ) -> None:
        topic = make_topic()
        writer = spark.createDataFrame([("a",)], "value STRING").write.format("headrace").mode(mode)
        with pytest.raises(Exception, match=r"(?i)append"):
            writer.options(**{"kafka.bootstrap.servers": bootstrap, "topic": topic}).save()
        assert committed_values(topic) == []

    def test_files_are_saved_as_ever(self, spark: SparkSession, tmp_path: Path) -> None:
        frame = spark.range(3)
        frame.write.format("json").save(str(tmp_path / "rows"))
        with pytest.raises(Exception, match="already exists"):
            frame.write.format("json").save(str(tmp_path / "rows"))

    @pytest.mark.parametrize("mode", ["update", "complete"])
    def test_a_stream_of_counts_is_appended(
        self,
        mode: str,
        tmp_path: Path,
        bootstrap: str,
        make_topic: TopicMaker,
        produce: RecordWriter,
        read_stream: FrameReader,
        committed_values: Values,
    ) -> None:
        source, sink = make_topic(), make_topic()

        def run(query_name: str) -> None:
            counts = read_stream(source).groupBy(F.col("value").cast("string").alias("word")).count()
            writer = counts.select(F.concat_ws("=", "word", "count").alias("value")).writeStream.format("headrace")
            writer = writer.options(**{"kafka.bootstrap.servers": bootstrap, "topic": sink, "delivery": "exactly-once"})
            writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
            query = writer.start(outputMode=mode, queryName=query_name)
            assert query.name == query_name
            assert query.awaitTermination(90)

        produce(source, [b"a", b"b"])
        run("first")
        produce(source, [b"a"])
        run("second")
        # The driver died after the tasks of the last batch had committed, before it wrote that down.
        last = max(int(path.name) for path in (tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
        for name in (f"{last}", f".{last}.crc"):
            (tmp_path / "checkpoint" / "commits" / name).unlink()
        run("again")

        again = [b"a=2"] if mode == "update" else [b"a=2", b"b=1"]
        assert sorted(committed_values(sink)) == sorted([b"a=1", b"b=1", *again])

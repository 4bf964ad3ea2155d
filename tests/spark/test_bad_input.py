"""Each mistake gets one clear sentence, and nothing is lost by it."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from tests.spark.conftest import FrameReader, RecordWriter, TopicMaker
from tests.support.callers import wait_for_callers
from tests.support.waiting import until

# A query that starts, or finds its broker again, on a busy machine.
SECONDS_MAX = 120.0


def error_of(action: Callable[[], Any]) -> str:
    with pytest.raises(Exception) as told:
        action()
    return str(told.value)


def test_a_misspelt_option_is_named_at_load_with_the_nearest_one(read: FrameReader, read_stream: FrameReader) -> None:
    said = error_of(lambda: read("t", startingOffset="earliest"))
    streaming = error_of(lambda: read_stream("t", maxOffsetPerTriger="5"))

    assert "option 'startingoffset' is not one of the headrace source's; did you mean 'startingOffsets'?" in said
    assert "did you mean 'maxOffsetsPerTrigger'?" in streaming


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "kafka__securty__protocol",
            "option 'kafka.securty.protocol' is no property of the client; did you mean 'kafka.security.protocol'?",
        ),
        ("kafka__zz__zz", "option 'kafka.zz.zz' is no property of the client; librdkafka's CONFIGURATION.md lists"),
        ("kafka__security__protocol", 'Invalid value "1" for configuration property "security.protocol"'),
    ],
)
def test_a_wrong_client_property_is_named_with_the_nearest_one(
    name: str, said: str, read: FrameReader, make_topic: TopicMaker
) -> None:
    topic = make_topic()

    assert said in error_of(lambda: read(topic, **{name: "1"}).count())


def test_a_topic_that_is_not_there_is_named_with_the_nearest_one(read: FrameReader, make_topic: TopicMaker) -> None:
    topic = make_topic()

    assert f"topic {topic}x not found at" in (said := error_of(lambda: read(f"{topic}x").count()))
    assert f"did you mean {topic}?" in said


def test_a_topic_that_is_not_there_is_named(read: FrameReader, read_stream: FrameReader, tmp_path: Path) -> None:
    def stream() -> None:
        frame = read_stream("no-such-topic")
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        writer.start().awaitTermination(60)

    assert "topic no-such-topic not found at" in error_of(lambda: read("no-such-topic").count())
    assert "topic no-such-topic not found at" in error_of(stream)


def test_a_partition_that_is_not_there_is_named(read: FrameReader, make_topic: TopicMaker) -> None:
    topic = make_topic(2)

    assert f"partition {topic}-7 not found" in error_of(lambda: read(assign=json.dumps({topic: [0, 7]})).count())


def test_without_a_broker_the_address_and_the_reason_are_said_in_one_sentence_in_time(spark: SparkSession) -> None:
    began = time.monotonic()
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "connectTimeoutMs": "1000"}
    reading = error_of(lambda: spark.read.format("headrace").options(subscribe="t", **options).load().count())
    frame = spark.createDataFrame([("a",)], "value STRING")
    writing = error_of(lambda: frame.write.format("headrace").mode("append").options(topic="t", **options).save())

    said = "no broker answers at 127.0.0.1:1 (Connection refused); gave up after 1 s"
    assert said in reading
    assert said in writing
    assert time.monotonic() - began < 60


def test_offsets_out_of_range_are_named_or_moved_to_the_nearest(
    read: FrameReader, make_topic: TopicMaker, produce: RecordWriter
) -> None:
    topic = make_topic()
    produce(topic, [b"a", b"b"])
    beyond = json.dumps({topic: {"0": 7}})

    said = error_of(lambda: read(topic, startingOffsets=beyond).count())
    assert f"option 'startingOffsets' gives offset 7 for {topic}-0, which has offsets 0 to 2" in said
    assert read(topic, startingOffsets=beyond, failOnDataLoss="false").count() == 0


def test_offsets_for_other_partitions_than_are_read_are_named(read: FrameReader, make_topic: TopicMaker) -> None:
    topic = make_topic(2)

    said = error_of(lambda: read(topic, startingOffsets=json.dumps({topic: {"0": 0}})).count())
    assert f"option 'startingOffsets' says nothing of {topic}-1; use -2 for its earliest" in said


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("key STRING", "the headrace sink needs a column 'value'; the frame has key"),
        ("value INT", "column 'value' is int, but the headrace sink takes binary or string there"),
        ("value STRING, headers STRING", "column 'headers' is string, but the headrace sink takes array there"),
        ("value STRING, headers ARRAY<STRING>", "takes array<struct<key:string,value:binary>> there"),
        ("value STRING, partition STRING", "column 'partition' is string, but the headrace sink takes integer or"),
    ],
)
def test_a_frame_that_does_not_fit_the_sink_is_refused_before_anything_runs(
    schema: str, said: str, spark: SparkSession, bootstrap: str, make_topic: TopicMaker
) -> None:
    frame = spark.createDataFrame([], schema)
    topic = make_topic()
    writer = frame.write.format("headrace").mode("append").option("kafka.bootstrap.servers", bootstrap).option("topic", topic)

    assert said in error_of(writer.save)


def test_rows_without_a_topic_and_overwriting_are_refused(spark: SparkSession, bootstrap: str, make_topic: TopicMaker) -> None:
    def writer(frame: DataFrame, mode: str = "append") -> Any:
        return frame.write.format("headrace").mode(mode).option("kafka.bootstrap.servers", bootstrap)

    plain = spark.createDataFrame([("a",)], "value STRING")
    null_topic = spark.createDataFrame([("a", None)], "value STRING, topic STRING")

    assert "set the option 'topic' or give the frame a column 'topic'" in error_of(writer(plain).save)
    assert "a row has no topic" in error_of(writer(null_topic).save)
    assert "a topic is only appended to" in error_of(writer(plain, "overwrite").option("topic", make_topic()).save)


def test_a_column_that_the_source_does_not_have_is_named(spark: SparkSession, bootstrap: str, make_topic: TopicMaker) -> None:
    reader = spark.read.format("headrace").option("kafka.bootstrap.servers", bootstrap).option("subscribe", make_topic())

    assert "the headrace source has no column 'payload'" in error_of(lambda: reader.schema("payload STRING").load().count())
    assert "column 'value' of the headrace source is binary, not string" in error_of(
        lambda: reader.schema("value STRING").load().count()
    )


def test_a_broker_that_goes_away_and_comes_back_is_waited_for(spark: SparkSession, tmp_path: Path) -> None:
    from headrace.testing import Broker

    broker = Broker(data=tmp_path / "data")
    broker.start()
    seen: list[bytes] = []
    options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "t", "startingOffsets": "earliest"}
    try:
        _send(broker.bootstrap, b"before")
        frame = spark.readStream.format("headrace").options(**options).load()
        writer = frame.writeStream.foreachBatch(lambda rows, batch: seen.extend(row.value for row in rows.collect()))
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        _until(lambda: seen == [b"before"])
        broker.stop()
        wait_for_callers(options["kafka.bootstrap.servers"], 2, SECONDS_MAX)
        assert query.isActive
        broker.start()
        _send(broker.bootstrap, b"after")
        _until(lambda: seen == [b"before", b"after"])
        query.stop()
    finally:
        broker.stop()


def _send(bootstrap: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    producer.produce("t", value)
    assert producer.flush(30) == 0


def _until(reached: Callable[[], bool]) -> None:
    until(reached, seconds=SECONDS_MAX, every_s=0.1)

"""`spark.read.format("headrace")` against a real broker."""

import json
import time
from datetime import UTC, datetime, timedelta

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.spark.conftest import FrameReader, RecordWriter, TopicMaker, Transaction, committed_messages
from tests.support.waiting import until

NOW = int(time.time() * 1000)


def values(frame: object) -> list[bytes]:
    return sorted(bytes(row["value"]) for row in frame.select("value").collect())  # type: ignore[attr-defined]


@pytest.mark.parametrize("way", ["direct", "librdkafka"])
def test_all_columns_arrive_whichever_way_they_are_fetched(
    way: str, make_topic: TopicMaker, produce: RecordWriter, read: FrameReader
) -> None:
    topic = make_topic(2)
    produce(
        topic,
        [b"one", None, b"", b"four"],
        keys=[b"k1", None, b"k3", b""],
        partition=[0, 0, 1, 1],
        timestamps=[NOW, NOW + 1, NOW + 2, NOW + 3],
        headers=[[("a", b"1"), ("a", None)], None, [("ü", b"")], None],
    )

    rows = read(topic, includeHeaders="true", fetchWith=way).orderBy("partition", "offset").collect()

    assert [(row.key, row.value, row.partition, row.offset) for row in rows] == [
        (b"k1", b"one", 0, 0),
        (None, None, 0, 1),
        (b"k3", b"", 1, 0),
        (b"", b"four", 1, 1),
    ]
    assert [None if row.headers is None else [(one.key, one.value) for one in row.headers] for row in rows] == [
        [("a", b"1"), ("a", None)],
        None,
        [("ü", b"")],
        None,
    ]
    assert {row.topic for row in rows} == {topic}
    assert {row.timestampType for row in rows} == {0}
    assert read(topic, fetchWith=way).agg(F.unix_millis(F.min("timestamp"))).collect()[0][0] == NOW


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_read(codec: str, make_topic: TopicMaker, bootstrap: str, read: FrameReader) -> None:
    topic = make_topic()
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 50})
    for index in range(500):
        producer.produce(topic, b"value %03d " % index * 5)
    producer.flush(30)

    assert read(topic, fetchWith="direct").agg(F.count("*"), F.countDistinct("value")).collect()[0][:] == (500, 500)


def test_headers_are_there_only_when_asked_for(make_topic: TopicMaker, read: FrameReader) -> None:
    topic = make_topic()

    assert "headers" not in read(topic).columns
    assert read(topic, includeHeaders="true").columns[-1] == "headers"


def test_a_query_may_name_the_columns_it_wants(
    spark: SparkSession, bootstrap: str, make_topic: TopicMaker, produce: RecordWriter
) -> None:
    topic = make_topic()
    produce(topic, [b"a"])

    frame = (
        spark.read.format("headrace")
        .schema("value BINARY, offset LONG")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .load()
    )

    assert [row.asDict() for row in frame.collect()] == [{"value": b"a", "offset": 0}]


def test_offsets_and_timestamps_bound_a_read(make_topic: TopicMaker, produce: RecordWriter, read: FrameReader) -> None:
    topic = make_topic(2)
    for partition in (0, 1):
        produce(
            topic, [b"%d" % index for index in range(10)], partition=partition, timestamps=[NOW + index for index in range(10)]
        )

    offsets = read(
        topic,
        startingOffsets=json.dumps({topic: {"0": 4, "1": -2}}),
        endingOffsets=json.dumps({topic: {"0": 6, "1": -1}}),
    )
    moments = read(topic, startingTimestamp=str(NOW + 3), endingTimestamp=str(NOW + 5))
    by_partition = read(
        topic,
        startingOffsetsByTimestamp=json.dumps({topic: {"0": NOW + 8, "1": NOW + 9}}),
        endingOffsetsByTimestamp=json.dumps({topic: {"0": NOW + 9, "1": NOW + 99}}),
    )

    assert offsets.groupBy("partition").count().orderBy("partition").collect() == [(0, 2), (1, 10)]
    assert values(moments) == [b"3", b"3", b"4", b"4"]
    assert sorted((row.partition, row.value) for row in by_partition.collect()) == [(0, b"8"), (1, b"9")]


def test_a_moment_after_the_last_record_is_an_error_or_the_end_as_the_strategy_says(
    make_topic: TopicMaker, produce: RecordWriter, read: FrameReader
) -> None:
    topic = make_topic()
    produce(topic, [b"a"], timestamps=[NOW])

    with pytest.raises(Exception, match=r"has no record at or after .*; set startingOffsetsByTimestampStrategy to latest"):
        read(topic, startingTimestamp=str(NOW + 1)).count()
    assert read(topic, startingTimestamp=str(NOW + 1), startingOffsetsByTimestampStrategy="latest").count() == 0


def test_topics_are_found_by_pattern_and_partitions_by_assignment(
    make_topic: TopicMaker, produce: RecordWriter, read: FrameReader
) -> None:
    first = make_topic(2)
    second = make_topic(1, name=f"{first}-more")
    produce(first, [b"a", b"b"], partition=[0, 1])
    produce(second, [b"c"])

    assert values(read(subscribePattern=f"{first}.*")) == [b"a", b"b", b"c"]
    assert values(read(assign=json.dumps({first: [1], second: [0]}))) == [b"b", b"c"]
    assert values(read(f"{first},{second}")) == [b"a", b"b", b"c"]


def test_ranges_are_cut_into_exactly_as_many_tasks_as_asked_for(
    make_topic: TopicMaker, produce: RecordWriter, read: FrameReader
) -> None:
    topic = make_topic(2)
    produce(topic, [b"x"] * 100, partition=[0] * 90 + [1] * 10)

    assert read(topic, minPartitions="7").rdd.getNumPartitions() == 7
    assert read(topic, maxRecordsPerPartition="20").rdd.getNumPartitions() == 6
    assert read(topic, minPartitions="7").select("partition", "offset").distinct().count() == 100


@pytest.mark.parametrize("way", ["direct", "librdkafka"])
def test_aborted_transactions_and_markers_neither_show_nor_stall(
    way: str, make_topic: TopicMaker, produce: RecordWriter, transact: Transaction, read: FrameReader
) -> None:
    topic = make_topic()
    transact(topic, [b"a1", b"a2"], commit=False)
    transact(topic, [b"c1", b"c2"], commit=True)
    produce(topic, [b"plain"])
    transact(topic, [b"a3"], commit=False)

    committed = read(topic, kafka__isolation__level="read_committed", fetchWith=way)
    uncommitted = read(topic, fetchWith=way)

    assert values(committed) == [b"c1", b"c2", b"plain"]
    assert values(uncommitted) == [b"a1", b"a2", b"a3", b"c1", b"c2", b"plain"]
    # Ranges that begin and end in the middle of what is hidden.
    assert values(read(topic, kafka__isolation__level="read_committed", fetchWith=way, minPartitions="10")) == [
        b"c1",
        b"c2",
        b"plain",
    ]


def test_records_below_an_open_transaction_only_are_read_committed(
    make_topic: TopicMaker, bootstrap: str, produce: RecordWriter, read: FrameReader
) -> None:
    topic = make_topic()
    produce(topic, [b"before"])
    undecided = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"open-{topic}"})
    undecided.init_transactions(30)
    undecided.begin_transaction()
    undecided.produce(topic, b"undecided")
    undecided.flush(30)
    produce(topic, [b"after"])

    found = values(read(topic, kafka__isolation__level="read_committed"))
    undecided.abort_transaction(30)

    assert found == [b"before"]
    assert values(read(topic, kafka__isolation__level="read_committed")) == [b"after", b"before"]


def test_records_that_expired_are_not_shown(make_topic: TopicMaker, produce: RecordWriter, read: FrameReader) -> None:
    topic = make_topic()
    old = NOW - 3_600_000
    produce(
        topic,
        [b"expired", b"alive", b"without"],
        timestamps=[old, old, old],
        headers=[[("headrace-ttl-ms", b"1000")], [("headrace-ttl-ms", b"86400000")], None],
    )

    assert values(read(topic, fetchWith="direct")) == [b"alive", b"without"]
    assert values(read(topic, fetchWith="librdkafka")) == [b"alive", b"without"]


class TestFilters:
    """Filters become seeks: the tasks' ranges shrink, and the rows are right either way."""

    @pytest.fixture
    def topic(self, make_topic: TopicMaker, produce: RecordWriter) -> str:
        name = make_topic(3)
        for partition in range(3):
            moments = [NOW + at * 1000 for at in range(20)]
            produce(name, [b"%d" % at for at in range(20)], partition=partition, timestamps=moments)
        return name

    def test_on_partition_only_that_partition_is_read(self, topic: str, read: FrameReader) -> None:
        frame = read(topic).where("partition = 1 AND offset < 5")

        assert frame.rdd.getNumPartitions() == 1
        assert [row.offset for row in frame.orderBy("offset").collect()] == [0, 1, 2, 3, 4]

    def test_on_offset_the_range_starts_and_ends_there(self, topic: str, read: FrameReader) -> None:
        frame = read(topic, maxRecordsPerPartition="1").where("offset >= 17 AND partition IN (0, 2)")

        assert frame.rdd.getNumPartitions() == 6
        assert frame.count() == 6

    def test_on_timestamp_the_read_starts_at_the_first_record_that_late(self, topic: str, read: FrameReader) -> None:
        moment = datetime.fromtimestamp(NOW / 1000 + 15, UTC)
        frame = read(topic, maxRecordsPerPartition="1").where(F.col("timestamp") >= F.lit(moment))

        assert frame.rdd.getNumPartitions() == 15
        assert frame.count() == 15

    def test_an_upper_timestamp_seeks_only_where_timestamps_never_fall(
        self, topic: str, make_topic: TopicMaker, produce: RecordWriter, read: FrameReader
    ) -> None:
        stamped = make_topic(1, message_timestamp_type="LogAppendTime")
        produce(stamped, [b"early"] * 3)
        middle = datetime.now(UTC)
        until(lambda: datetime.now(UTC) >= middle + timedelta(milliseconds=2), "the next millisecond")
        produce(stamped, [b"late"] * 3)
        bound = datetime.fromtimestamp(NOW / 1000 + 5, UTC)

        ours = read(topic, maxRecordsPerPartition="2").where(F.col("timestamp") < F.lit(bound))
        theirs = read(stamped, maxRecordsPerPartition="1").where(F.col("timestamp") < F.lit(middle))

        assert (ours.rdd.getNumPartitions(), ours.count()) == (30, 15)
        assert (theirs.rdd.getNumPartitions(), theirs.count()) == (3, 3)

    def test_filters_that_cannot_be_pushed_still_hold(self, topic: str, read: FrameReader) -> None:
        assert read(topic).where("offset = 3 OR partition = 2").count() == 22
        assert read(topic).where("partition = 1 AND value = X'37'").count() == 1
        assert read(topic).where("offset IN (3, 15) AND partition <> 0").count() == 4

    def test_push_down_is_not_missed_where_spark_has_it_off(self, spark: SparkSession, topic: str, read: FrameReader) -> None:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
        try:
            assert read(topic).where("partition = 1 AND offset < 5").count() == 5
        finally:
            spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def test_gaps_that_compaction_left_neither_stall_nor_miscount(spark: SparkSession) -> None:
    from headrace.testing import Broker

    with Broker(memory=False) as broker:
        _write_compacted(broker.bootstrap)
        broker.housekeep()
        kept = [message.offset() for message in committed_messages(broker.bootstrap, "compacted")]

        def offsets(**options: str) -> list[int]:
            given = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "compacted"} | options
            frame = spark.read.format("headrace").options(**given).load()
            return sorted(row.offset for row in frame.select("offset").collect())

        assert kept == [12, 13, 14, 15, 16, 17], "of the closed segments the last value of each key, and the open one"
        assert offsets(fetchWith="direct") == kept
        assert offsets(fetchWith="direct", minPartitions="12") == kept
        assert offsets(fetchWith="librdkafka", minPartitions="12") == kept


def _write_compacted(bootstrap: str) -> None:
    """The same three keys over and over, in segments of their own."""
    configs = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("compacted", 1, 1, config=configs)])["compacted"].result(30)
    producer = Producer({"bootstrap.servers": bootstrap})
    for turn in range(6):
        for key in (b"a", b"b", b"c"):
            producer.produce("compacted", b"%d" % turn, key, timestamp=NOW - 60_000 + turn * 1000)
        assert producer.flush(30) == 0

"""`spark.readStream.format("headrace")` against a real broker."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

from tests.spark.conftest import FrameReader, RecordWriter, TopicMaker, Transaction
from tests.support.waiting import until

IDLE_INTERVAL = "spark.sql.streaming.noDataProgressEventInterval"


class Run:
    """A query that collects what it reads, batch by batch, and can be started again from its checkpoint."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self.batches: dict[int, list[tuple[Any, ...]]] = {}
        self.query: StreamingQuery | None = None

    def start(self, frame: DataFrame, **trigger: Any) -> StreamingQuery:
        def keep(rows: DataFrame, batch: int) -> None:
            found = rows.select("topic", "partition", "offset", "value").collect()
            self.batches[batch] = sorted((row.topic, row.partition, row.offset, bytes(row.value)) for row in found)

        writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(self.checkpoint))
        self.query = writer.trigger(**trigger).start() if trigger else writer.start()
        return self.query

    def drain(self, frame: DataFrame) -> None:
        """Read everything there is, then stop."""
        assert self.start(frame, availableNow=True).awaitTermination(90)

    @property
    def values(self) -> list[bytes]:
        return [row[3] for number in sorted(self.batches) for row in self.batches[number]]


class Looks(StreamingQueryListener):
    """Counts how often a query looked for records and found nothing to do."""

    in_vain = 0

    def onQueryStarted(self, event: QueryStartedEvent) -> None: ...

    def onQueryProgress(self, event: QueryProgressEvent) -> None: ...

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        self.in_vain += 1

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None: ...


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    one = Run(tmp_path / "checkpoint")
    yield one
    if one.query is not None:
        one.query.stop()


def test_a_stopped_query_goes_on_where_it_was(
    run: Run, make_topic: TopicMaker, produce: RecordWriter, read_stream: FrameReader
) -> None:
    topic = make_topic(2)
    produce(topic, [b"a", b"b"], partition=[0, 1])
    run.drain(read_stream(topic))
    produce(topic, [b"c"], partition=1)
    run.drain(read_stream(topic))

    assert run.values == [b"a", b"b", b"c"]


def test_no_batch_holds_more_offsets_than_allowed(
    run: Run, make_topic: TopicMaker, produce: RecordWriter, read_stream: FrameReader
) -> None:
    topic = make_topic(2)
    produce(topic, [b"x"] * 25, partition=[0] * 20 + [1] * 5)

    run.drain(read_stream(topic, maxOffsetsPerTrigger="10"))

    assert [len(run.batches[number]) for number in sorted(run.batches)] == [10, 10, 5]


def test_few_records_wait_for_more(
    run: Run, spark: SparkSession, make_topic: TopicMaker, produce: RecordWriter, read_stream: FrameReader
) -> None:
    topic = make_topic()
    looks = Looks()
    spark.conf.set(IDLE_INTERVAL, "100ms")
    spark.streams.addListener(looks)
    try:
        query = run.start(read_stream(topic, minOffsetsPerTrigger="5", maxTriggerDelay="1h"), processingTime="0 seconds")
        produce(topic, [b"x"] * 2)
        before = looks.in_vain
        _until(lambda: looks.in_vain >= before + 2)  # the one under way may not have seen them
    finally:
        spark.streams.removeListener(looks)
        spark.conf.unset(IDLE_INTERVAL)
    early = list(run.values)
    produce(topic, [b"x"] * 3)
    query.processAllAvailable()

    assert early == []
    assert len(run.values) == 5


def test_few_records_do_not_wait_for_ever(
    run: Run, make_topic: TopicMaker, produce: RecordWriter, read_stream: FrameReader
) -> None:
    topic = make_topic()
    produce(topic, [b"x"])
    run.start(read_stream(topic, minOffsetsPerTrigger="5", maxTriggerDelay="500ms"), processingTime="0 seconds")

    _until(lambda: run.values == [b"x"])


def test_new_partitions_and_topics_of_a_pattern_are_picked_up(
    run: Run, admin: AdminClient, make_topic: TopicMaker, produce: RecordWriter, read_stream: FrameReader
) -> None:
    topic = make_topic()
    produce(topic, [b"a"])
    query = run.start(read_stream(subscribePattern=f"{topic}.*"))
    query.processAllAvailable()
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
    more = make_topic(name=f"{topic}-more")
    produce(topic, [b"b"], partition=1)
    produce(more, [b"c"])

    _until(lambda: len(run.values) == 3)
    assert sorted(run.values) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("way", ["direct", "librdkafka"])
def test_transaction_markers_and_aborts_do_not_stall_the_end_of_a_range(
    way: str, run: Run, make_topic: TopicMaker, transact: Transaction, read_stream: FrameReader
) -> None:
    topic = make_topic()
    transact(topic, [b"c1"], commit=True)
    transact(topic, [b"a1", b"a2"], commit=False)

    frame = read_stream(topic, kafka__isolation__level="read_committed", fetchWith=way, maxOffsetsPerTrigger="2")
    run.drain(frame)
    transact(topic, [b"c2"], commit=True)
    run.drain(frame)

    assert run.values == [b"c1", b"c2"]


def test_a_batch_run_again_gives_the_same_rows(
    run: Run, tmp_path: Path, make_topic: TopicMaker, produce: RecordWriter, read_stream: FrameReader
) -> None:
    topic = make_topic(2)
    produce(topic, [b"%d" % at for at in range(20)], partition=[at % 2 for at in range(20)])
    run.drain(read_stream(topic, maxOffsetsPerTrigger="7"))
    first = dict(run.batches)
    last = max(first)
    # The driver died before it wrote down that the last batch was done; records have come since.
    (run.checkpoint / "commits" / str(last)).unlink()
    (run.checkpoint / "commits" / f".{last}.crc").unlink()
    produce(topic, [b"late"])
    run.batches.clear()
    run.drain(read_stream(topic, maxOffsetsPerTrigger="100"))

    assert run.batches[last] == first[last]
    assert run.batches[last + 1] == [(topic, 0, 10, b"late")]


def test_the_position_is_committed_to_the_group_after_each_batch(
    run: Run, bootstrap: str, make_topic: TopicMaker, produce: RecordWriter, read_stream: FrameReader
) -> None:
    topic, group = make_topic(2), f"lag-of-{time.time_ns()}"
    produce(topic, [b"a", b"b", b"c"], partition=[0, 0, 1])
    run.drain(read_stream(topic, group__id=group))

    _until(lambda: _committed(bootstrap, group, topic, 2) == [2, 1])


def test_progress_shows_where_the_logs_end(
    run: Run, make_topic: TopicMaker, produce: RecordWriter, read_stream: FrameReader
) -> None:
    topic = make_topic()
    produce(topic, [b"x"] * 8)
    run.drain(read_stream(topic, maxOffsetsPerTrigger="5"))

    assert run.query is not None
    first = run.query.recentProgress[0]["sources"][0]
    end, latest = json.loads(first["endOffset"]), json.loads(first["latestOffset"])
    assert (end[topic], latest[topic]) == ({"0": 5}, {"0": 8})


class TestLostData:
    """What aged out, was cut or was created again."""

    def test_records_that_aged_out_fail_the_query_by_name(
        self, run: Run, admin: AdminClient, make_topic: TopicMaker, produce: RecordWriter, read_stream: FrameReader
    ) -> None:
        topic = _with_aged_out_records(run, admin, make_topic, produce, read_stream)

        with pytest.raises(Exception, match=rf"offsets 2 to 4 of {topic}-0 aged out before they were read; set failOnDataLoss"):
            run.drain(read_stream(topic))

    def test_records_that_aged_out_are_skipped_where_that_is_allowed(
        self, run: Run, admin: AdminClient, make_topic: TopicMaker, produce: RecordWriter, read_stream: FrameReader
    ) -> None:
        topic = _with_aged_out_records(run, admin, make_topic, produce, read_stream)

        run.drain(read_stream(topic, failOnDataLoss="false"))

        assert [row[2] for number in sorted(run.batches) for row in run.batches[number]] == [0, 1, 4, 5]

    def test_a_topic_created_again_is_recognised_by_its_id(
        self,
        run: Run,
        make_topic: TopicMaker,
        delete_topic: Callable[[str], None],
        produce: RecordWriter,
        read_stream: FrameReader,
    ) -> None:
        topic = make_topic()
        produce(topic, [b"old"] * 2)
        run.drain(read_stream(topic))
        delete_topic(topic)
        _create_again(make_topic, topic)
        produce(topic, [b"new"] * 5)

        with pytest.raises(Exception, match=f"topic {topic} was deleted and created again"):
            run.drain(read_stream(topic))
        run.drain(read_stream(topic, failOnDataLoss="false"))
        assert run.values == [b"old"] * 2 + [b"new"] * 5

    def test_a_deleted_topic_fails_the_query(
        self,
        run: Run,
        make_topic: TopicMaker,
        delete_topic: Callable[[str], None],
        produce: RecordWriter,
        read_stream: FrameReader,
    ) -> None:
        topic = make_topic()
        produce(topic, [b"old"])
        run.drain(read_stream(topic))
        delete_topic(topic)

        with pytest.raises(Exception, match=f"{topic}-0 is gone"):
            run.drain(read_stream(topic))

    def test_a_checkpoint_of_another_topic_is_refused(
        self, run: Run, make_topic: TopicMaker, produce: RecordWriter, read_stream: FrameReader
    ) -> None:
        one, other = make_topic(), make_topic()
        produce(one, [b"a"])
        run.drain(read_stream(one))

        with pytest.raises(Exception, match=f"the checkpoint is of {one}, but the query reads other topics"):
            run.drain(read_stream(other))


def _with_aged_out_records(
    run: Run, admin: AdminClient, make_topic: TopicMaker, produce: RecordWriter, read_stream: FrameReader
) -> str:
    """A query that stands at offset 2 of a log that now begins at 4."""
    topic = make_topic()
    produce(topic, [b"x"] * 2)
    run.drain(read_stream(topic))
    produce(topic, [b"x"] * 4)
    admin.delete_records([TopicPartition(topic, 0, 4)])[TopicPartition(topic, 0, 4)].result(30)
    return topic


def _create_again(make_topic: TopicMaker, topic: str) -> None:
    """A deleted topic's name is free after a moment."""

    def is_created() -> bool:
        try:
            make_topic(name=topic)
        except KafkaException:
            return False
        return True

    until(is_created, f"{topic} is created again")


def _committed(bootstrap: str, group: str, topic: str, partitions: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    found = consumer.committed([TopicPartition(topic, number) for number in range(partitions)], 30)
    consumer.close()
    return [one.offset for one in found]


def _until(reached: Callable[[], bool], seconds: float = 30.0) -> None:
    until(reached, seconds=seconds, every_s=0.1)


def test_the_source_is_found_without_registration(spark: SparkSession, bootstrap: str, make_topic: TopicMaker) -> None:
    frame = (
        spark.readStream.format("headrace").option("kafka.bootstrap.servers", bootstrap).option("subscribe", make_topic()).load()
    )

    assert frame.isStreaming
    assert frame.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]

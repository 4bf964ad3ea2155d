"""Spark on a broker with TLS, users and rules: by a profile, and with the rights of `headrace acl template spark` only."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from headrace import Admin
from headrace.cli.cluster.acl import TEMPLATES, ClientKind
from headrace.cli.main import run
from headrace.spark.options.options import sink_options
from headrace.spark.pipeline.catalog import find_pipeline, load_transform
from headrace.spark.pipeline.file import load_pipeline_file
from headrace.spark.pipeline.run import start
from headrace.spark.sink import exactly_once
from headrace.spark.sink.exactly_once import Delivery, write_exactly_once
from headrace.spark.sink.writer import GROUP_PREFIX
from headrace.testing import Broker

TOPICS = {"in": 2, "out": 2, "once": 1}


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    settings = {"authorizer": "acl", "super.users": "User:root", "auto.create.topics.enable": False}
    with Broker(tls=True, users={"root": "secret", "spark": "hidden"}, settings=settings, memory=False) as broker:
        admin = AdminClient(broker.client_config("root"))
        for made in admin.create_topics([NewTopic(f"job-{name}", count, 1) for name, count in TOPICS.items()]).values():
            made.result(30)
        for option, resource, _ in TEMPLATES[ClientKind.SPARK]:
            filled = resource.format(topic="job-*", id="unused", group="unused")
            words = shlex.split(f"acl allow --user spark {option} '{filled}'")
            assert run(["--profile", str(broker.profile("root")), *words]) == 0
        yield broker


def options(broker: Broker, **more: str) -> dict[str, str]:
    return {"profile": str(broker.profile("spark")), **more}


def values(spark: SparkSession, broker: Broker, topic: str, fetch_with: str = "auto") -> list[str]:
    reader = spark.read.format("headrace").options(**options(broker, subscribe=topic, fetchWith=fetch_with))
    return sorted(row.value for row in reader.load().selectExpr("CAST(value AS STRING) AS value").collect())


def test_a_sink_writes_and_both_ways_of_reading_read(spark: SparkSession, secured: Broker) -> None:
    rows = spark.range(50).selectExpr("CAST(id AS STRING) AS value")
    rows.write.format("headrace").options(**options(secured, topic="job-in")).mode("append").save()

    expected = sorted(str(number) for number in range(50))
    assert values(spark, secured, "job-in", "direct") == expected
    assert values(spark, secured, "job-in", "librdkafka") == expected
    principals = secured.run(lambda real: {str(each.principal) for each in real.server.connections})
    assert "User:spark" in principals


def test_a_task_writes_exactly_once_with_these_rights_and_its_batch_is_skipped_the_next_time(secured: Broker) -> None:
    given = sink_options(options(secured, topic="job-once", delivery="exactly-once"))
    delivery = Delivery(name=f"{GROUP_PREFIX}-once", batch_id=0, task=0)
    try:
        for expected in (2, 0):
            rows = iter([pa.record_batch([pa.array([b"one", b"two"])], names=["value"])])
            assert write_exactly_once(rows, given, delivery).rows == expected
    finally:
        exactly_once._sessions.clear()

    with Admin(profile=str(secured.profile("root"))) as admin:
        ends = admin.offsets("job-once", "latest")
    assert sum(ends.values()) == 3, "two records and what ends their transaction"


def test_a_stream_writes_exactly_once(spark: SparkSession, secured: Broker, tmp_path: Path) -> None:
    source = (
        spark.readStream.format("headrace").options(**options(secured, subscribe="job-in", startingOffsets="earliest")).load()
    )
    sink = options(secured, topic="job-out", delivery="exactly-once")
    query = (
        source.select("value")
        .writeStream.format("headrace")
        .options(**sink, checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert query.exception() is None
    assert values(spark, secured, "job-out") == values(spark, secured, "job-in")


def test_what_the_template_does_not_allow_is_refused(spark: SparkSession, secured: Broker) -> None:
    rows = spark.range(1).selectExpr("CAST(id AS STRING) AS value")
    with pytest.raises(Exception, match=r"(?i)authoriz"):
        rows.write.format("headrace").options(**options(secured, topic="others")).mode("append").save()


def test_a_pipeline_runs_by_a_profile(spark: SparkSession, secured: Broker, tmp_path: Path) -> None:
    overrides = {
        "checkpoint": str(tmp_path / "checkpoint"),
        "trigger.available_now": "true",
        "source.subscribe": "job-in",
        "sinks.files.path": str(tmp_path / "files"),
    }
    pipeline = load_pipeline_file(find_pipeline("archive"), overrides, profile=str(secured.profile("spark")))
    running = start(spark, pipeline, load_transform(pipeline), lambda _: None)
    try:
        assert all(query.awaitTermination(120) for query in running.queries)
    finally:
        running.stop()
    assert running.failure() is None
    assert spark.read.parquet(str(tmp_path / "files")).count() == 50

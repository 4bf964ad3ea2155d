"""The code on the pages about Spark runs as it stands there; only the address is another."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace import Consumer, Producer
from headrace.spark.pipeline.catalog import load_transform
from headrace.spark.pipeline.file import load_pipeline_file
from headrace.testing import Broker
from tests.spark.conftest import TopicMaker
from tests.support.pages import ROOT, Block, all_pages, blocks
from tests.support.terminal import Terminal


def for_spark(page: str, language: str) -> list[Block]:
    return [block for block in blocks(ROOT / page) if block.is_for_spark and block.language == language]


def test_every_block_for_spark_is_run_here() -> None:
    found = {(block.page, block.language) for page in all_pages() for block in blocks(page) if block.is_for_spark}

    assert found == {
        ("README.md", "python"),
        ("docs/spark.md", "python"),
        *(("docs/pipelines.md", language) for language in ("python", "toml", "sh")),
    }


def test_the_stream_on_the_first_page_copies_a_topic(
    spark: SparkSession, bootstrap: str, make_topic: Any, produce: Any, tmp_path: Path
) -> None:
    make_topic(name="orders")
    make_topic(name="orders.copy")
    (block,) = for_spark("docs/spark.md", "python")
    code = block.code.replace("127.0.0.1:9092", bootstrap).replace("checkpoints/", f"{tmp_path}/")
    before = {query.id for query in spark.streams.active}

    exec(compile(code, block.where, "exec"), {"spark": spark})

    (query,) = [query for query in spark.streams.active if query.id not in before]
    try:
        query.processAllAvailable()
        produce("orders", [b"a", b"b"])
        query.processAllAvailable()
    finally:
        query.stop()
    copied = spark.read.format("headrace").option("kafka.bootstrap.servers", bootstrap).option("subscribe", "orders.copy").load()
    assert sorted(bytes(row.value) for row in copied.collect()) == [b"a", b"b"]


def test_the_stream_of_the_read_me_is_one(spark: SparkSession, bootstrap: str, make_topic: TopicMaker) -> None:
    (block,) = for_spark("README.md", "python")
    names: dict[str, Any] = {"spark": spark}

    exec(compile(block.code.replace("127.0.0.1:9092", bootstrap), block.where, "exec"), names)

    assert names["events"].isStreaming
    assert {"key", "value", "offset"} <= set(names["events"].columns)


def write_large_orders(directory: Path, bootstrap: str) -> Path:
    """The pipeline of the page, in two files as it says."""
    (transform,), (description,) = for_spark("docs/pipelines.md", "python"), for_spark("docs/pipelines.md", "toml")
    (directory / "large_orders.py").write_text(transform.code)
    file = directory / "large_orders.toml"
    file.write_text(description.code.replace("127.0.0.1:9092", bootstrap))
    return file


def test_the_pipeline_shown_is_one(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    pipeline = load_pipeline_file(write_large_orders(tmp_path, bootstrap))
    frame = spark.createDataFrame([("ann", 99.0), ("bob", 101.0)], "customer STRING, amount DOUBLE")
    large = load_transform(pipeline).transform(frame, pipeline.settings)

    assert [row.customer for row in large.collect()] == ["bob"]


@pytest.mark.timeout(240)
@pytest.mark.spark_processes
def test_the_commands_shown_run_it(tmp_path: Path) -> None:
    (block,) = for_spark("docs/pipelines.md", "sh")
    with Broker() as broker, Producer(broker.bootstrap, values="json") as producer:
        producer.send("orders", {"customer": "bob", "amount": 101}).result(30)
        write_large_orders(tmp_path, broker.bootstrap)
        environment = {"HEADRACE_BOOTSTRAP": broker.bootstrap, "HEADRACE_STATE": str(tmp_path / "state")}

        with Terminal(tmp_path, environment) as terminal:
            said = terminal.run(block.code, block.where)
        with Consumer("orders.large", bootstrap=broker.bootstrap, values="json") as consumer:
            large = [record.value["customer"] for record in consumer.to_end()]

    assert "large-orders" in said
    assert large == ["bob"]

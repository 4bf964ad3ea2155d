"""The code on the pages about Spark runs as it stands there; only the address is another."""

import re
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headrace.spark.pipeline_catalog import load_transform
from headrace.spark.pipeline_file import load_pipeline_file

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}[^\n]*\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)


def test_the_stream_on_the_first_page_copies_a_topic(
    spark: SparkSession, bootstrap: str, make_topic: Any, produce: Any, tmp_path: Path
) -> None:
    make_topic(name="orders")
    make_topic(name="orders.copy")
    (code,) = blocks("spark.md", "python")
    code = code.replace("127.0.0.1:9092", bootstrap).replace("checkpoints/", f"{tmp_path}/")
    before = {query.id for query in spark.streams.active}

    exec(compile(code, "spark.md", "exec"), {"spark": spark})

    (query,) = [query for query in spark.streams.active if query.id not in before]
    try:
        query.processAllAvailable()
        produce("orders", [b"a", b"b"])
        query.processAllAvailable()
    finally:
        query.stop()
    copied = spark.read.format("headrace").option("kafka.bootstrap.servers", bootstrap).option("subscribe", "orders.copy").load()
    assert sorted(bytes(row.value) for row in copied.collect()) == [b"a", b"b"]


def test_the_pipeline_shown_is_one(spark: SparkSession, tmp_path: Path) -> None:
    (transform,), (description,) = blocks("pipelines.md", "python"), blocks("pipelines.md", "toml")
    (tmp_path / "large_orders.py").write_text(transform)
    file = tmp_path / "large_orders.toml"
    file.write_text(description)

    pipeline = load_pipeline_file(file)
    frame = spark.createDataFrame([("ann", 99.0), ("bob", 101.0)], "customer STRING, amount DOUBLE")
    large = load_transform(pipeline).transform(frame, pipeline.settings)

    assert [row.customer for row in large.collect()] == ["bob"]

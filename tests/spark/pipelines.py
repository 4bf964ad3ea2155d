"""What the tests of the ready pipelines share."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headrace.spark.pipeline.catalog import find_pipeline, load_transform
from headrace.spark.pipeline.file import PipelineFile, load_pipeline_file
from headrace.spark.pipeline.run import Running, start


class Pipelines:
    """Runs ready pipelines to the end of what is there, in a folder of the test's own."""

    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.folder = folder
        self.said: list[str] = []

    def load(self, name: str, overrides: dict[str, str]) -> PipelineFile:
        given = {"checkpoint": str(self.folder / "checkpoints" / name)} | overrides
        if name not in ("replay", "audit"):
            given.setdefault("trigger.available_now", "true")
        return load_pipeline_file(find_pipeline(name), given, self.bootstrap)

    def run(self, name: str, overrides: dict[str, str]) -> Running:
        pipeline = self.load(name, overrides)
        running = start(self.spark, pipeline, load_transform(pipeline), self.said.append)
        try:
            for query in running.queries:
                assert query.awaitTermination(100)
        finally:
            running.stop()  # where one query failed, the next test must not meet the other
        assert running.failure() is None
        return running


def parsed(values: list[bytes]) -> list[dict[str, Any]]:
    return [json.loads(value) for value in values]


Values = Callable[..., list[bytes]]

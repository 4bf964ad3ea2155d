"""The pipeline `archive`, slowed down, for the tests to kill: BOOTSTRAP SOURCE FOLDER CHECKPOINT [MASTER].

Runs until the source is read to the end.  On local[2,8] and local-cluster a task may fail several times, as on a cluster.
"""

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.types import BinaryType

from headrace.spark.pipeline.catalog import find_pipeline, load_transform
from headrace.spark.pipeline.file import load_pipeline_file
from headrace.spark.pipeline.run import start
from headrace.spark.pipeline.session import LOCAL_SETTINGS, SETTINGS
from headrace.spark.sink import file_sink
from headrace.spark.sink.file_sink import Folder

BATCH = 600
MERGE_AFTER = 3
PAUSE_SECONDS = 0.001
MOVE_SECONDS = 0.01


@udf(returnType=BinaryType(), useArrow=True)
def slowly(value: bytearray) -> bytearray:
    """A pause for each row, so that there is a middle of a batch to be killed in."""
    time.sleep(PAUSE_SECONDS)
    return value


class SlowFolder(Folder):
    """A pause around each move, so that there is a middle of a commit and of a merge."""

    def move(self, source: str, target: str) -> None:
        time.sleep(MOVE_SECONDS)
        super().move(source, target)
        time.sleep(MOVE_SECONDS)


def main(bootstrap: str, source: str, folder: str, checkpoint: str, master: str = "local[2,8]") -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    file_sink.Folder = SlowFolder  # type: ignore[misc]
    changed = {"source.subscribe": source, "source.maxOffsetsPerTrigger": str(BATCH), "sinks.files.path": folder}
    changed |= {"sinks.files.merge_after": str(MERGE_AFTER), "checkpoint": checkpoint, "trigger.available_now": "true"}
    pipeline = load_pipeline_file(find_pipeline("archive"), changed, bootstrap)
    archive = load_transform(pipeline)

    def transform(frame: DataFrame, settings: Mapping[str, Any]) -> DataFrame:
        return archive.transform(frame.withColumn("value", slowly("value")), settings)

    builder = SparkSession.builder.master(master)
    small = {"spark.driver.memory": "512m", "spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "2"}
    java = {"spark.executor.extraJavaOptions": os.environ.get("SPARK_SUBMIT_OPTS", "")}
    lasting = {"spark.log.level": "OFF", "spark.task.maxFailures": "8"}
    for name, value in (SETTINGS | LOCAL_SETTINGS | small | java | lasting).items():
        builder = builder.config(name, value)
    running = start(builder.getOrCreate(), pipeline, replace(archive, transform=transform))
    print("started", flush=True)
    for query in running.queries:
        query.awaitTermination()
    print("finished", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

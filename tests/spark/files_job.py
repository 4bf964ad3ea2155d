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

BATCH = 1500
MERGE_AFTER = 3
PAUSE_SECONDS = 0.001


@udf(BinaryType())
def slowly(value: bytearray) -> bytearray:
    """A pause for each row, so that there is a middle of a batch to be killed in."""
    time.sleep(PAUSE_SECONDS)
    return value


def main(bootstrap: str, source: str, folder: str, checkpoint: str, master: str = "local[2,8]") -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    changed = {"source.subscribe": source, "source.maxOffsetsPerTrigger": str(BATCH), "sinks.files.path": folder}
    changed |= {"sinks.files.merge_after": str(MERGE_AFTER), "checkpoint": checkpoint, "trigger.available_now": "true"}
    pipeline = load_pipeline_file(find_pipeline("archive"), changed, bootstrap)
    archive = load_transform(pipeline)

    def transform(frame: DataFrame, settings: Mapping[str, Any]) -> DataFrame:
        return archive.transform(frame.withColumn("value", slowly("value")), settings)

    builder = SparkSession.builder.master(master)
    memory = {"spark.driver.memory": "512m", "spark.executor.memory": "512m"}
    for name, value in (SETTINGS | LOCAL_SETTINGS | memory | {"spark.log.level": "OFF", "spark.task.maxFailures": "8"}).items():
        builder = builder.config(name, value)
    running = start(builder.getOrCreate(), pipeline, replace(archive, transform=transform))
    print("started", flush=True)
    for query in running.queries:
        query.awaitTermination()
    print("finished", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A query from topic to topic, exactly once, for the tests to kill: BOOTSTRAP SOURCE SINK CHECKPOINT [MASTER].

Runs until the source is read to the end.  local[2,8]: a task may fail several times, as on a cluster.  On a cluster Spark
speculates: the first attempt at one of the tasks is so slow that Spark starts another beside it.
"""

import os
import sys
import time
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.types import BinaryType

from headrace.spark.pipeline.session import LOCAL_SETTINGS, SETTINGS

BATCH = 3000
HOBBLING = "test.hobbling"
PAUSE_SECONDS = 0.001
HOBBLE_SECONDS = 0.05
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "500ms",
    "spark.executor.memory": "512m",
    "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    "spark.eventLog.enabled": "true",
    "spark.eventLog.rolling.enabled": "false",
    "spark.eventLog.compress": "false",
}


@udf(returnType=BinaryType(), useArrow=True)
def slowly(value: bytearray) -> bytearray:
    """A pause for each row, so that there is a middle of a batch to be killed in."""
    task = TaskContext.get()
    hobbles = task is not None and task.getLocalProperty(HOBBLING) and task.partitionId() == 1 and task.attemptNumber() == 0
    time.sleep(HOBBLE_SECONDS if hobbles else PAUSE_SECONDS)
    return value


def main(bootstrap: str, source: str, sink: str, checkpoint: str, master: str = "local[2,8]") -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).config("spark.sql.execution.arrow.maxRecordsPerBatch", "300")
    if master.startswith("spark:"):
        for name, value in (SPECULATION | {"spark.eventLog.dir": Path(checkpoint).parent.as_uri()}).items():
            builder = builder.config(name, value)
    for name, value in (SETTINGS | LOCAL_SETTINGS | {"spark.log.level": "OFF", "spark.driver.memory": "512m"}).items():
        builder = builder.config(name, value)
    spark = builder.config("spark.task.maxFailures", "8").getOrCreate()
    spark.sparkContext.setLocalProperty(HOBBLING, "yes" if master.startswith("spark:") else "")
    frame = (
        spark.readStream.format("headrace")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", BATCH)
        .load()
        .select("key", slowly("value").alias("value"))
    )
    query = (
        frame.writeStream.format("headrace")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", sink)
        .option("delivery", "exactly-once")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    print("started", flush=True)
    query.awaitTermination()
    print("finished", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A query from topic to topic, exactly once, for the tests to kill: BOOTSTRAP SOURCE SINK CHECKPOINT.

Runs until the source is read to the end.  local[2,8]: a task may fail several times, as on a cluster.
"""

import os
import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.types import BinaryType

from headrace.spark.pipeline_session import LOCAL_SETTINGS, SETTINGS

BATCH = 3000
PAUSE_SECONDS = 0.001


@udf(BinaryType())
def slowly(value: bytearray) -> bytearray:
    """A pause for each row, so that there is a middle of a batch to be killed in."""
    time.sleep(PAUSE_SECONDS)
    return value


def main(bootstrap: str, source: str, sink: str, checkpoint: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2,8]").config("spark.sql.execution.arrow.maxRecordsPerBatch", "300")
    for name, value in (SETTINGS | LOCAL_SETTINGS | {"spark.log.level": "OFF", "spark.driver.memory": "512m"}).items():
        builder = builder.config(name, value)
    spark = builder.config("spark.task.maxFailures", "8").getOrCreate()
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

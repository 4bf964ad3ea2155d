"""Spark's classes in an archive (JEP 350), so that a Java which a test starts maps them instead of loading them.

A session that answers one query costs 5 seconds of CPU with it, and 9 without.  `python -m tests.spark.java_archive` makes it in
`.cache`, for this Java and these jars; `make test` does so once.  Tests do without it, and so does a Java that it does not fit.
"""

import hashlib
import os
import sys
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.spark.errors import PipelineError
from headrace.spark.pipeline.prerequisites import require_java
from headrace.spark.pipeline.session import LOCAL_SETTINGS, SETTINGS

FOLDER = Path(__file__).parents[2] / ".cache" / "spark-classes"
END_SECONDS_MAX = 200
# Java for a minute: compiling thoroughly and collecting in parallel would cost more than they gain.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def archive() -> Path:
    """Where the archive for this Java and these jars is, or would be."""
    java = Path(require_java()).resolve()
    of = f"{java} {java.stat().st_mtime} {pyspark.__file__} {pyspark.__version__} {SHORT_LIVED}"
    return FOLDER / f"{hashlib.sha256(of.encode()).hexdigest()[:16]}.jsa"


def java_options() -> str:
    """What a Java is to be started with."""
    try:
        found = archive()
    except PipelineError:
        return ""  # without Java there are tests all the same that need none
    return f"-XX:SharedArchiveFile={found} {QUIET}" if found.exists() else ""


def make(target: Path) -> bool:
    """Have Java load what most tests need, and see it end by itself: what it writes then is the archive."""
    aside = target.with_suffix(".writing")
    target.parent.mkdir(parents=True, exist_ok=True)
    os.environ["JDK_JAVA_OPTIONS"] = SHORT_LIVED
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:ArchiveClassesAtExit={aside} {QUIET}"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]")
    for name, value in (SETTINGS | LOCAL_SETTINGS | {"spark.sql.shuffle.partitions": "2", "spark.log.level": "OFF"}).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    counted = rows.withColumn("text", F.udf(str, useArrow=True)("value")).groupBy(F.from_json("text", "a INT")).count()
    query = counted.writeStream.format("memory").queryName("q").outputMode("complete").trigger(availableNow=True).start()
    query.awaitTermination()
    gateway: Any = SparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    if gateway.proc.wait(END_SECONDS_MAX) != 0 or not aside.exists():
        return False
    aside.replace(target)
    return True


if __name__ == "__main__":
    sys.exit(0 if archive().exists() or make(archive()) else "no archive of Spark's classes could be made; tests do without")

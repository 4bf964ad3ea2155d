"""The Spark session of a pipeline: on this machine, or the one that spark-submit gives."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from headrace.spark.pipeline.prerequisites import require_java

# What exactly-once delivery and event times rest on, and what keeps a laptop's terminal readable.
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    # A batch run again must have the same tasks: partitions are not to be merged by what their sizes happen to be.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.task.maxFailures": "4",
}
JAVA_END_SECONDS = 10.0
LOCAL_SETTINGS = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def pipeline_session(name: str, master: str | None, settings: Mapping[str, str], log: Path | None = None) -> SparkSession:
    """A session with the pipeline's settings on top of ours; without a master the one that spark-submit chose.

    With `log`, what Java and the Python workers say goes there and not into the terminal's display.
    """
    require_java()
    # Spark starts whatever python3 is on the PATH unless told otherwise, and there the packages may be missing.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    chosen = dict(SETTINGS)
    if master is not None and master.startswith("local"):
        chosen |= LOCAL_SETTINGS
        chosen["spark.sql.shuffle.partitions"] = str(max(2, os.cpu_count() or 2))
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(retrying(master))
    for key, value in (chosen | dict(settings)).items():
        builder = builder.config(key, value)
    with _errors_to(log):
        return builder.getOrCreate()


def end_session(spark: SparkSession) -> None:
    """Stop Spark and, where this process started Java, see it end: it would otherwise do so some time after us."""
    gateway: Any = SparkContext._gateway
    java = getattr(gateway, "proc", None)
    try:
        spark.stop()
    except (OSError, Py4JError):
        if not java_has_ended(JAVA_END_SECONDS):
            raise
        # Java was killed, and cannot be told to stop: why the job failed is the error to be seen, not this one.
    if java is None:
        return  # spark-submit's, or gone already
    gateway.shutdown()
    java.stdin.close()
    try:
        java.wait(JAVA_END_SECONDS)
    except subprocess.TimeoutExpired:
        java.kill()
        java.wait()
    SparkContext._gateway = SparkContext._jvm = None  # a session that is wanted later starts a Java of its own


def java_has_ended(within_seconds: float) -> bool:
    """Whether the Java that this process started is gone, or goes in this time: it closes its connections some time before."""
    java = getattr(SparkContext._gateway, "proc", None)
    if java is None:
        return False  # spark-submit's, which ends us when it ends
    try:
        java.wait(within_seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


@contextmanager
def _errors_to(log: Path | None) -> Iterator[None]:
    """Standard error goes to a file.  Processes that start meanwhile keep it for life; this one gets its own back."""
    if log is None:
        yield
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    own = os.dup(sys.stderr.fileno())
    try:
        with log.open("wb") as file:
            os.dup2(file.fileno(), sys.stderr.fileno())
        yield
    finally:
        os.dup2(own, sys.stderr.fileno())
        os.close(own)


def retrying(master: str) -> str:
    """local[N] gives up at a task's first failure; local[N,4] tries again, as a cluster does."""
    if master == "local":
        return "local[1,4]"
    return f"{master[:-1]},4]" if master.startswith("local[") and "," not in master else master

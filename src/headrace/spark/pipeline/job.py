"""A pipeline's life from start to end: session, queries, progress, a clean stop.

Used by `headrace pipeline run` on this machine and, as a script, by spark-submit:
    spark-submit pipeline_job.py FILE [--set section.key=value …] [--bootstrap host:port] [--profile name]
"""

import argparse
import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from headrace.client.errors import HeadraceError
from headrace.host.ending import ending_signals
from headrace.spark.errors import PipelineError
from headrace.spark.pipeline.batch_lines import LinePerBatch, Show
from headrace.spark.pipeline.catalog import check_transform, find_pipeline, load_transform
from headrace.spark.pipeline.failure import explained, failed, with_log
from headrace.spark.pipeline.file import PipelineFile, load_pipeline_file
from headrace.spark.pipeline.metrics import Exposition, Watch, watch
from headrace.spark.pipeline.prerequisites import require_brokers, require_java
from headrace.spark.pipeline.run import Running, Say, start
from headrace.spark.pipeline.session import end_session, java_has_ended, pipeline_session
from headrace.spark.pipeline.state import PipelineState, now

logger = logging.getLogger("headrace.spark")

REFRESH_SECONDS = 0.5
REPORT_SECONDS = 5.0
JAVA_LAST_SECONDS = 2.0  # how long a Java that is ending lets us wait after it was last heard of
SIGNAL_SECONDS = 0.5  # between the signals to the processes of a group
JAVA_ENDED = "Spark's Java process ended"
FINDINGS_EXIT_CODE = 3
HOW_TO_STOP = "Ctrl-C stops it, the next run goes on from there"
STOPPING = "stopping after the batch that runs; Ctrl-C again ends it at once"


def run_pipeline(pipeline: PipelineFile, *, master: str | None, show: Show, say: Say, metrics_port: int | None = None) -> int:
    """Run until the pipeline ends or a signal ends it; how many findings a report has.  `say` tells a person what came of it."""
    code = check_transform(pipeline)  # a mistake in the file is told before Java starts
    state = PipelineState(
        name=pipeline.name,
        file=str(pipeline.path),
        description=pipeline.description,
        master=master or "spark-submit",
        pid=os.getpid(),
        started_at=now(),
    )
    state.save()
    job = _Job(pipeline, code, show, say, state)
    try:
        findings = job.run(master, metrics_port)
        state.state = "stopped" if job.was_told_to_stop or pipeline.trigger.every else "done"
    except KeyboardInterrupt:
        state.state = "stopped"
        raise
    except BaseException as error:
        state.state, state.error = "failed", str(error) or type(error).__name__
        raise
    finally:
        state.save()
    return findings


class _Job:
    """One run of a pipeline."""

    def __init__(self, pipeline: PipelineFile, code: Path, show: Show, say: Say, state: PipelineState) -> None:
        self._pipeline = pipeline
        self._code = code
        self._show = show
        self._say = say
        self._state = state
        self._wanted_stop = threading.Event()
        self._figures: Watch | None = None
        self._log: Path | None = None  # spark-submit writes what Spark says to where it was told to

    @property
    def was_told_to_stop(self) -> bool:
        return self._wanted_stop.is_set()

    def run(self, master: str | None, metrics_port: int | None) -> int:
        require_java()
        self._stop_on_signals()
        try:
            require_brokers(self._pipeline)
            if self._wanted_stop.is_set():
                return 0
            self._tell("starting Spark")
            self._log = None if master is None else self._state.log
            spark = pipeline_session(f"headrace-{self._pipeline.name}", master, self._pipeline.spark, self._log)
        except Exception as error:
            return self._ended_by(error)
        self._stop_on_signals()  # Spark has put its own handler there, which would end the session under the queries
        self._state.master = str(spark.sparkContext.master)
        self._figures = watch(spark)
        exposition = Exposition(self._figures, metrics_port) if metrics_port is not None else None
        try:
            return 0 if self._wanted_stop.is_set() else self._run_queries(spark)
        except Exception as error:
            return self._ended_by(error)  # here, since an error of Spark's has no text once Spark has stopped
        finally:
            if exposition is not None:
                exposition.close()
            self._state.save(self._figures.snapshot())
            end_session(spark)

    def _run_queries(self, spark: SparkSession) -> int:
        running: Running | None = None
        try:
            self._tell("starting the queries" if self._pipeline.streaming else "running")
            running = start(spark, self._pipeline, load_transform(self._pipeline), self._say)
            self._wait(running)
            failure = running.failure()
            if not self._wanted_stop.is_set():
                if failure is not None:
                    raise PipelineError(explained(failure, self._code))
                _require_context(spark)
            return running.findings
        finally:
            if running is not None:
                running.stop()
                _wait_for_last_reports(running, self._query_figures)
            self._tell("stopped" if self._wanted_stop.is_set() else "")

    def _wait(self, running: Running) -> None:
        """Until a signal comes, a query fails, or all have ended by themselves.  One that fails ends the others, too."""
        while not self._wanted_stop.is_set() and running.active and running.failure() is None:
            self._tell(f"{running.doing()}\n{HOW_TO_STOP}")
            self._state.save(self._query_figures.snapshot())
            self._wanted_stop.wait(REFRESH_SECONDS)

    def _ended_by(self, error: Exception) -> int:
        """No findings after an ordered stop, whatever it broke: who ends a process group, as systemd does, ends Java, too, and
        Java may go first.  Any other error is the pipeline's."""
        java_ended = not self._wanted_stop.is_set() and java_has_ended(JAVA_LAST_SECONDS)
        if java_ended:
            self._wanted_stop.wait(SIGNAL_SECONDS)
        if self._wanted_stop.is_set():
            logger.info("what the stop broke: %r", error)
            return 0
        if java_ended:
            raise PipelineError(with_log(JAVA_ENDED, self._log)) from None
        raise failed(error, self._code, self._log) from None

    @property
    def _query_figures(self) -> Watch:
        assert self._figures is not None, "queries run after Spark has started"
        return self._figures

    def _tell(self, doing: str) -> None:
        self._show(doing, [] if self._figures is None else self._figures.snapshot())

    def _stop_on_signals(self) -> None:
        def ask(number: int, frame: FrameType | None) -> None:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._wanted_stop.set()
            self._tell(STOPPING)

        if not self._wanted_stop.is_set():
            for number in ending_signals():
                signal.signal(number, ask)


def _require_context(spark: SparkSession) -> None:
    """A Java that is told to end first stops its queries, which then look as if they had come to their end."""
    context: Any = spark.sparkContext._jsc
    if context.sc().isStopped():
        raise PipelineError(JAVA_ENDED)


def _wait_for_last_reports(running: Running, figures: Watch) -> None:
    """Spark reports to listeners a little after the fact: a run that was short would end without having shown anything."""
    deadline = time.monotonic() + REPORT_SECONDS
    last = running.last_batches()
    while time.monotonic() < deadline:
        heard = {one.query_id: one.batch for one in figures.snapshot()}
        if all(heard.get(query_id, -1) >= batch for query_id, batch in last.items()):
            return
        time.sleep(0.05)


def main(arguments: list[str]) -> int:
    """What spark-submit runs."""
    parser = argparse.ArgumentParser(prog="pipeline_job.py")
    parser.add_argument("file")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    parser.add_argument("--bootstrap")
    parser.add_argument("--profile")
    given = parser.parse_args(arguments)
    overrides = dict(pair.split("=", 1) for pair in given.set)
    try:
        path = _shipped(given.file)
        pipeline = load_pipeline_file(path, overrides, given.bootstrap, given.profile)
        lines = LinePerBatch(pipeline.name)
        findings = run_pipeline(pipeline, master=None, show=lines, say=lines.say)
        return FINDINGS_EXIT_CODE if findings else 0
    except HeadraceError as error:
        print(f"headrace: {error}", file=sys.stderr)
        return 1


def _shipped(given: str) -> Path:
    """The file where spark-submit put it (--files), which on a cluster is not where it was."""
    if Path(given).exists():
        return find_pipeline(given)
    if Path(Path(given).name).exists():  # the working directory of a driver in the cluster
        return Path(Path(given).name)
    return Path(SparkFiles.get(Path(given).name))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""A pipeline's life from start to end: session, queries, progress, a clean stop.

Used by `headrace pipeline run` on this machine and, as a script, by spark-submit:
    spark-submit pipeline_job.py FILE [--set section.key=value …] [--bootstrap host:port]
"""

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from pyspark import SparkFiles

from headrace.spark.errors import HeadraceSparkError, PipelineError
from headrace.spark.metrics import Exposition, QueryFigures, Watch, watch
from headrace.spark.pipeline_catalog import find_pipeline
from headrace.spark.pipeline_file import PipelineFile, load_pipeline_file
from headrace.spark.pipeline_run import Running, start
from headrace.spark.pipeline_session import pipeline_session
from headrace.spark.pipeline_state import PipelineState, now

REFRESH_SECONDS = 0.5
REPORT_SECONDS = 5.0
FINDINGS_EXIT_CODE = 3

Show = Callable[[list[QueryFigures]], None]


def run_pipeline(pipeline: PipelineFile, *, master: str | None, show: Show, metrics_port: int | None = None) -> int:
    """Run until the pipeline ends or a signal ends it; the exit code."""
    state = PipelineState(
        name=pipeline.name, file=str(pipeline.path), master=master or "spark-submit", pid=os.getpid(), started_at=now()
    )
    state.save()
    try:
        code = _run(pipeline, master, show, metrics_port, state)
        state.state = "stopped" if pipeline.trigger.every else "done"
    except BaseException as error:
        state.state, state.error = "failed", short(str(error))
        raise
    finally:
        state.save()
    return code


def _run(pipeline: PipelineFile, master: str | None, show: Show, metrics_port: int | None, state: PipelineState) -> int:
    log = None if master is None else state.log
    spark = pipeline_session(f"headrace-{pipeline.name}", master, pipeline.spark, log)
    wanted_stop = _stop_on_signals()
    figures = watch(spark)
    exposition = Exposition(figures, metrics_port) if metrics_port is not None else None
    running: Running | None = None
    try:
        running = start(spark, pipeline)
        _wait(running, wanted_stop, figures, show, state)
        failure = running.failure()
        if failure is not None and not wanted_stop.is_set():
            raise PipelineError(short(failure))
        return FINDINGS_EXIT_CODE if running.findings else 0
    finally:
        if running is not None:
            running.stop()
            _hear_out(running, figures)
        if exposition is not None:
            exposition.close()
        show(figures.snapshot())
        state.save(figures.snapshot())
        spark.stop()


def _wait(running: Running, wanted_stop: threading.Event, figures: Watch, show: Show, state: PipelineState) -> None:
    """Until a signal comes, a query fails, or all have ended by themselves.  One that fails ends the others, too."""
    while not wanted_stop.is_set() and running.active and running.failure() is None:
        wanted_stop.wait(REFRESH_SECONDS)
        found = figures.snapshot()
        show(found)
        state.save(found)


def _hear_out(running: Running, figures: Watch) -> None:
    """Spark reports to listeners a little after the fact: a run that was short would end without having shown anything."""
    deadline = time.monotonic() + REPORT_SECONDS
    last = running.last_batches()
    while time.monotonic() < deadline:
        heard = {one.query_id: one.batch for one in figures.snapshot()}
        if all(heard.get(query_id, -1) >= batch for query_id, batch in last.items()):
            return
        time.sleep(0.05)


def _stop_on_signals() -> threading.Event:
    wanted = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        wanted.set()

    # Spark's own handler would tear the session down under the queries.
    signal.signal(signal.SIGINT, ask)
    signal.signal(signal.SIGTERM, ask)
    return wanted


def short(error: str) -> str:
    """Spark's error texts carry two stacks; the sentence that matters is the last one of Python's."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("headrace.spark.errors.")]
    if ours:
        return ours[-1].split(":", 1)[1].strip()
    return lines[0] if lines else "the query ended with an error that has no text"


def main(arguments: list[str]) -> int:
    """What spark-submit runs."""
    parser = argparse.ArgumentParser(prog="pipeline_job.py")
    parser.add_argument("file")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    parser.add_argument("--bootstrap")
    given = parser.parse_args(arguments)
    overrides = dict(pair.split("=", 1) for pair in given.set)
    try:
        path = _shipped(given.file)
        return run_pipeline(load_pipeline_file(path, overrides, given.bootstrap), master=None, show=lambda figures: None)
    except HeadraceSparkError as error:
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

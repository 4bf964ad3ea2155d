"""`make torture`: what takes too long for every day: Spark's own speculation on a cluster, a broker away for half a minute, files
written by jobs that are killed again and again."""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest

from tests.spark.test_exactly_once_under_fire import (
    Job,
    assert_every_row_once,
    fill,
    wait_until_written,
)
from tests.spark.test_files_under_fire import FilesJob, assert_every_row_once_in_files, fill_hours, kill_all
from tests.support.process import BrokerProcess, free_port
from tests.support.torture import ROUNDS, only_in_torture

AWAY_SECONDS = 30.0
FILE_ROUNDS_MAX = 10  # a minute each
SPARK_CLASS = str(Path(pyspark.__file__).parent / "bin" / "spark-class")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.spark_processes,
    only_in_torture,
]


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[str]:
    """A Spark master and two workers on two loopback addresses: Spark starts a second attempt on another host only."""
    address = f"spark://127.0.0.1:{(port := free_port())}"
    daemons = {"master.Master": ["-h", "127.0.0.1", "-p", str(port)]}
    for host in ("127.0.0.1", "127.0.0.2"):
        daemons[f"worker.Worker {host}"] = ["-h", host, "-c", "1", "-m", "900m", "-d", str(tmp_path / host), address]
    environment = os.environ | {"SPARK_DAEMON_MEMORY": "256m", "PYSPARK_PYTHON": sys.executable}
    with ExitStack() as started:
        for name, arguments in daemons.items():
            log = started.enter_context((tmp_path / f"{name}.log").open("wb"))
            command = [SPARK_CLASS, f"org.apache.spark.deploy.{name.split()[0]}", "--webui-port", "0", *arguments]
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
            started.callback(process.wait)
            started.callback(process.kill)
        yield address


def test_a_task_that_spark_runs_twice_is_written_once(bootstrap: str, standalone: str, tmp_path: Path) -> None:
    source, sink = fill(bootstrap)
    job = Job(bootstrap, source, sink, tmp_path / "checkpoint", standalone)
    job.start()
    try:
        job.finish()
    finally:
        job.stop()

    assert any(attempt["Speculative"] for attempt in _attempts(tmp_path)), "Spark did not speculate"
    assert_every_row_once(bootstrap, sink)


def _attempts(folder: Path) -> Iterator[dict[str, object]]:
    for log in folder.glob("app-*"):
        for line in log.read_text().splitlines():
            event = json.loads(line)
            if event["Event"] == "SparkListenerTaskStart":
                yield event["Task Info"]


def test_a_broker_that_is_away_for_half_a_minute_costs_no_row(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        source, sink = fill(broker.bootstrap)
        job = Job(broker.bootstrap, source, sink, tmp_path / "checkpoint")
        job.start()
        try:
            wait_until_written(broker.bootstrap, sink, 4000, job)
            broker.kill()
            time.sleep(AWAY_SECONDS)
            assert job.running, "the query did not wait"
            broker.start()
            job.finish()
        finally:
            job.stop()

        assert_every_row_once(broker.bootstrap, sink)


def test_files_hold_every_row_once_though_executors_are_killed(bootstrap: str, standalone: str, tmp_path: Path) -> None:
    job = FilesJob(bootstrap, fill_hours(bootstrap), tmp_path, standalone)
    job.start()
    killed = 0
    try:
        for moment in (lambda: job.writes, lambda: job.commits, lambda: job.writes):
            job.wait_until(moment)
            job.wait_until(lambda: len(_executors(tmp_path)) >= 1)
            killed += kill_all(_executors(tmp_path))
        job.finish()
    finally:
        job.stop()

    assert killed >= 3
    assert_every_row_once_in_files(job.files)


def _executors(folder: Path) -> list[int]:
    """The processes that a Spark worker has started: their working directories lie below its own."""
    found = []
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            ours = folder in (command.parent / "cwd").readlink().parents
            executes = b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in command.read_bytes().split(b"\0")
        except OSError:
            continue
        found += [int(command.parent.name)] if ours and executes else []
    return found


@pytest.mark.timeout(7200)
def test_files_written_by_jobs_that_are_killed_at_any_moment_hold_every_row_once(bootstrap: str, tmp_path: Path) -> None:
    seed = int(time.time())
    dice = random.Random(seed)
    for number in range(min(FILE_ROUNDS_MAX, int(os.environ[ROUNDS]))):
        print(f"round {number}, seed {seed}")
        job = FilesJob(bootstrap, fill_hours(bootstrap), tmp_path / str(number))
        job.files.parent.mkdir()
        for _ in range(3):
            job.start()
            try:
                _kill_somewhere(job, dice)
            finally:
                job.stop()
        job.start()
        job.finish()

        assert_every_row_once_in_files(job.files)


def _kill_somewhere(job: FilesJob, dice: random.Random) -> None:
    """A worker at one moment, then everything at another; or nothing any more, if the job came to its end before."""
    moments = [lambda: job.writes, lambda: job.commits, lambda: job.merges]
    try:
        job.wait_until(dice.choice(moments))
        kill_all(job.workers())
        later = time.monotonic() + dice.random() * 3
        job.kill_when(dice.choice([*moments, lambda: time.monotonic() >= later]))
    except AssertionError:
        if job.running:
            raise

"""`make torture`: what takes too long for every day: Spark's own speculation on a cluster, a broker away for half a minute."""

import json
import os
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
from tests.support.process import BrokerProcess, free_port

AWAY_SECONDS = 30.0
SPARK_CLASS = str(Path(pyspark.__file__).parent / "bin" / "spark-class")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.spark_processes,
    pytest.mark.skipif("HEADRACE_TORTURE_ROUNDS" not in os.environ, reason="`make torture` runs this"),
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

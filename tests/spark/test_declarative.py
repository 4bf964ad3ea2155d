"""The windowed statistics as a Spark Declarative Pipeline, run by `spark-pipelines run`."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyspark
import pytest

from tests.spark.conftest import RecordWriter, TopicMaker

for needed in ("pandas", "grpc", "grpc_status", "yaml", "zstandard"):
    pytest.importorskip(needed, reason="declarative pipelines need what headrace[spark] installs")

EXAMPLE = Path(__file__).parents[2] / "pipelines" / "declarative"


@pytest.mark.slow
@pytest.mark.spark_processes
@pytest.mark.timeout(300)
def test_a_declarative_pipeline_reads_and_writes_topics_without_registration(
    tmp_path: Path, bootstrap: str, make_topic: TopicMaker, produce: RecordWriter, committed_values: Callable[..., list[bytes]]
) -> None:
    topic = make_topic(retention_ms="-1")
    make_topic(name=f"{topic}.statistics")
    times = ["12:00:00", "12:03:00", "13:00:00"]
    produce(topic, [json.dumps({"key": "a", "value": 4, "time": f"2026-03-01T{time}Z"}).encode() for time in times])
    project = tmp_path / "project"
    shutil.copytree(EXAMPLE, project)
    spec = project / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("file:///var/lib/headrace", f"file://{tmp_path}"))
    home = Path(pyspark.__file__).parent
    environment = os.environ | {
        "HEADRACE_BOOTSTRAP": bootstrap,
        "EVENTS_TOPIC": topic,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    command = [str(home / "bin" / "spark-pipelines"), "run", "--spec", str(spec)]
    ended = subprocess.run(command, env=environment, cwd=project, capture_output=True, text=True, timeout=280, check=False)

    assert "Run is COMPLETED" in ended.stdout + ended.stderr, ended.stderr[-3000:]
    (window,) = [json.loads(value) for value in committed_values(f"{topic}.statistics")]
    assert (window["key"], window["count"], window["mean"]) == ("a", 2, 4.0)

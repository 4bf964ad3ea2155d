"""How a run of a pipeline ends, without Spark."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext

from headrace.spark.errors import OptionError, PipelineError
from headrace.spark.pipeline import job
from headrace.spark.pipeline.file import PipelineFile, load_pipeline_file
from headrace.spark.pipeline.state import known_pipelines

FILE = """
name = "copy"
transform = "copy_transform.py"
checkpoint = "checkpoint"
[source]
subscribe = "orders"
[trigger]
every = "1 second"
[sinks.out]
topic = "copies"
"""


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Run a pipeline whose queries are a function."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "copy_transform.py").write_text("def transform(frame, settings):\n    return frame\n")
    file = tmp_path / "copy.toml"
    file.write_text(FILE)
    context = SimpleNamespace(master="local[2]", _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: False)))
    monkeypatch.setattr(job, "require_java", lambda: None)
    monkeypatch.setattr(job, "require_brokers", lambda pipeline: None)
    monkeypatch.setattr(job, "pipeline_session", lambda *given: SimpleNamespace(sparkContext=context))
    monkeypatch.setattr(job, "watch", lambda spark: SimpleNamespace(snapshot=list))
    monkeypatch.setattr(job, "end_session", lambda spark: None)

    def run(start: Callable[..., Any]) -> int:
        monkeypatch.setattr(job, "start", start)
        return job.run_pipeline(load_pipeline_file(file), master="local[2]", show=lambda *given: None, say=lambda text: None)

    return run


def test_the_transforms_code_runs_once_there_is_a_session(
    run: Callable[..., int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`@udf("double")` at a module's top asks for one."""
    java_that_lives(monkeypatch)
    session = vars(job)["pipeline_session"]
    (tmp_path / "copy_transform.py").write_text("import os\nos.environ['SESSION']\ndef transform(frame, settings): ...\n")

    def started(*given: Any) -> Any:
        monkeypatch.setenv("SESSION", "there")
        return session(*given)

    monkeypatch.setattr(job, "pipeline_session", started)

    def start(*given: object) -> Any:
        raise ValueError("it was loaded")

    with pytest.raises(PipelineError, match="it was loaded"):
        run(start)


def test_what_is_missing_is_said_before_spark_starts(run: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(pipeline: PipelineFile) -> None:
        raise OptionError("no broker")

    monkeypatch.setattr(job, "require_brokers", missing)
    monkeypatch.setattr(job, "pipeline_session", lambda *given: pytest.fail("Spark was started"))

    with pytest.raises(PipelineError, match=r"^no broker$"):
        run(lambda *given: None)
    assert known_pipelines()["copy"].error == "no broker"


def java_that_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=SimpleNamespace(wait=lambda timeout: 143)))


def java_that_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(timeout: float) -> int:
        raise subprocess.TimeoutExpired("java", timeout)

    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=SimpleNamespace(wait=wait)))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_that_java_obeys_first_is_a_stop(
    run: Callable[..., int], monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    java_that_has_ended(monkeypatch)

    def start(*given: object) -> Any:
        os.kill(os.getpid(), number)
        raise ConnectionRefusedError(111, "Connection refused")

    assert run(start) == 0
    assert (known_pipelines()["copy"].state, known_pipelines()["copy"].error) == ("stopped", None)


def test_java_that_ended_by_itself_is_named_with_the_log(run: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    java_that_has_ended(monkeypatch)

    def start(*given: object) -> Any:
        raise ConnectionRefusedError(111, "Connection refused")

    with pytest.raises(PipelineError, match=r"^Spark's Java process ended; what Spark said is in \S+$"):
        run(start)
    assert known_pipelines()["copy"].state == "failed"


def test_an_error_while_java_lives_is_the_pipelines(run: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    java_that_lives(monkeypatch)

    def start(*given: object) -> Any:
        raise ValueError("no such column")

    with pytest.raises(PipelineError, match=r"^ValueError: no such column"):
        run(start)

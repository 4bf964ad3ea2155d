"""`headrace pipeline` as a person uses it, and the pipeline files behind it."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
import uuid
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.cli.main import run as headrace
from headrace.cli.pipeline.display import short_moment
from headrace.cli.pipeline.submit import submit_command
from headrace.metrics.rendering import Form
from headrace.spark.errors import PipelineError
from headrace.spark.pipeline.batch_lines import LinePerBatch
from headrace.spark.pipeline.catalog import check_transform, find_pipeline, load_transform, ready_pipelines
from headrace.spark.pipeline.failure import explained, failed
from headrace.spark.pipeline.file import load_pipeline_file
from headrace.spark.pipeline.metrics import figures, lag
from headrace.spark.pipeline.prerequisites import require_java
from headrace.spark.pipeline.session import retrying
from headrace.spark.query_metrics import query_page
from tests.spark.conftest import RecordWriter, TopicMaker
from tests.spark.pipelines import Pipelines
from tests.support.metrics import samples_in
from tests.support.process import free_port
from tests.support.waiting import until

HEADRACE = str(Path(sys.executable).with_name("headrace"))
MINIMAL = """
name = "copy"
transform = "copy_transform.py"
checkpoint = "CHECKPOINT"
[source]
subscribe = "SOURCE"
[trigger]
every = "200 milliseconds"
[sinks.out]
topic = "SINK"
"""
TRANSFORM = """
DEFAULTS = {"prefix": "> "}

def transform(frame, settings):
    from pyspark.sql import functions as F
    return frame.select("key", F.concat(F.lit(settings["prefix"]), F.col("value").cast("string")).alias("value"))
"""


@pytest.fixture
def pipeline_file(tmp_path: Path) -> Path:
    (tmp_path / "copy_transform.py").write_text(TRANSFORM)
    path = tmp_path / "copy.toml"
    path.write_text(MINIMAL.replace("CHECKPOINT", str(tmp_path / "checkpoint")))
    return path


class TestFile:
    """What a pipeline file may say."""

    def test_all_ready_pipelines_are_sound(self) -> None:
        names = {"windowed-statistics", "archive", "replay", "redrive", "audit"}

        assert set(ready_pipelines()) == names
        for name in names:
            pipeline = load_pipeline_file(find_pipeline(name))
            assert check_transform(pipeline) == load_transform(pipeline).file.resolve()

    def test_an_installed_package_has_them(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        build = pytest.importorskip("hatchling.build")
        monkeypatch.chdir(Path(__file__).parents[2])
        with zipfile.ZipFile(tmp_path / build.build_wheel(str(tmp_path))) as wheel:
            packed = set(wheel.namelist())

        assert {f"headrace/spark/ready/{path.name}" for path in ready_pipelines().values()} <= packed
        assert "headrace/spark/ready/windowed_statistics.py" in packed

    def test_values_are_changed_from_the_command_line_and_keep_their_type(self) -> None:
        changed = load_pipeline_file(
            find_pipeline("redrive"),
            {"settings.limit": "7", "trigger.every": "5 seconds", "source.kafka.isolation.level": "read_uncommitted"},
            "there:1",
        )

        assert changed.settings["limit"] == 7
        assert (changed.trigger.every, changed.trigger.available_now) == ("5 seconds", False)
        assert changed.source["kafka.isolation.level"] == "read_uncommitted"
        assert changed.source["kafka.bootstrap.servers"] == changed.sinks[0].options["kafka.bootstrap.servers"] == "there:1"

    def test_statistics_run_every_four_minutes_unless_told_otherwise(self) -> None:
        assert load_pipeline_file(find_pipeline("windowed-statistics")).trigger.every == "4 minutes"

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("nam = 'x'", "has 'nam', which is unknown; did you mean 'name'?"),
            ("name = 'x'", "lacks 'transform'"),
            ("= 3", "is not TOML"),
            (MINIMAL.replace("every", "evry"), "[trigger] has 'evry', which is unknown; did you mean 'every'?"),
            (MINIMAL.replace('checkpoint = "CHECKPOINT"', ""), "lacks 'checkpoint'"),
            (MINIMAL + 'format = "orc"', "sink 'out' has format 'orc'; there are headrace, parquet, report"),
            (MINIMAL + "[watermark]\ncolumn = 'time'", "[watermark] takes both column and delay"),
        ],
    )
    def test_a_mistake_is_named(self, tmp_path: Path, text: str, said: str) -> None:
        path = tmp_path / "wrong.toml"
        path.write_text(text)

        with pytest.raises(PipelineError) as told:
            load_pipeline_file(path)
        assert said in str(told.value)

    def test_an_unknown_setting_and_an_unknown_pipeline_get_the_nearest_name(self, pipeline_file: Path) -> None:
        with pytest.raises(PipelineError, match=r"'prefxi', which copy does not know; did you mean 'prefix'\?"):
            load_transform(load_pipeline_file(pipeline_file, {"settings.prefxi": "x"}))
        with pytest.raises(PipelineError, match=r"did you mean 'archive'\?"):
            find_pipeline("archiv")


@pytest.mark.parametrize("name", ["source.kafka.sasl.password", "sinks.out.password", "source.token"])
@pytest.mark.parametrize("command", ["run", "submit"])
def test_a_secret_is_not_taken_from_the_command_line(
    tmp_path: Path, command: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "copy.toml"
    file.write_text(MINIMAL)

    assert headrace(["pipeline", command, str(file), "--set", f"{name}=hidden-1", "--master", "local[1]"]) == 2

    said = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert f"{name} is a secret" in said
    assert "hidden-1" not in said


def test_a_pipeline_with_a_secret_is_refused_where_others_may_read_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "copy.toml"
    file.write_text(MINIMAL.replace('subscribe = "SOURCE"', 'subscribe = "SOURCE"\nkafka.sasl.password = "hidden-1"'))
    file.chmod(0o644)

    assert headrace(["pipeline", "run", str(file)]) != 0

    assert "holds a secret, and others may read it" in " ".join(capsys.readouterr().err.split())


class TestFigures:
    """What is counted of a query."""

    PROGRESS = {  # noqa: RUF012 - a constant
        "id": "1",
        "name": "q",
        "batchId": 4,
        "numInputRows": 10,
        "processedRowsPerSecond": 50.0,
        "durationMs": {"triggerExecution": 200},
        "eventTime": {"watermark": "2026-01-01T00:00:00.000Z"},
        "stateOperators": [{"numRowsDroppedByWatermark": 2}],
        "observedMetrics": {"headrace": {"rows": 10, "bytes": 1000}},
        "sources": [{"endOffset": '{"t": {"0": 5, "1": 5}, "@at": 1}', "latestOffset": '{"t": {"0": 9, "1": 5}}'}],
        "timestamp": "now",
    }

    def test_rows_bytes_and_late_rows_add_up_and_lag_is_the_last_one(self) -> None:
        once = figures(self.PROGRESS, None)
        twice = figures(self.PROGRESS, once)

        assert (twice.rows, twice.bytes, twice.late_rows, twice.lag, twice.batch_ms) == (20, 2000, 4, 4, 200)

    def test_a_source_that_reports_no_end_has_no_lag(self) -> None:
        assert lag({"endOffset": None, "latestOffset": None}) == 0

    def test_prometheus_reads_them_in_its_units(self) -> None:
        before = figures(self.PROGRESS, None)
        seen = samples_in(query_page([before], Form.OPEN_METRICS).decode(), is_open_metrics=True)

        assert {name: value for (name, _), value in seen.items()} == {
            "headrace_query_rows_total": 10,
            "headrace_query_bytes_total": 1000,
            "headrace_query_batches_total": 5,
            "headrace_query_lag_records": 4,
            "headrace_query_batch_seconds": 0.2,
            "headrace_query_watermark_seconds": 1_767_225_600,
            "headrace_query_late_rows_total": 2,
        }
        assert {labels for _, labels in seen} == {(("query", "q"),)}

    def test_of_a_query_without_a_watermark_none_is_told(self) -> None:
        text = query_page([figures({**self.PROGRESS, "eventTime": {}}, None)]).decode()

        assert "headrace_query_watermark_seconds{" not in text


def test_java_is_looked_for_and_missed_in_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert Path(require_java()).exists()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(
        PipelineError, match=r"Spark needs Java 17 or later, and JAVA_HOME is .*, where there is none: install one"
    ):
        require_java()
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    old.chmod(0o755)
    with pytest.raises(PipelineError, match="is version 8"):
        require_java()


def test_local_masters_try_tasks_again() -> None:
    assert [retrying(one) for one in ("local", "local[*]", "local[2,1]", "yarn")] == [
        "local[1,4]",
        "local[*,4]",
        "local[2,1]",
        "yarn",
    ]


class TestFailures:
    """One sentence of all that Spark says."""

    CODE = Path("/somewhere/copy_transform.py")

    def test_of_sparks_errors_the_sentence_that_matters_is_shown(self) -> None:
        ours = "headrace.spark.errors.DataLossError: offsets are gone"
        text = f"[STREAM_FAILED] Query terminated\nTraceback:\n  File x\n{ours}\n SQLSTATE: 38000"

        assert explained(text, self.CODE) == "offsets are gone"

    def test_an_error_of_sparks_own_loses_its_codes(self) -> None:
        text = (
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [A.B] It is wrong. SQLSTATE: 0A000\n=== x ==="
        )

        assert explained(text, self.CODE) == "It is wrong."
        assert explained("", self.CODE) == "Spark gave no reason"

    def test_of_several_stacks_the_last_counts_and_code_of_others_is_passed_over(self) -> None:
        text = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Traceback (most recent call last):
  File "/cluster/work/7/copy_transform.py", line 4, in early
    first()
KeyError: 'x'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/cluster/work/7/copy_transform.py", line 9, in late
    frame.map(second)
    ^^^^^^^^^^^^^^^^^
  File "/usr/lib/python3/site-packages/pandas/core.py", line 100, in map
    func()
pandas.errors.ParserError: not a number

	at org.apache.spark.api.python.BasePythonRunner"""

        assert explained(text, self.CODE) == "ParserError: not a number (/cluster/work/7/copy_transform.py, line 9, in late)"

    @pytest.mark.parametrize(
        ("body", "cause", "line"),
        [
            ('F.udf(lambda value: str(1 // len(value)))(F.lit(""))', "ZeroDivisionError: integer division or modulo by zero", 4),
            ('F.col("nowhere")', "A column, variable, or function parameter with name `nowhere` cannot be resolved", 4),
        ],
    )
    def test_the_line_of_the_users_code_is_named_and_where_the_log_is(
        self, body: str, cause: str, line: int, pipeline_file: Path, spark: SparkSession
    ) -> None:
        code = pipeline_file.with_name("copy_transform.py")
        code.write_text(
            f"from pyspark.sql import functions as F\n\ndef transform(frame, settings):\n    return frame.select({body})\n"
        )
        loaded = load_transform(load_pipeline_file(pipeline_file))
        with pytest.raises(Exception) as caught:
            loaded.transform(spark.range(1), {}).collect()

        said = str(failed(caught.value, loaded.file, Path("/there/copy.log")))
        assert said.startswith(cause)
        assert re.search(rf"\({re.escape(str(code))}, line {line}, in \S+\); what Spark said is in /there/copy.log$", said)
        assert "\n" not in said

    @pytest.mark.parametrize(
        ("code", "said"),
        [
            (
                "import nothing_of_that_name",
                r"ModuleNotFoundError: No module named 'nothing_of_that_name' \(.*copy_transform.py, line 1",
            ),
            ("def transform(:", r"SyntaxError: .* \(.*copy_transform.py, line 1\)"),
        ],
    )
    def test_a_transform_that_cannot_be_loaded_is_named_with_its_line(self, code: str, said: str, pipeline_file: Path) -> None:
        pipeline_file.with_name("copy_transform.py").write_text(code)

        for look in (check_transform, load_transform):
            with pytest.raises(PipelineError, match=f"its transform cannot be loaded: {said}"):
                look(load_pipeline_file(pipeline_file))

    @pytest.mark.parametrize(
        ("code", "settings", "said"),
        [
            (
                "def transfrom(frame, settings): return frame",
                {},
                r"copy_transform.py has no function transform\(frame, settings\)",
            ),
            (TRANSFORM, {"settings.prefxi": "x"}, "did you mean 'prefix'"),
        ],
    )
    def test_what_can_be_seen_without_running_it_is_seen_before_spark_starts(
        self, code: str, settings: dict[str, str], said: str, pipeline_file: Path
    ) -> None:
        pipeline_file.with_name("copy_transform.py").write_text(f"raise AssertionError('it runs')\n{code}")

        with pytest.raises(PipelineError, match=said):
            check_transform(load_pipeline_file(pipeline_file, settings))


def test_a_pipeline_whose_output_mode_is_update_appends_what_changed(
    pipelines: Pipelines,
    pipeline_file: Path,
    make_topic: TopicMaker,
    produce: RecordWriter,
    committed_values: Callable[..., list[bytes]],
) -> None:
    source, sink = make_topic(), make_topic()
    text = pipeline_file.read_text().replace("SOURCE", source).replace("SINK", sink)
    pipeline_file.write_text(f'{text}output_mode = "update"\n')
    pipeline_file.with_name("copy_transform.py").write_text(
        """
def transform(frame, settings):
    from pyspark.sql import functions as F
    counts = frame.groupBy(F.col("value").cast("string").alias("word")).count()
    return counts.select(F.concat_ws("=", "word", "count").alias("value"))
"""
    )
    for values in ([b"a", b"b"], [b"a"]):
        produce(source, values)
        pipelines.run(str(pipeline_file), {"checkpoint": str(pipelines.folder / "checkpoint")})

    assert sorted(committed_values(sink)) == [b"a=1", b"a=2", b"b=1"]


@pytest.mark.timeout(240)
@pytest.mark.spark_processes
def test_a_batch_pipeline_on_a_missing_topic_names_it_and_status_says_why_it_failed(
    pipeline_file: Path, tmp_path: Path, bootstrap: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = f"missing-{uuid.uuid4().hex[:8]}"
    state = tmp_path / "state"
    monkeypatch.setenv("HEADRACE_STATE", str(state))
    pipeline_file.write_text(pipeline_file.read_text().replace("SOURCE", missing))
    command = [
        HEADRACE,
        "pipeline",
        "run",
        str(pipeline_file),
        "-b",
        bootstrap,
        "-s",
        "trigger.batch=true",
        "--master",
        "local[1]",
    ]
    ended = subprocess.run(command, env=os.environ, capture_output=True, text=True, timeout=200, check=False)
    cause = f"topic {missing} not found at {bootstrap}; create it, or correct it"

    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == f"headrace: {cause}."
    (known,) = json.loads(_output(capsys, "status", "copy", "--json"))
    assert (known["state"], known["error"]) == ("failed", cause)


def test_a_moment_of_today_is_shown_by_its_time_alone_and_none_before_the_first_event() -> None:
    now = datetime(2026, 3, 2, 12, tzinfo=UTC)
    moments = ("2026-03-02T11:59:58.123Z", "2026-03-01T23:00:00+00:00", "1970-01-01T00:00:00.000Z", None)

    assert [short_moment(one, now) for one in moments] == ["11:59:58", "2026-03-01 23:00:00", "-", "-"]


def test_without_a_terminal_each_batch_is_one_line() -> None:
    out = io.StringIO()
    show, batch = LinePerBatch("copy", out), figures(TestFigures.PROGRESS, None)
    for _ in range(2):
        show("starting Spark", [])
        show("working", [batch])

    assert out.getvalue().splitlines() == [
        "copy: starting Spark",
        "q: batch 4, 10 rows, 50 rows/s, 200 ms, lag 4, watermark 2026-01-01T00:00:00.000Z",
    ]


def test_before_any_pipeline_ran_status_says_so_and_list_names_the_ready_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_STATE", str(tmp_path))
    assert headrace(["pipeline", "status"]) == 0
    said = capsys.readouterr()

    assert (said.out, said.err.count("\n")) == ("", 1)
    assert "no pipeline has run on this machine yet" in said.err
    assert re.search(r"^ archive +- +Topics to Parquet by topic, date and hour", _output(capsys, "list"), re.MULTILINE)


def test_spark_submit_gets_the_file_its_transform_and_the_rest(pipeline_file: Path) -> None:
    pipeline = load_pipeline_file(pipeline_file)
    command = submit_command(pipeline, "spark://there:7077", ["settings.prefix=x"], "b:1", "prod", ["--executor-memory", "2g"])

    assert command[1:3] == ["--master", "spark://there:7077"]
    assert command[command.index("--files") + 1] == f"{pipeline_file},{pipeline_file.with_name('copy_transform.py')}"
    assert command[-7:] == [str(pipeline_file), "--set", "settings.prefix=x", "--bootstrap", "b:1", "--profile", "prod"]
    assert "2g" in command


@pytest.mark.timeout(240)
@pytest.mark.spark_processes
def test_a_pipeline_runs_is_seen_stops_on_ctrl_c_and_goes_on_by_spark_submit(
    pipeline_file: Path,
    tmp_path: Path,
    bootstrap: str,
    make_topic: TopicMaker,
    produce: RecordWriter,
    committed_values: Callable[..., list[bytes]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source, sink = make_topic(), make_topic()
    pipeline_file.write_text(pipeline_file.read_text().replace("SOURCE", source).replace("SINK", sink))
    monkeypatch.setenv("HEADRACE_STATE", str(tmp_path / "state"))
    produce(source, [b"a", b"b"])

    port = free_port()
    where = ("-b", bootstrap, "--master", "local[2]")
    with Process("run", str(pipeline_file), *where, "--metrics-port", str(port), folder=tmp_path, metrics_port=port) as running:
        _until(lambda: len(committed_values(sink)) == 2, running)
        _until(lambda: 'headrace_query_rows_total{query="copy-main"} 2' in running.metrics(), running)
        _until(lambda: json.loads(_output(capsys, "status", "copy", "--json"))[0]["state"] == "running", running)
        assert running.interrupt() == 0
    assert json.loads(_output(capsys, "status", "copy", "--json"))[0]["state"] == "stopped"
    assert "copy" in _output(capsys, "list")

    produce(source, [b"c"])
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    with Process("submit", str(pipeline_file), *where, folder=tmp_path) as submitted:
        _until(lambda: len(committed_values(sink)) == 3, submitted)
        assert submitted.interrupt() == 0, submitted.said()
    (state,) = json.loads(_output(capsys, "status", "copy", "--json"))

    assert (state["state"], state["master"], state["error"]) == ("stopped", "local[2]", None)
    assert re.search(r"copy-main: batch [1-9]\d*, 1 rows", submitted.said())
    assert committed_values(sink) == [b"> a", b"> b", b"> c"]


@pytest.mark.timeout(240)
@pytest.mark.spark_processes
def test_a_run_that_ends_by_itself_tells_what_it_did(
    pipeline_file: Path, tmp_path: Path, bootstrap: str, make_topic: TopicMaker, produce: RecordWriter
) -> None:
    source, sink = make_topic(), make_topic()
    pipeline_file.write_text(pipeline_file.read_text().replace("SOURCE", source).replace("SINK", sink))
    produce(source, [b"a", b"b"])
    command = [HEADRACE, "pipeline", "run", str(pipeline_file), "-b", bootstrap, "-s", "trigger.available_now=true"]
    environment = os.environ | {"HEADRACE_STATE": str(tmp_path / "state")}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)

    assert ended.returncode == 0, ended.stderr[-3000:]
    assert re.fullmatch(r"copy: starting Spark\ncopy-main: batch 0, 2 rows, .* lag 0\n", ended.stderr), ended.stderr
    assert (tmp_path / "state" / "pipelines" / "copy.log").exists()


def test_a_pipeline_that_fails_says_why_in_one_sentence(
    pipeline_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert headrace(["pipeline", "run", str(tmp_path / "none.toml")]) == 1
    assert "is neither a pipeline file nor the name of a ready pipeline" in capsys.readouterr().err
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("HEADRACE_STATE", str(tmp_path / "state"))
    assert headrace(["pipeline", "run", str(pipeline_file)]) == 1
    assert "Spark needs Java 17 or later" in capsys.readouterr().err
    assert json.loads(_output(capsys, "status", "--json"))[0]["state"] == "failed"


class Process:
    """`headrace pipeline run` or `submit` as its own process."""

    def __init__(self, *arguments: str, folder: Path, metrics_port: int = 0) -> None:
        self._port = metrics_port
        self._log = (folder / "run.log").open("ab+")
        self._process = subprocess.Popen(
            [HEADRACE, "pipeline", *arguments], stderr=self._log, stdout=self._log, start_new_session=True
        )

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *failure: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._log.close()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def said(self) -> str:
        return Path(self._log.name).read_text(errors="replace")[-3000:]

    def metrics(self) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=5) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    def interrupt(self) -> int:
        """Ctrl-C in a terminal reaches the whole group."""
        os.killpg(self._process.pid, signal.SIGINT)
        return self._process.wait(60)


def _output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert headrace(["pipeline", *arguments]) == 0
    return capsys.readouterr().out


def _until(reached: Callable[[], bool], process: Process) -> None:
    def is_reached() -> bool:
        assert process.alive, process.said()
        return reached()

    until(is_reached, process.said, 100, every_s=0.2)

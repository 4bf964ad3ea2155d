"""`headrace demo`: a broker, events, the windowed pipeline and a view of it all, gone again with Ctrl-C.

Always: whatever was started is ended on every way out, and nothing stays on the disk.
"""

import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.failure import Failure
from headrace.cli.output import remark
from headrace.host.ending import ending_signals

if TYPE_CHECKING:
    from headrace.spark.pipeline.file import PipelineFile

RESULTS = "demo.statistics"
START_SECONDS_MAX = 30
REFRESH_SECONDS = 0.5


def demo(
    per_second: Annotated[int, typer.Option("--rate", min=1, max=50_000, help="Events per second.")] = 200,
    every: Annotated[str, typer.Option("--every", help="How often the pipeline runs a batch.")] = "10 seconds",
    window: Annotated[str, typer.Option("--window", help="The length of a window.")] = "20 seconds",
    seconds: Annotated[float | None, typer.Option("--seconds", min=1, help="End by itself after so long.")] = None,
) -> None:
    """Show the whole of it: events into a broker, windowed statistics out of Spark, dead letters aside.

    [bold]headrace demo[/bold]
    [bold]headrace demo --rate 5000 --every "5 seconds"[/bold]
    """
    _require()
    stop = _stop_on_signals()
    with ExitStack() as started:
        folder = Path(tempfile.mkdtemp(prefix="headrace-demo-"))
        started.callback(shutil.rmtree, folder, ignore_errors=True)
        remark("starting a broker …")
        bootstrap = _start_broker(started, folder)
        _run(started, folder, bootstrap, per_second, every, window, seconds, stop)
    remark("everything that was started has ended")


def _run(
    started: ExitStack,
    folder: Path,
    bootstrap: str,
    per_second: int,
    every: str,
    window: str,
    seconds: float | None,
    stop: list[int],
) -> None:
    from rich.console import Console
    from rich.live import Live

    from headrace.spark.demo.events import TOPICS, Generator
    from headrace.spark.demo.view import Watcher, render
    from headrace.spark.pipeline.catalog import load_transform
    from headrace.spark.pipeline.metrics import watch
    from headrace.spark.pipeline.run import start
    from headrace.spark.pipeline.session import end_session, pipeline_session

    letters = [f"{topic}.dead-letter" for topic in TOPICS]
    _create_topics(bootstrap, [*TOPICS, RESULTS, *letters])
    generator = Generator(bootstrap, per_second)
    generator.start()
    started.callback(generator.stop)
    watcher = Watcher(bootstrap, RESULTS, letters)
    watcher.start()
    started.callback(watcher.stop)
    if stop:
        return
    remark(f"events go to {bootstrap}; starting Spark …")
    settings = {"spark.sql.shuffle.partitions": "2", "spark.log.level": "OFF"}
    signal.signal(signal.SIGINT, signal.default_int_handler)  # Spark's start may take long: Ctrl-C breaks it off
    try:
        spark = pipeline_session("headrace-demo", "local[2]", settings, folder / "spark.log")
    except KeyboardInterrupt:
        return  # Java, half started, ends with us
    started.callback(end_session, spark)
    _stop_on_signals(stop)  # Spark has put its own handler there
    figures = watch(spark)
    pipeline = demo_pipeline(folder, bootstrap, every, window)
    running = start(spark, pipeline, load_transform(pipeline))
    started.callback(running.stop, 0.0)  # nothing of it is to be gone on with
    deadline = None if seconds is None else time.monotonic() + seconds
    with Live(console=Console(stderr=True), auto_refresh=False) as live:
        while not stop and (deadline is None or time.monotonic() < deadline):
            view = render(generator.counts, figures.snapshot(), watcher.seen, bootstrap, live.console.height)
            live.update(view, refresh=True)
            failure = running.failure()
            if failure is not None:
                raise Failure(f"the pipeline failed: {failure.splitlines()[0]}")
            time.sleep(REFRESH_SECONDS)


def demo_pipeline(folder: Path, bootstrap: str, every: str, window: str) -> "PipelineFile":
    """The ready pipeline, set for a demo: short windows, a short watermark, a short trigger."""
    from headrace.spark.demo.events import LATE_SECONDS, TOPICS
    from headrace.spark.pipeline.catalog import find_pipeline
    from headrace.spark.pipeline.file import load_pipeline_file

    changes = {
        "checkpoint": str(folder / "checkpoint"),
        "source.subscribe": ",".join(TOPICS),
        "sinks.topic.topic": RESULTS,
        "sinks.files.path": str(folder / "statistics"),
        "trigger.every": every,
        "settings.window": window,
        "watermark.delay": f"{2 * LATE_SECONDS} seconds",
    }
    return load_pipeline_file(find_pipeline("windowed-statistics"), changes, bootstrap)


def _start_broker(started: ExitStack, folder: Path) -> str:
    """`headrace serve` on a free port, in a session of its own so that Ctrl-C reaches it last."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    log = (folder / "broker.log").open("wb")
    command = [sys.executable, "-c", "from headrace.cli.main import main; main()", "serve"]
    command += ["--listen", address, "--data", str(folder / "data")]
    process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    started.callback(_end, process)
    deadline = time.monotonic() + START_SECONDS_MAX
    while not _answers(address):
        if process.poll() is not None or time.monotonic() > deadline:
            raise Failure(f"the broker did not start: {(folder / 'broker.log').read_text(errors='replace').strip()[-500:]}")
        time.sleep(0.05)
    return address


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 1).close()
    except OSError:
        return False
    return True


def _end(process: "subprocess.Popen[Any]") -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _create_topics(bootstrap: str, names: list[str]) -> None:
    from headrace.client.admin.admin import Admin

    with Admin(bootstrap, timeout=START_SECONDS_MAX) as admin:
        for name in names:
            admin.create_topic(name, partitions=2)


def _stop_on_signals(asked: list[int] | None = None) -> list[int]:
    """A list that is no longer empty once Ctrl-C was pressed or the process was asked to end otherwise."""
    asked = [] if asked is None else asked
    for number in ending_signals():
        signal.signal(number, lambda got, frame: asked.append(got))
    return asked


def _require() -> None:
    missing = [name for name in ("pyspark", "pyarrow") if find_spec(name) is None]
    if missing:
        raise Failure(f"the demo needs {' and '.join(missing)}: pip install 'headrace[spark]'")
    from headrace.spark.pipeline.prerequisites import require_java

    require_java()

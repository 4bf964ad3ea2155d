"""Hands a pipeline to a cluster by spark-submit, and stops it there in order.

Ctrl-C in a terminal would reach Java and the driver's Python at the same time, and Java would end under the queries that Python
is stopping.  So spark-submit gets a session of its own, and the driver alone is asked to stop; it ends its queries, then Java.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from headrace.cli.output import remark
from headrace.host.ending import ending_signals

if TYPE_CHECKING:
    from headrace.spark.pipeline.file import PipelineFile


def submit_command(
    pipeline: "PipelineFile",
    master: str,
    settings: Sequence[str],
    bootstrap: str | None,
    profile: str | None,
    extra: Sequence[str],
) -> list[str]:
    """The spark-submit that runs the pipeline's file unchanged."""
    import pyspark

    import headrace.spark.pipeline.job as job

    files = [str(pipeline.path.resolve())]
    transform = pipeline.path.parent / pipeline.transform
    if transform.suffix == ".py" and transform.is_file():
        files.append(str(transform.resolve()))
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", master]
    command += ["--name", f"headrace-{pipeline.name}", "--files", ",".join(files)]
    command += [argument for argument in extra if argument != "--"]
    command += [str(job.__file__), files[0]]
    for pair in settings:
        command += ["--set", pair]
    for option, value in (("--bootstrap", bootstrap), ("--profile", profile)):
        command += [option, value] if value is not None else []
    return command


def spark_environment() -> dict[str, str]:
    """Ours, with the Java that was found and this Python for the workers, unless they are set."""
    from headrace.spark.pipeline.prerequisites import require_java

    java = Path(require_java()).resolve()
    return {"PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(java.parent.parent), **os.environ}


def run_until_done(command: Sequence[str], environment: Mapping[str, str], pipeline: str) -> int:
    """Run spark-submit; Ctrl-C asks the driver to stop, pressed again it ends everything at once."""
    process = subprocess.Popen(command, env=dict(environment), start_new_session=True)
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            os.killpg(process.pid, signal.SIGTERM)
            return
        asked = True
        remark(f"{pipeline}: stopping after the batch that runs; Ctrl-C again ends it at once")
        _ask_driver(process, pipeline)

    before = {number: signal.signal(number, ask) for number in ending_signals()}
    try:
        return process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ask_driver(process: "subprocess.Popen[Any]", pipeline: str) -> None:
    """The driver left its process id in the pipeline's state; one that runs in the cluster is spark-submit's to end."""
    from headrace.spark.pipeline.state import known_pipelines

    state = known_pipelines().get(pipeline)
    try:
        if state is not None and os.getsid(state.pid) == process.pid:
            os.kill(state.pid, signal.SIGINT)
            return
    except ProcessLookupError:
        pass  # of an earlier run
    os.killpg(process.pid, signal.SIGINT)

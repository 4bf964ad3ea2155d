"""`headrace queue work`: a program is run for each job."""

import logging
import os
import subprocess
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.connection import DEFAULT_BOOTSTRAP, Bootstrap, Properties, TopicName, connection_settings, require_reachable
from headrace.cli.output import counted, remark
from headrace.cli.topics.delays import duration_ms

if TYPE_CHECKING:
    from headrace.client.queue.job import Job

REJECTED = 65  # EX_DATAERR: the input is wrong, and trying again does not help


def run_for_each_job(
    topic: TopicName,
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="What to run for each job.", show_default=False)],
    group: Annotated[
        str, typer.Option("--group", "-g", help="Whose queue it is: the workers that share the jobs.", show_default=False)
    ],
    workers: Annotated[int, typer.Option("--workers", "-w", min=1, max=1000, help="How many run at a time.")] = 1,
    idle: Annotated[
        str | None, typer.Option("--idle", metavar="DURATION", help="End when no job has come for so long: 500ms, 90s, 15m.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    property: Properties = None,
) -> None:
    """Run a program for each job of a queue, until SIGTERM or Ctrl-C; jobs that run then are finished.

    The job's value is the program's standard input; HEADRACE_JOB_KEY, HEADRACE_JOB_TOPIC, HEADRACE_JOB_PARTITION,
    HEADRACE_JOB_OFFSET and HEADRACE_JOB_ATTEMPT tell the rest.  Where it ends with 0 the job is done; with 65 (EX_DATAERR) it is
    rejected, and goes to the dead letters with the last line of standard error as the reason; with anything else it is released,
    and tried again after the group's backoff.  The job is the program's for as long as it runs.
    """
    from headrace.client.queue.queue import Queue

    require_reachable(bootstrap, property)
    logging.basicConfig(format="%(message)s")
    wait_s = None if idle is None else duration_ms("--idle", idle) / 1000
    done: list[int] = []

    def handler(job: "Job[bytes, bytes]") -> None:
        done.append(_run(command, job))

    with Queue(topic, group=group, bootstrap=bootstrap, librdkafka=connection_settings(property)) as queue:
        queue.work(handler, workers=workers, idle=wait_s)
    failed = sum(1 for code in done if code)
    remark(f"{counted(len(done) - failed, 'job')} done, {counted(failed, 'job')} not.")


def _run(command: list[str], job: "Job[Any, Any]") -> int:
    told = {"KEY": job.raw_key, "TOPIC": job.topic, "PARTITION": job.partition, "OFFSET": job.offset, "ATTEMPT": job.attempt}
    texts = {f"HEADRACE_JOB_{name}": _text(value) for name, value in told.items() if value is not None}
    ended = subprocess.run(command, input=job.raw_value or b"", stderr=subprocess.PIPE, env={**os.environ, **texts}, check=False)
    said = ended.stderr.decode("utf-8", "backslashreplace").strip().splitlines()
    last = said[-1] if said else ""
    if ended.returncode == REJECTED:
        job.reject(last or f"{command[0]} ended with {REJECTED}")
    elif ended.returncode:
        job.release()
        remark(f"{command[0]} ended with {ended.returncode} in attempt {job.attempt} of offset {job.offset}: {last}")
    return ended.returncode


def _text(value: object) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)

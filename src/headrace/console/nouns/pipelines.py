"""Pipelines that run or ran on this machine, as they tell it themselves."""

from __future__ import annotations

import asyncio
import os
import signal
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.console.nouns.rights import cluster_rights
from headrace.gateway.api.call import Call
from headrace.gateway.api.operations import Operations
from headrace.gateway.serving.problems import Problem, not_found

if TYPE_CHECKING:
    from headrace.spark.pipeline.state import PipelineState

operations = Operations("console pipelines")


def _known() -> dict[str, PipelineState]:
    """Spark is imported by the first who asks: all others do not pay for it.  Where it is not installed, nothing has run."""
    try:
        from headrace.spark.pipeline.state import known_pipelines
    except ImportError:
        return {}
    return known_pipelines()


@operations.get("/console/api/pipelines", "Pipelines of this machine", listed=False)
async def list_pipelines(call: Call) -> dict[str, Any]:
    """Brokers know nothing of them, so none tells who may see them: whoever may see the cluster."""
    may_see = "describe" in await cluster_rights(call.caller.cluster)
    return {"pipelines": await asyncio.to_thread(_shown) if may_see else []}


def _shown() -> list[dict[str, Any]]:
    return [asdict(each) | {"state": each.shown, **flow_of(Path(each.file))} for each in _known().values()]


def flow_of(file: Path) -> dict[str, list[str]]:
    """From which topics a pipeline reads, and to which topics and directories it writes, as its file says."""
    try:
        told = tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {"sources": [], "sinks": []}
    source, sinks = told.get("source"), told.get("sinks")
    read = str(source.get("subscribe", source.get("subscribePattern", ""))) if isinstance(source, dict) else ""
    written = [each.get("topic") or each.get("path") for each in sinks.values()] if isinstance(sinks, dict) else []
    return {
        "sources": [name.strip() for name in read.split(",") if name.strip()],
        "sinks": [str(each) for each in written if each],
    }


@operations.delete("/console/api/pipelines/{name}", "Stop a pipeline", listed=False)
async def stop_pipeline(call: Call) -> dict[str, Any]:
    """As Ctrl-C would: it ends after what it is at."""
    found: PipelineState | None = (await asyncio.to_thread(_known)).get(call.path("name"))
    if found is None:
        raise not_found("pipeline_not_found", "No pipeline of this name has run on this machine.", "Look at the list again.")
    if "alter" not in await cluster_rights(call.caller.cluster):
        raise Problem(403, "not_allowed", "Stopping pipelines needs the right to alter the cluster.", "Ask for it.")
    if found.shown != "running":
        raise Problem(409, "not_running", f"The pipeline is {found.shown}.", "There is nothing to stop.")
    if not await asyncio.to_thread(_is_ours, found.pid):
        raise Problem(409, "not_running", "Its process is gone, and another has its number.", "There is nothing to stop.")
    try:
        os.kill(found.pid, signal.SIGINT)
    except (ProcessLookupError, PermissionError) as error:
        raise Problem(409, "not_stopped", f"It cannot be stopped: {error.strerror}.", "Stop it where it runs.") from None
    return {"stopping": found.name}


def _is_ours(pid: int) -> bool:
    """Numbers of processes are used again.  Where a system does not tell what a process is, its number has to do."""
    try:
        return b"headrace" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return not Path("/proc/self").exists()

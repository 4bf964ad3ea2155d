"""What is known of the pipelines that ran on this machine: one small JSON file for each, for `headrace pipeline list|status`."""

import json
import os
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headrace.spark.pipeline.metrics import QueryFigures


@dataclass(slots=True, kw_only=True)
class PipelineState:
    """A pipeline's last known state.  `running` with a process that is gone means that it was killed."""

    name: str
    file: str
    master: str
    pid: int
    started_at: str
    description: str = ""
    state: str = "running"
    error: str | None = None
    updated_at: str = ""
    queries: list[dict[str, Any]] = field(default_factory=list)

    @property
    def shown(self) -> str:
        return "killed" if self.state == "running" and not _alive(self.pid) else self.state

    @property
    def log(self) -> Path:
        """What Spark says while the pipeline runs here."""
        return _folder() / f"{self.name}.log"

    def save(self, figures: list[QueryFigures] | None = None) -> None:
        """Write it down whole: aside first, then over the old one."""
        self.updated_at = now()
        if figures is not None:
            self.queries = [asdict(one) for one in figures]
        path = _folder() / f"{self.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(f".{os.getpid()}.writing")
        aside.write_text(json.dumps(asdict(self), indent=2), "utf-8")
        aside.replace(path)


def known_pipelines() -> dict[str, PipelineState]:
    """Every pipeline that left a state here, by name."""
    found = {}
    for path in sorted(_folder().glob("*.json")):
        try:
            state = PipelineState(**json.loads(path.read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            continue  # half written by an older version or by hand: as good as none
        found[state.name] = state
    return found


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _folder() -> Path:
    given = os.environ.get("HEADRACE_STATE")
    state_home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return (Path(given) if given else state_home / "headrace") / "pipelines"


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

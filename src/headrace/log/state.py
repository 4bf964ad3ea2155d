"""What the parts of one log share: its settings, where it begins and ends, whether it still works, and what was found wrong."""

from pathlib import Path

from headrace.host.disk import is_full
from headrace.model.errors import NoRoom, StorageError
from headrace.model.topic_settings import LogConfig


class LogState:
    """Always: `start_offset <= local_start <= end_offset`.  Once `failure` is set the log is offline for good.

    What lies before `local_start` is in an object store; where there is none, the two starts are one."""

    __slots__ = ("config", "corruption_count", "end_offset", "failure", "findings", "local_start", "start_offset")

    def __init__(self, config: LogConfig) -> None:
        self.config = config
        self.start_offset = 0
        self.local_start = 0
        self.end_offset = 0
        self.failure: StorageError | None = None
        self.corruption_count = 0
        self.findings: list[str] = []

    def __repr__(self) -> str:
        return f"<log of [{self.start_offset}, {self.end_offset}){', offline' if self.failure else ''}>"

    def require_working(self) -> None:
        if self.failure is not None:
            raise self.failure

    def fail(self, action: str, path: Path, cause: OSError) -> StorageError:
        """Take the log offline for good; what to raise."""
        if self.failure is None:
            self.failure = StorageError(path, action, cause)
        return self.failure

    def refused(self, action: str, path: Path, cause: OSError) -> StorageError:
        """What to raise where a write failed that left nothing behind: a full disk costs that write, anything else the log."""
        return NoRoom(path, action, cause) if is_full(cause) else self.fail(action, path, cause)

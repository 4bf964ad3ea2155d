"""What the operating system and the interpreter say of this process: its time, its memory, its files, its threads."""

import gc
import os
import resource
import sys
import threading
import time
from pathlib import Path
from typing import Any

from headrace.declaring import dataclass

PROC = Path("/proc/self")
# Of the fields of /proc/self/stat, counted after the name in brackets: see proc(5).
_USER_TICKS, _SYSTEM_TICKS, _THREADS, _START_TICKS, _VIRTUAL_BYTES, _RESIDENT_PAGES = 11, 12, 17, 19, 20, 21


@dataclass(frozen=True, slots=True)
class ProcessState:
    """None where the system does not tell."""

    cpu_seconds: float
    threads: int
    open_files_max: int
    resident_bytes: int | None = None
    virtual_bytes: int | None = None
    open_files: int | None = None
    started_at: float | None = None


def read_process(proc: Path = PROC) -> ProcessState:
    """Meant for a thread: with many files open, counting them takes milliseconds."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        fields = (proc / "stat").read_text().rpartition(")")[2].split()
        ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
        return ProcessState(
            cpu_seconds=(int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])) / ticks,
            threads=int(fields[_THREADS]),
            open_files_max=limit,
            resident_bytes=int(fields[_RESIDENT_PAGES]) * page,
            virtual_bytes=int(fields[_VIRTUAL_BYTES]),
            open_files=len(os.listdir(proc / "fd")),
            started_at=_booted_at(proc) + int(fields[_START_TICKS]) / ticks,
        )
    except (OSError, ValueError, IndexError):
        # Not Linux, or /proc is not for us.
        used = resource.getrusage(resource.RUSAGE_SELF)
        return ProcessState(used.ru_utime + used.ru_stime, threading.active_count(), limit)


def _booted_at(proc: Path) -> float:
    for line in (proc.parent / "stat").read_text().splitlines():
        if line.startswith("btime "):
            return float(line.split()[1])
    raise ValueError("/proc/stat has no btime")


class GarbagePauses:
    """For how long the garbage collector has kept the interpreter to itself."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = 0.0

    def start(self) -> None:
        gc.callbacks.append(self._on_collection)

    def stop(self) -> None:
        if self._on_collection in gc.callbacks:
            gc.callbacks.remove(self._on_collection)

    def _on_collection(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._began = time.perf_counter()
        else:
            self.seconds += time.perf_counter() - self._began


def garbage_statistics() -> list[dict[str, int]]:
    """By generation: `collections`, `collected` and `uncollectable`."""
    return gc.get_stats()


def interpreter() -> tuple[str, str]:
    """Its name and its version."""
    return sys.implementation.name, ".".join(map(str, sys.version_info[:3]))

"""The broker that is measured: one of ours in a process of its own, or a peer that is already running."""

import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parents[2] / ".cache" / "bench"
START_S_MAX = 30.0
HEADRACE = (sys.executable, "-m", "headrace")
# ApiVersions, version 0, correlation id 7, no client id.
API_VERSIONS_FRAME = struct.pack(">ihhih", 10, 18, 0, 7, -1)


@dataclass(frozen=True)
class Target:
    """Where to connect, and which process to look at; None when that is not known."""

    name: str
    bootstrap: str
    pid: int | None

    def cpu_seconds(self) -> float:
        """CPU time used so far by the process, all threads together."""
        if self.pid is None:
            return float("nan")
        return time.clock_gettime(_cpu_clock(self.pid))

    def memory_mb(self, field: str = "VmRSS") -> float:
        """Resident memory now (VmRSS), or the most there ever was (VmHWM)."""
        if self.pid is None:
            return float("nan")
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) / 1024
        raise LookupError(field)

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.bootstrap.rpartition(":")
        return host, int(port)


def _cpu_clock(pid: int) -> int:
    """Linux' clock of another process (CPUCLOCK_SCHED): in nanoseconds, where /proc/PID/stat counts hundredths of a second."""
    return (~pid << 3) | 2


@contextmanager
def data_directory() -> Iterator[Path]:
    """A directory on a real disk, gone afterwards."""
    DATA.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(dir=DATA))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def serving(
    data: Path, flush: str, settings: Mapping[str, str] | None = None, command: Sequence[str] | None = None
) -> Iterator[tuple[Target, float]]:
    """A broker of ours, and the seconds from its start to its first answer; `{port}` in a setting is where it listens.

    Another command than `headrace` may be that of an older checkout: it is asked for nothing that is new.
    """
    port = free_port()
    arguments = ["serve", "--data", str(data), "--flush", flush]
    if not settings or "listeners" not in settings:
        arguments += ["--listen", f"127.0.0.1:{port}"]
    for name, value in (settings or {}).items():
        arguments += ["--set", f"{name}={value.format(port=port)}"]
    began = time.perf_counter()
    process = subprocess.Popen([*(command or HEADRACE), *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        _wait_for_answer(process, port)
        seconds = time.perf_counter() - began
        yield Target(f"headrace ({flush})", f"127.0.0.1:{port}", process.pid), seconds
    finally:
        process.terminate()
        try:
            process.wait(START_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def fresh_broker(flush: str, command: Sequence[str] | None = None) -> Iterator[Target]:
    """A broker of ours with nothing in it."""
    with data_directory() as data, serving(data, flush, command=command) as (target, _):
        yield target


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for_answer(process: "subprocess.Popen[bytes]", port: int) -> None:
    deadline = time.monotonic() + START_S_MAX
    while time.monotonic() < deadline:
        if process.poll() is not None:
            assert process.stderr is not None
            raise SystemExit(f"the broker did not start: {process.stderr.read().decode()}")
        try:
            with socket.create_connection(("127.0.0.1", port), 5) as connection:
                connection.sendall(API_VERSIONS_FRAME)
                if connection.recv(8):
                    return
        except OSError:
            time.sleep(0.002)
    raise SystemExit("the broker did not answer in time")

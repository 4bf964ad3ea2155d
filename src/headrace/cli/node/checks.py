"""What `headrace doctor` looks at on this machine, and what it advises."""

import ctypes
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, NamedTuple

from headrace.model.broker_settings import BrokerConfig
from headrace.model.listeners import read_listeners

OLDEST_PYTHON: Final = (3, 11)
OLDEST_JAVA: Final = 17
FILES_WANTED: Final = 10_000
FREE_BYTES_WANTED: Final = 2 * 1024**3
FLUSHES: Final = 10
SLOW_FLUSH_MS: Final = 50.0
# What the kernel answers when nobody sets its clock: see adjtimex(2).
UNSYNCHRONIZED: Final = 5
TIMEX_BYTES: Final = 256
# Where a flush does not mean what it says, or a lock does not hold.
DOUBTFUL_FILE_SYSTEMS: Final = {
    "tmpfs": "the data is gone after a restart of the machine",
    "nfs": "its flushes and locks depend on the server",
    "nfs4": "its flushes and locks depend on the server",
    "cifs": "its flushes and locks depend on the server",
    "9p": "its flushes and locks depend on the host",
    "overlay": "the data is gone with the container; use a volume",
}


class Verdict(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(NamedTuple):
    verdict: Verdict
    about: str
    found: str
    advice: str = ""


def ok(about: str, found: str) -> Finding:
    return Finding(Verdict.OK, about, found)


def warning(about: str, found: str, advice: str) -> Finding:
    return Finding(Verdict.WARNING, about, found, advice)


def problem(about: str, found: str, advice: str) -> Finding:
    return Finding(Verdict.PROBLEM, about, found, advice)


def look_at_machine(config: BrokerConfig) -> Iterator[Finding]:
    """Everything but the cluster."""
    yield look_at_python()
    yield from look_at_spark()
    yield look_at_open_files()
    yield look_at_clock()
    if not config["headrace.memory"]:
        yield from look_at_directory(Path(config["log.dirs"]))
    yield from look_at_ports(config)


def look_at_python() -> Finding:
    found = f"{sys.version.split()[0]} at {sys.executable}"
    if sys.version_info < OLDEST_PYTHON:
        return problem("Python", found, "Install Python 3.11 or newer.")
    return ok("Python", found)


def look_at_spark() -> Iterator[Finding]:
    """PySpark, the Java it runs on, and the Python that its executors would use."""
    try:
        installed = version("pyspark")
    except PackageNotFoundError:
        yield ok("Spark", "not installed; only pipelines need it")
        return
    yield ok("Spark", f"PySpark {installed}")
    yield look_at_java(_java())
    executors = os.environ.get("PYSPARK_PYTHON")
    if executors is not None:
        yield _look_at_executors(executors)


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else shutil.which("java")


def look_at_java(program: str | None) -> Finding:
    advice = f"Install Java {OLDEST_JAVA} or newer (Debian: openjdk-17-jre-headless), or set JAVA_HOME to one."
    if program is None:
        return problem("Java", "not found", advice)
    said = _output(program, "-version")
    found = re.search(r'version "(\d+)', said or "")
    if found is None:
        return problem("Java", f"{program} does not run", advice)
    if int(found[1]) < OLDEST_JAVA:
        return problem("Java", f"version {found[1]} at {program}", advice)
    return ok("Java", f"version {found[1]} at {program}")


def _look_at_executors(program: str) -> Finding:
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    theirs = (_output(program, "-c", "import sys; print('%d.%d' % sys.version_info[:2])") or "").strip()
    if theirs == ours:
        return ok("PYSPARK_PYTHON", f"Python {theirs} at {program}")
    found = f"Python {theirs} at {program}" if theirs else f"{program} does not run"
    return problem("PYSPARK_PYTHON", found, f"Spark needs the same Python on both sides: unset it, or name a Python {ours}.")


def _output(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout + done.stderr


def look_at_open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < FILES_WANTED:
        highest = "more" if hard < FILES_WANTED else str(FILES_WANTED)
        advice = f"Run `ulimit -n {highest}` before starting a broker, or set LimitNOFILE in its unit."
        return warning("Open files", f"limited to {soft:,}", advice)
    return ok("Open files", f"limited to {soft:,}")


def look_at_clock() -> Finding:
    """Retention, time-outs of transactions and records' own times are read off this clock."""
    if sys.platform != "linux":
        return ok("Clock", "not checked on this system")
    state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(TIMEX_BYTES))
    if state == UNSYNCHRONIZED:
        return warning("Clock", "not synchronized", "Run an NTP client, such as systemd-timesyncd or chrony.")
    return ok("Clock", "synchronized" if state >= 0 else "not known")


def look_at_directory(directory: Path) -> Iterator[Finding]:
    """The disk that holds the data: whether it can be written, how full it is, how long a flush takes."""
    existing = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    about = "Data directory"
    if not existing.is_dir():
        yield problem(about, f"{existing} is a file", "Choose another directory with --data DIR.")
        return
    free = shutil.disk_usage(existing).free
    found = f"{directory}, {free / 1024**3:,.1f} GiB free"
    if free < FREE_BYTES_WANTED:
        yield warning(about, found, "Make room: a broker refuses writes when the disk is nearly full.")
    else:
        yield ok(about, found)
    kind = _file_system(existing)
    if kind in DOUBTFUL_FILE_SYSTEMS:
        yield warning("File system", kind, f"Use a local disk: {DOUBTFUL_FILE_SYSTEMS[kind]}.")
    yield _look_at_flushes(existing)


def _file_system(path: Path) -> str | None:
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return None
    real = path.resolve()
    above = [(len(fields[1]), fields[2]) for fields in mounts if real.is_relative_to(fields[1])]
    return max(above)[1] if above else None


def _look_at_flushes(directory: Path) -> Finding:
    took = []
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            for _ in range(FLUSHES):
                file.write(bytes(4096))
                file.flush()
                before = time.perf_counter()
                os.fdatasync(file.fileno())
                took.append((time.perf_counter() - before) * 1000)
    except OSError as error:
        return problem("Data directory", f"{directory} cannot be written: {error.strerror}", "Choose another with --data DIR.")
    middle = sorted(took)[FLUSHES // 2]
    found = f"{middle:.1f} ms, the slowest of {FLUSHES} {max(took):.1f} ms"
    if middle > SLOW_FLUSH_MS:
        return warning(
            "Flush", found, "Every acknowledgement waits for one: use a faster disk, or flush=interval where loss is acceptable."
        )
    return ok("Flush", found)


def look_at_ports(config: BrokerConfig) -> Iterator[Finding]:
    """Whether a broker could listen where it is told to."""
    addresses = [(each.address.host, each.address.port) for each in read_listeners(config).each]
    for host, port in addresses:
        about, shown = "Port", f"{host or '0.0.0.0'}:{port}"
        try:
            socket.create_server((host or "0.0.0.0", port)).close()
        except OSError as error:
            advice = "A broker that runs there already is fine; another one needs --listen HOST:PORT."
            yield warning(about, f"{shown}: {error.strerror}", advice)
        else:
            yield ok(about, f"{shown} is free")

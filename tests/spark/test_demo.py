"""`headrace demo`: windows and dead letters come out, and Ctrl-C leaves nothing behind."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from io import StringIO
from pathlib import Path

import pytest

from headrace.spark.demo.view import FIXED_LINES, Seen, render
from tests.spark.conftest import committed_messages
from tests.support.waiting import until

HEADRACE = str(Path(sys.executable).with_name("headrace"))


@pytest.mark.timeout(240)
@pytest.mark.spark_processes
def test_the_demo_shows_windows_and_dead_letters_and_ctrl_c_ends_everything_it_started(tmp_path: Path) -> None:
    log = tmp_path / "demo.log"
    command = [HEADRACE, "demo", "--every", "1 second", "--window", "1 second", "--rate", "100"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, start_new_session=True)
    try:
        _until(lambda: "events go to" in log.read_text(errors="replace"), process)
        address = re.findall(r"events go to (\S+);", log.read_text())[0]
        _until(lambda: len(committed_messages(address, "demo.statistics", 2)) > 0, process)
        _until(lambda: len(committed_messages(address, "demo.orders.dead-letter", 2)) > 0, process)
        started, own = _descendants(process.pid), _children([process.pid])
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(90) == 0
        assert [pid for pid in own if _alive(pid)] == []
    finally:
        for pid in {*_descendants(process.pid), process.pid}:
            _kill(pid)
        process.wait()

    assert len(own) == 2, "a broker and Java"
    assert len(started) >= 3, "and Java's Python workers"
    _until(lambda: not any(_alive(pid) for pid in started), None)
    assert list(tmp_path.glob("headrace-demo-*")) == []
    assert "latest dead letters of" in log.read_text()


@pytest.mark.parametrize("height", [FIXED_LINES + 2, 24, 60])
def test_the_view_is_no_taller_than_the_terminal(height: int) -> None:
    from rich.console import Console

    window = {"window_start": "2026-01-01T00:00:00.000Z", "window_end": "2026-01-01T00:00:20.000Z"}
    seen = Seen(window_count=12, letter_count=7)
    seen.windows.extend([window | {"key": "[ada]", "count": 1, "sum": 1.0, "mean": 1.0, "p95": 1.0}] * 10)
    seen.letters.extend([("demo.orders", "[/bold]", "why")] * 5)
    screen = StringIO()
    console = Console(width=100, height=height, file=screen)
    console.print(render({"demo.orders": 3}, [], seen, "there:1", height))
    text = screen.getvalue()

    assert len(text.splitlines()) < height
    assert "00:00:00 – 00:00:20" in text
    assert "[/bold]" in text


def _descendants(root: int) -> list[int]:
    found: list[int] = []
    fresh = [root]
    while fresh:
        fresh = _children(fresh)
        found += fresh
    return found


def _children(of: list[int]) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) in of:
                found.append(int(stat.parent.name))
    return found


def _alive(pid: int) -> bool:
    """Whether a process still does something; one that only waits to be counted by its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _until(reached: Callable[[], bool], process: "subprocess.Popen[bytes] | None") -> None:
    def is_reached() -> bool:
        assert process is None or process.poll() is None, "the demo ended by itself"
        return reached()

    until(is_reached, seconds=5 if process is None else 150, every_s=0.3)

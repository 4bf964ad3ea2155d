"""A test of real processes that fails is tried again and listed; a run that needs more than three such tries fails."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.second_tries import PROCESSES

ROOT = Path(__file__).parents[2]
# What starts a process, by the names that tests know it by.
STARTERS = ("subprocess", "BrokerProcess", "EtcdCluster", "MemberProcess", "needs_kafkajs", "ProcessCluster", "Stage")

# The hooks of our own tests, where `test_processes.py` takes the place of those that start real processes.
HOOKS = """
from tests.support import second_tries
second_tries.PROCESSES, second_tries.TRIES_AGAIN_AFTER_S = ("test_processes.py",), 0
from tests.conftest import (
    pytest_collection_modifyitems, pytest_runtest_logreport, pytest_sessionfinish, pytest_terminal_summary
)
"""

# Fails the first time, and passes the second.
FALTERING = """
import pathlib, pytest

@pytest.mark.parametrize("number", range({count}))
def test_falters(number):
    seen = pathlib.Path(__file__).with_name(f"{name}-{{number}}")
    if not seen.exists():
        seen.touch()
        error = AssertionError(f"number {{number}} starved")
        # As what is left to the garbage collector is told of.
        raise error if number else ExceptionGroup("several", [error])
"""


def run(directory: Path, workers: int, *, of_processes: int = 0, of_others: int = 0) -> "subprocess.CompletedProcess[str]":
    (directory / "conftest.py").write_text(HOOKS)
    (directory / "test_processes.py").write_text(FALTERING.format(count=of_processes, name="process"))
    (directory / "test_others.py").write_text(FALTERING.format(count=of_others, name="other"))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(directory),
        "-n",
        str(workers),
        str(directory),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.slow
def test_three_second_tries_are_listed_with_their_reasons_and_the_run_passes(tmp_path: Path) -> None:
    done = run(tmp_path, workers=2, of_processes=3)

    assert done.returncode == 0, done.stdout
    for number in range(3):
        assert f"tried again: test_processes.py::test_falters[{number}]" in done.stdout
        assert f"number {number} starved" in done.stdout


@pytest.mark.slow
def test_a_fourth_second_try_fails_the_run_though_every_test_passed(tmp_path: Path) -> None:
    done = run(tmp_path, workers=2, of_processes=4)

    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "FAILED: 4 tests were tried again, and 3 is the limit" in done.stdout
    assert "4 passed" in done.stdout


@pytest.mark.slow
def test_a_test_without_processes_has_no_second_try(tmp_path: Path) -> None:
    done = run(tmp_path, workers=0, of_others=1)

    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "1 failed" in done.stdout
    assert "tried again" not in done.stdout


@pytest.mark.parametrize("place", PROCESSES)
def test_what_may_be_tried_again_starts_processes(place: str) -> None:
    """All of Spark's tests do: its Java, and a Python for each of its tasks."""
    files = [ROOT / place] if place.endswith(".py") else sorted((ROOT / place).glob("test_*.py"))

    assert files
    if place != "tests/spark/":
        assert [path.name for path in files if not any(name in path.read_text() for name in STARTERS)] == []

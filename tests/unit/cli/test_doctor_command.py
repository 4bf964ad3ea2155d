"""`headrace doctor` finds what stands in the way, and says what to do about it."""

import json
import resource
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.node import checks
from headrace.cli.node.checks import Finding, Verdict
from headrace.testing import Broker

Command = Callable[..., Any]


def findings(command: Command, *words: str) -> tuple[int, dict[str, dict[str, str]]]:
    outcome = command("doctor", "--json", *words)
    return outcome.code, {finding["about"]: finding for finding in json.loads(outcome.output)}


@pytest.fixture
def hidden() -> Iterator[Broker]:
    """Serves here, and tells clients of an address at which nobody is."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        advertised = f"127.0.0.1:{closed.getsockname()[1]}"
        with Broker(settings={"advertised.listeners": advertised}) as broker:
            yield broker


def test_a_machine_in_order_and_a_cluster_that_answers_have_no_problems(client: Command, bootstrap: str, tmp_path: Path) -> None:
    code, found = findings(client, "--data", str(tmp_path / "data"))

    assert code == 0
    assert found["Cluster"]["verdict"] == "ok"
    assert found["Broker 1"]["found"] == f"reached at {bootstrap}"
    assert found["Flush"]["verdict"] in ("ok", "warning")
    assert not (tmp_path / "data").exists()


def test_a_cluster_that_is_not_there_is_a_warning_that_says_how_to_start_one(headrace: Command, tmp_path: Path) -> None:
    outcome = headrace("doctor", "--data", str(tmp_path), "--bootstrap", "127.0.0.1:1")

    assert outcome.code == 0
    assert "no broker answers at 127.0.0.1:1 (Connection refused)" in outcome.output
    assert "Start one with `headrace serve`" in outcome.output


def test_a_broker_that_advertises_what_cannot_be_reached_is_a_problem(headrace: Command, hidden: Broker, tmp_path: Path) -> None:
    code, found = findings(headrace, "--data", str(tmp_path), "--bootstrap", hidden.bootstrap)

    assert code == 1
    assert "Connection refused" in str(found)
    assert any("advertised.listeners" in each["advice"] or each["about"] == "Cluster" for each in found.values())


def test_a_data_directory_that_is_a_file_is_a_problem(headrace: Command, tmp_path: Path) -> None:
    (tmp_path / "data").touch()

    code, found = findings(headrace, "--data", str(tmp_path / "data"), "--bootstrap", "127.0.0.1:1")

    assert (code, found["Data directory"]["verdict"]) == (1, "problem")


def test_a_misspelt_variable_is_found(headrace: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_NUM_PARTITION", "3")

    _, found = findings(headrace, "--data", str(tmp_path), "--bootstrap", "127.0.0.1:1")

    assert "Did you mean HEADRACE_NUM_PARTITIONS?" in found["Environment"]["found"]


@pytest.mark.parametrize(
    ("said", "verdict", "found"),
    [
        ('openjdk version "21.0.2" 2024-01-16', Verdict.OK, "version 21 at"),
        ('java version "1.8.0_292"', Verdict.PROBLEM, "version 1 at"),
        ("no such thing", Verdict.PROBLEM, "does not run"),
    ],
)
def test_a_java_that_is_too_old_or_does_not_run_is_a_problem(tmp_path: Path, said: str, verdict: Verdict, found: str) -> None:
    program = tmp_path / "java"
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    program.chmod(0o755)

    finding = checks.look_at_java(str(program))

    assert finding.verdict is verdict
    assert found in finding.found


def test_another_python_for_executors_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho 3.8\n")
    program.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(program))

    found = {finding.about: finding for finding in checks.look_at_spark()}["PYSPARK_PYTHON"]

    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert found == Finding(
        Verdict.PROBLEM,
        "PYSPARK_PYTHON",
        f"Python 3.8 at {program}",
        f"Spark needs the same Python on both sides: unset it, or name a Python {ours}.",
    )


def test_few_open_files_are_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, 4096))

    assert checks.look_at_open_files().verdict is Verdict.WARNING

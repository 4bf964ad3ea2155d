"""`headrace cluster`: a cluster on this machine from one command, looked at and moved about with the others."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headrace.testing.etcd import etcd_program
from tests.support.process import free_port
from tests.support.waiting import until

pytestmark = [pytest.mark.etcd, pytest.mark.slow]

SECONDS_MAX = 90.0  # for what starts two processes after each other, on a busy machine

HEADRACE = [sys.executable, "-c", "from headrace.cli.main import main; main()"]
NEEDS_ETCD = pytest.mark.skipif(etcd_program() is None, reason="etcd is not installed (Debian: apt install etcd-server)")


def headrace(*arguments: str, bootstrap: str, check: bool = True) -> str:
    done = subprocess.run(
        [*HEADRACE, *arguments], env={**os.environ, "HEADRACE_BOOTSTRAP": bootstrap}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout + ("" if check else done.stderr)


def running_below(directory: Path) -> list[str]:
    """The commands of processes that name this directory."""
    commands = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            commands.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [command for command in commands if str(directory) in command]


def listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def has_ended(process: "subprocess.Popen[bytes]") -> bool:
    process.send_signal(signal.SIGHUP)
    return process.poll() is not None


def status(bootstrap: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(headrace("cluster", "status", "--json", bootstrap=bootstrap))
    return answer


@pytest.fixture
def started(tmp_path: Path) -> Iterator[tuple[Path, str, list[subprocess.Popen[bytes]]]]:
    port, directory = free_port(in_a_row=4), tmp_path / "cluster"
    log = (tmp_path / "up.log").open("wb")
    command = [*HEADRACE, "cluster", "up", "--brokers", "2", "--directory", str(directory), "--port", str(port)]
    processes = [subprocess.Popen(command, stdout=log, stderr=log)]
    bootstrap = f"127.0.0.1:{port}"
    try:
        # Before somebody listens there each question would only take time from those that start.
        until(lambda: listens(port + 1) or processes[0].poll() is not None, "the second broker listens", SECONDS_MAX)
        deadline = time.monotonic() + SECONDS_MAX
        while "HEALTHY" not in headrace("cluster", "status", bootstrap=bootstrap, check=False):
            assert time.monotonic() < deadline, (tmp_path / "up.log").read_text()
            assert processes[0].poll() is None, (tmp_path / "up.log").read_text()
        yield directory, bootstrap, processes
    finally:
        for process in processes[1:]:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        # As when its terminal is closed: everything that it started ends with it, however often it is told.
        until(lambda: has_ended(processes[0]), "the cluster ends", every_s=0.05)
        log.close()
        assert not running_below(directory)


@NEEDS_ETCD
@pytest.mark.timeout(300)
def test_a_cluster_starts_grows_is_balanced_and_drained(started: tuple[Path, str, list[subprocess.Popen[bytes]]]) -> None:
    directory, bootstrap, processes = started
    headrace("topic", "create", "t", "--partitions", "6", "--replication-factor", "2", bootstrap=bootstrap)
    add = subprocess.Popen([*HEADRACE, "cluster", "add", "--directory", str(directory)], stdout=subprocess.DEVNULL)
    processes.append(add)
    until(lambda: listens(int(bootstrap.rpartition(":")[2]) + 2), "the third broker listens", SECONDS_MAX)
    deadline = time.monotonic() + SECONDS_MAX
    while len(status(bootstrap)["brokers"]) < 3:
        assert time.monotonic() < deadline
    headrace("cluster", "rebalance", "--yes", "--throttle", "10000000", bootstrap=bootstrap)
    balanced = status(bootstrap)
    headrace("cluster", "drain", "3", "--yes", bootstrap=bootstrap)
    drained = status(bootstrap)

    assert [broker["replicas"] for broker in balanced["brokers"]] == [4, 4, 4]
    assert [broker["leads"] for broker in balanced["brokers"]] == [2, 2, 2]
    assert [broker["replicas"] for broker in drained["brokers"]] == [6, 6, 0]
    assert {broker["state"] for broker in drained["brokers"]} == {"HEALTHY"}
    assert drained["under_replicated"] == drained["moving"] == []
    refused = headrace("cluster", "drain", "2", "--dry-run", bootstrap=bootstrap)
    assert "t-0" in refused
    assert "is running; stop it first" in headrace("cluster", "forget", "3", bootstrap=bootstrap, check=False)
    add.send_signal(signal.SIGTERM)
    add.wait(60)
    headrace("cluster", "forget", "3", bootstrap=bootstrap)
    assert [broker["broker_id"] for broker in status(bootstrap)["brokers"]] == [1, 2]
    again = headrace("cluster", "up", "--directory", str(directory), bootstrap=bootstrap, check=False)
    assert "is already running" in again


def test_without_etcd_one_sentence_says_how_to_get_it(tmp_path: Path) -> None:
    command = [*HEADRACE, "cluster", "up", "--directory", str(tmp_path / "c"), "--port", str(free_port(in_a_row=4))]
    done = subprocess.run(command, env={**os.environ, "PATH": str(tmp_path)}, capture_output=True, text=True, timeout=60)

    assert done.returncode == 1
    assert "apt install etcd-server" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        command = [*HEADRACE, "cluster", "up", "--directory", str(tmp_path / "c"), "--port", str(port)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert done.returncode == 1
    assert f"port {port}, which broker 1 needs, is taken by another program" in done.stderr
    assert "Traceback" not in done.stderr

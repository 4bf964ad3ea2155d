"""Which processes of a local cluster run is known from locks that they hold, not from numbers alone."""

import os
import subprocess
from pathlib import Path

import pytest

from headrace.cli.cluster.pid_files import locked_pid_file, refuse_if_running, running, write_pid
from headrace.cli.failure import Failure


def started(directory: Path, name: str) -> "subprocess.Popen[bytes]":
    with locked_pid_file(directory, name) as file:
        process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=(file.fileno(),))
        write_pid(file, process.pid)
        return process


def test_what_runs_is_named_with_how_to_end_it_until_it_has_ended(tmp_path: Path) -> None:
    with started(tmp_path, "etcd") as etcd, started(tmp_path, "broker-1") as broker:
        assert running(tmp_path) == {"broker-1": broker.pid, "etcd": etcd.pid}
        with pytest.raises(Failure) as refused:
            refuse_if_running(tmp_path)
        assert f"broker-1 (pid {broker.pid}), etcd (pid {etcd.pid})" in str(refused.value)
        assert f"`kill {broker.pid} {etcd.pid}`" in str(refused.value)
        with pytest.raises(Failure, match=f"pid {broker.pid}"), locked_pid_file(tmp_path, "broker-1"):
            pass
        broker.kill()
        broker.wait()
        assert running(tmp_path) == {"etcd": etcd.pid}

    assert not running(tmp_path)
    refuse_if_running(tmp_path)


def test_a_number_that_belongs_to_another_process_by_now_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "broker-1.pid").write_text(f"{os.getpid()}\n")

    assert not running(tmp_path)

"""Which processes of a local cluster run, also when the `cluster up` that started them was killed.

A process inherits its pid file, locked: the lock is free once it has ended, however that came about, and a number that meanwhile
belongs to another process is not taken for it.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from headrace.cli.failure import Failure

SUFFIX = ".pid"


@contextmanager
def locked_pid_file(directory: Path, name: str) -> Iterator[TextIO]:
    """For a process that is about to start: let it inherit the descriptor, and write down its number."""
    with (directory / f"{name}{SUFFIX}").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            refuse_if_running(directory)
            raise Failure(f"{name} of the cluster in {directory.absolute()} is being started by somebody else.") from None
        file.truncate(0)
        yield file


def write_pid(file: TextIO, pid: int) -> None:
    file.write(f"{pid}\n")
    file.flush()


def running(directory: Path) -> dict[str, int]:
    """The processes that hold their files, by name; brokers come before etcd, as they have to end before it."""
    found = {}
    for path in sorted(directory.glob(f"*{SUFFIX}")):
        with path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                number = file.read().strip()
                if number:
                    found[path.stem] = int(number)
    return found


def refuse_if_running(directory: Path) -> None:
    """Say what still runs and how to end it."""
    found = running(directory)
    if found:
        processes = ", ".join(f"{name} (pid {pid})" for name, pid in found.items())
        raise Failure(
            f"the cluster in {directory.absolute()} still runs, though its `cluster up` is gone: {processes}; "
            f"end it with `kill {' '.join(map(str, found.values()))}`, then start it again."
        )

"""A broker in a process of its own, as people run it: `headrace serve`.  It is ended by its test, by its id."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.waiting import until

READY_SECONDS_MAX = 60.0


def free_port(in_a_row: int = 1) -> int:
    """A port that nobody uses; with `in_a_row`, the first of so many."""
    while True:
        with contextlib.ExitStack() as probes, contextlib.suppress(OSError, OverflowError):
            first = 0
            for index in range(in_a_row):
                probe = probes.enter_context(socket.socket())
                probe.bind(("127.0.0.1", first and first + index))
                first = first or int(probe.getsockname()[1])
            return first


class BrokerProcess:
    """Start, kill -9 and start again on the same data and port."""

    def __init__(self, data: Path | None, settings: Mapping[str, str] | None = None, *, arguments: tuple[str, ...] = ()) -> None:
        self.data = data
        self.port = free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self._settings = dict(settings or {})
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None
        self.log_path = (data.parent if data is not None else Path(os.devnull).parent) / f"broker-{self.port}.log"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Return when the broker answers."""
        where = ["--memory"] if self.data is None else ["--data", str(self.data)]
        environment = {"HEADRACE_" + name.upper().replace(".", "_"): value for name, value in self._settings.items()}
        with open(os.devnull if self.data is None else self.log_path, "ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "headrace", "serve", *where, "--listen", self.bootstrap, *self._arguments],
                env={**os.environ, **environment},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            self._wait_until_ready()
        except BaseException:
            # Nobody leaves a `with` that was never entered.
            self.kill()
            raise

    def _wait_until_ready(self) -> None:
        until(self._answers, lambda: f"the broker answers:\n{self.output()}", READY_SECONDS_MAX, every_s=0.01)

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError(f"the broker ended at its start:\n{self.output()}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it politely; its exit code."""
        assert self._process is not None
        self._process.send_signal(number)
        code = self._process.wait(30)
        self._process = None
        return code

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def memory_bytes(self) -> int:
        """Resident memory now."""
        with open(f"/proc/{self.pid}/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def output(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.is_file() else ""

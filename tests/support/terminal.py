"""A reader's terminals: the shell blocks of a page, typed line by line as they stand there.

What ends by itself has to end well.  What goes on until Ctrl-C has to show that it does its work, gets its Ctrl-C, and has to
end well then: a broker, a cluster or a gateway when the next one is started or the page is over, anything else at once.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.waiting import until

ENDS_SECONDS_MAX = 60.0
SHOWS_SECONDS_MAX = 120.0  # Spark takes its time to start on a busy machine
LOOK_S = 0.02
BROKER, GATEWAY, FOLLOWER = "broker", "gateway", "follower"
# What goes on until Ctrl-C, which of the two it is, and what it shows once it does its work.
GOES_ON = (
    (re.compile(r"headrace serve\b|^make\b.* run$"), BROKER, "Headrace serves at"),
    (re.compile(r"headrace gateway\b"), GATEWAY, "Headrace gateway"),
    (re.compile(r"headrace console\b"), GATEWAY, "Headrace console"),
    (re.compile(r"headrace cluster up\b"), BROKER, "serve at"),
    (re.compile(r"headrace consume\b.* --follow\b"), FOLLOWER, "\n"),
    (re.compile(r"headrace pipeline (run|submit)\b"), FOLLOWER, "batch 0"),
)


class Terminal:
    """`translate` says what to type for a line of a page; `feed` is called while something that goes on has nothing to show."""

    def __init__(
        self,
        directory: Path,
        environment: Mapping[str, str],
        translate: Callable[[str], str] = lambda line: line,
        feed: Callable[[str], None] = lambda line: None,
    ) -> None:
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        inherited = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
        self._environment = {**inherited, "PATH": programs, **environment}
        self._directory = directory
        self._translate = translate
        self._feed = feed
        self._going: dict[str, Going] = {}  # what stays until the next of its kind is started
        self.missing: set[str] = set()

    def run(self, code: str, where: str) -> str:
        """Type every line of a block; what they printed."""
        lines = [re.sub(r"(^|\s)#.*", "", line).strip() for line in code.replace("\\\n", " ").splitlines()]
        return "".join(self._run(line, f"{where}: {line}") for line in lines if line)

    def _run(self, line: str, where: str) -> str:
        program = line.split()[0]
        if "=" not in program and shutil.which(program, path=self._environment["PATH"]) is None:
            self.missing.add(program)
            return ""
        line = self._translate(line)
        for pattern, kind, shows in GOES_ON:
            if pattern.search(line):
                return self._run_until_it_shows(line, where, kind, shows)
        process = subprocess.Popen(
            ["sh", "-e", "-c", line],
            cwd=self._directory,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            shown, said = process.communicate(timeout=ENDS_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            # With everything that it started.
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
        assert process.returncode == 0, f"{where}: {shown}{said}"
        return shown

    def _run_until_it_shows(self, line: str, where: str, kind: str, shows: str) -> str:
        if kind != FOLLOWER:
            self._end(kind)
        going = Going(line, where, self._directory, self._environment)
        try:
            going.wait_until(shows, lambda: self._feed(line))
        except BaseException:
            going.end()
            raise
        if kind != FOLLOWER:
            self._going[kind] = going
        else:
            going.interrupt()
        return going.output()

    def _end(self, kind: str) -> None:
        if (going := self._going.pop(kind, None)) is not None:
            going.interrupt()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            for kept in (GATEWAY, BROKER):
                self._end(kept)
        else:
            for going in self._going.values():
                going.end()


class Going:
    """A command in the foreground of a terminal of its own."""

    def __init__(self, line: str, where: str, directory: Path, environment: Mapping[str, str]) -> None:
        self._where = where
        self._shown = directory / f"shown-{time.monotonic_ns()}"
        with self._shown.open("wb") as shown:
            self._process = subprocess.Popen(
                ["sh", "-c", line],
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=shown,
                stderr=shown,
                start_new_session=True,
            )

    def output(self) -> str:
        return self._shown.read_text(errors="replace")

    def wait_until(self, shows: str, feed: Callable[[], None]) -> None:
        def is_shown() -> bool:
            if shows in self.output():
                return True
            assert self._process.poll() is None, f"{self._where}: it ended by itself\n{self.output()}"
            feed()
            return False

        until(is_shown, lambda: f"{self._where} shows {shows!r}\n{self.output()}", SHOWS_SECONDS_MAX, every_s=LOOK_S)

    def interrupt(self) -> None:
        """Ctrl-C has to end it, and well."""
        assert self.end(), f"{self._where}: Ctrl-C did not end it\n{self.output()}"
        code = self._process.returncode
        assert code in (0, 130, -signal.SIGINT), f"{self._where}: after Ctrl-C it ended with {code}\n{self.output()}"
        assert "Traceback" not in self.output(), f"{self._where}: {self.output()}"

    def end(self) -> bool:
        """Ctrl-C, which reaches everything in the foreground and lets it end what it started itself; kill -9 if that is not
        enough."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGINT)
        try:
            self._process.wait(ENDS_SECONDS_MAX)
            return True
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            return False

"""Prometheus' own programs, where they are installed (Debian: `apt install prometheus prometheus-alertmanager`)."""

import json
import re
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import pytest

from headrace.cli.monitoring.rules import GROUPS, Alert
from tests.support.process import free_port

DURATION = re.compile(r"\b(\d+)(s|m|h)\b")
SECONDS = {"s": 1, "m": 60, "h": 3600}


def all_alerts() -> list[Alert]:
    """Those that `headrace monitoring write` gives."""
    return [alert for group in GROUPS.values() for alert in group]


def program(name: str) -> str:
    """Its path.  Where it is not installed, the test is skipped."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed (Debian: apt install prometheus prometheus-alertmanager)")
    return found


def accepts(name: str, *arguments: str | Path) -> None:
    """The program has nothing to complain about."""
    ended = subprocess.run([program(name), *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)

    assert ended.returncode == 0, ended.stdout + ended.stderr


def hastened(text: str, times: int) -> str:
    """Every duration in a configuration or an expression, so many times shorter."""
    return DURATION.sub(lambda found: f"{int(found[1]) * SECONDS[found[2]] * 1000 // times}ms", text)


class Prometheus:
    """A real one, on a configuration of ours: `with Prometheus(directory, files) as prometheus: prometheus.query("up")`."""

    def __init__(self, directory: Path, files: Mapping[str, str]) -> None:
        self._program = program("prometheus")
        self._directory = directory
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        for name, text in files.items():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(text)

    def __enter__(self) -> Self:
        where = f"--storage.tsdb.path={self._directory / 'tsdb'}"
        arguments = ["--config.file=prometheus.yml", where, f"--web.listen-address=127.0.0.1:{self._port}", "--log.level=warn"]
        with (self._directory / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(
                [self._program, *arguments], cwd=self._directory, stdout=log, stderr=subprocess.STDOUT
            )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def is_ready(self) -> bool:
        """Whether it answers; it starts within a second or so."""
        assert self._process is not None
        assert self._process.poll() is None, (self._directory / "prometheus.log").read_text()
        try:
            return self._get("/-/ready").startswith(b"Prometheus")
        except (urllib.error.URLError, ConnectionError):
            return False

    def query(self, expression: str) -> list[dict[str, Any]]:
        """What it returns now: labels and a value each."""
        answer = json.loads(self._get("/api/v1/query?" + urllib.parse.urlencode({"query": expression})))
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found

    def firing(self) -> set[str]:
        """The names of all alerts that fire."""
        alerts = json.loads(self._get("/api/v1/alerts"))["data"]["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    def _get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=30) as answer:
            body: bytes = answer.read()
            return body

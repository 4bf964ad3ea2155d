"""What a broker tells over HTTP of whether it is alive and ready."""

import asyncio
import json
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.health.health import for_anybody
from headrace.broker.parts import Host
from headrace.host.disk import SystemDisk
from headrace.testing import Broker
from tests.support.process import free_port
from tests.support.waiting import until, until_async

SECONDS_MAX = 20.0


def ask(port: int, path: str) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=SECONDS_MAX) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refusal:
        return refusal.code, json.load(refusal)


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def settings(port: int) -> dict[str, str]:
    return {"headrace.health.listener": f"127.0.0.1:{port}"}


@pytest.mark.parametrize("path", ["/live", "/ready"])
def test_a_broker_that_serves_is_alive_and_ready(path: str) -> None:
    port = free_port()
    with Broker(settings=settings(port)):
        assert ask(port, path) == (200, {"ready": True, "state": "HEALTHY", "reasons": [], "replicas_behind": 0})


def test_one_that_lost_its_place_in_the_cluster_is_alive_but_not_ready() -> None:
    port = free_port()
    with Broker(settings=settings(port)) as broker:
        broker.run(lambda real: setattr(real.parts.membership, "lease", 0))

        assert ask(port, "/live")[0] == 200
        assert ask(port, "/ready") == (
            503,
            {
                "ready": False,
                "state": "DOWN",
                "reasons": ["the broker lost its place in the cluster and is registering anew"],
                "replicas_behind": 0,
            },
        )


def test_one_whose_disk_is_gone_is_not_ready_and_says_so(tmp_path: Path) -> None:
    port = free_port()
    with Broker(data=tmp_path / "data", settings=settings(port)):
        shutil.rmtree(tmp_path / "data")
        until(lambda: ask(port, "/ready")[0] != 200)
        answer = ask(port, "/ready")

    assert answer[1]["state"] == "DEGRADED"
    assert answer[1]["reasons"] == ["the log directory is gone"]


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("the role of payroll-0 failed: OSError: /data/payroll-0", "the role of a replica failed"),
        (
            "the TLS certificate of SSL expires at 2026-11-19 02:09 UTC",
            "the TLS certificate of SSL expires at 2026-11-19 02:09 UTC",
        ),
    ],
)
def test_whoever_asks_for_health_is_told_no_more_than_anybody_may_know(reason: str, told: str) -> None:
    assert for_anybody(reason) == told


class HeldDisk(SystemDisk):
    """Lists no directory before it may, so that a start takes as long as the test wants."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def list_names(self, path: Path) -> list[str]:
        until((self._directory / "go").exists)
        return super().list_names(path)


def test_one_that_still_opens_its_logs_is_alive_but_not_ready(tmp_path: Path) -> None:
    port = free_port()

    async def story() -> None:
        broker = Broker(data=tmp_path / "data", settings=settings(port), host=Host(disk=HeldDisk(tmp_path)))
        starting = asyncio.create_task(asyncio.to_thread(broker.__enter__))
        await until_async(lambda: answers(port), "the broker's health is served")
        alive, ready = await asyncio.to_thread(ask, port, "/live"), await asyncio.to_thread(ask, port, "/ready")
        (tmp_path / "go").touch()
        await starting
        served = await asyncio.to_thread(ask, port, "/ready")
        await asyncio.to_thread(broker.__exit__, None, None, None)

        assert alive[0] == 200
        assert ready == (503, {"ready": False, "state": "DOWN", "reasons": ["the broker is starting"], "replicas_behind": 0})
        assert served[0] == 200

    asyncio.run(story())


def test_an_address_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        command = [sys.executable, "-m", "headrace", "serve", "--data", str(tmp_path), "--listen", "127.0.0.1:0"]
        ended = subprocess.run(
            [*command, "--set", f"headrace.health.listener={address}"], capture_output=True, text=True, timeout=SECONDS_MAX
        )

    assert ended.returncode != 0
    assert f"headrace.health.listener={address}: " in ended.stderr
    assert "Traceback" not in ended.stderr

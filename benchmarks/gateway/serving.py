"""A gateway in a process of its own for benchmarks, and an endpoint for its webhooks in this one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

READY_S = 60.0
LOOPBACK = ("--webhook-network", "127.0.0.0/8", "--webhook-http")


@dataclass(slots=True)
class Running:
    """A gateway, and what it has cost so far."""

    url: str
    pid: int

    def cpu_s(self) -> float:
        with open(f"/proc/{self.pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mib(self) -> float:
        with open(f"/proc/{self.pid}/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@contextmanager
def gateway(bootstrap: str) -> Iterator[Running]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "headrace", "gateway", "--bootstrap", bootstrap, "--listen", f"127.0.0.1:{port}", *LOOPBACK]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + READY_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if time.monotonic() > deadline or process.poll() is not None:
                    raise RuntimeError("the gateway does not answer") from None
                time.sleep(0.05)
        yield Running(f"http://127.0.0.1:{port}", process.pid)
    finally:
        process.terminate()
        process.wait(30)


@dataclass(slots=True)
class Endpoint:
    """Notes when each record came; values are the moments at which they were sent."""

    url: str = ""
    delays_s: list[float] = field(default_factory=list)


@asynccontextmanager
async def endpoint() -> AsyncIterator[Endpoint]:
    found = Endpoint()

    async def take(request: web.Request) -> web.Response:
        now = time.time()
        posted: dict[str, Any] = await request.json()
        if "challenge" in posted:
            return web.json_response({"challenge": posted["challenge"]})
        found.delays_s += [now - record["value"] for record in posted.get("records", [posted])]
        return web.Response()

    application = web.Application(client_max_size=2**24)
    application.router.add_post("/hook", take)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    try:
        yield found
    finally:
        await runner.cleanup()


async def answer_of(response: aiohttp.ClientResponse) -> bytes:
    body = await response.read()
    if response.status >= 300:
        raise RuntimeError(f"the gateway answered {response.status}: {body[:300]!r}")
    return body

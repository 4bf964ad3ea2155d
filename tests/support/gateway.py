"""Gateways for tests: one on a loop in a thread of this process, and one in a process of its own that can be killed."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from headrace.gateway.gateway import Addition, Gateway
from headrace.gateway.settings import GatewaySettings
from tests.support.process import free_port
from tests.support.waiting import until


class GatewayThread:
    """`client` asks it."""

    additions: Sequence[Callable[[Gateway], Addition]] = ()

    def __init__(self, bootstrap: str, **settings: Any) -> None:
        self._settings = GatewaySettings(bootstrap=bootstrap, **{"listen": "127.0.0.1:0", **settings})
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gateway", daemon=True)

    def call(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    async def _start(self) -> Gateway:
        gateway = Gateway(self._settings, self.additions)
        await gateway.start()
        return gateway

    def __enter__(self) -> Self:
        self._thread.start()
        self.gateway: Gateway = self.call(self._start())
        self.url = self.gateway.server.url
        self.client = httpx.Client(base_url=self.url, timeout=60, verify=False)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.client.close()
        self.call(self.gateway.stop())
        for _ in range(3):  # turns in which transports close
            self.call(asyncio.sleep(0))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def ask(self, what: Callable[[Gateway], Any]) -> Any:
        """Something of the gateway, looked at on its loop."""

        async def look() -> Any:
            return what(self.gateway)

        return self.call(look())


class GatewayProcess:
    """`headrace gateway`, as people run it."""

    def __init__(self, bootstrap: str, log: Path, *arguments: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._arguments = ["--bootstrap", bootstrap, "--listen", f"127.0.0.1:{self.port}", *arguments]
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self.client = httpx.Client(base_url=self.url, timeout=60)

    def __enter__(self) -> Self:
        with open(self._log, "ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "headrace", "gateway", *self._arguments],
                env={**os.environ, "HEADRACE_STATE": str(self._log.parent / "state")},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            until(self._answers, lambda: f"the gateway answers:\n{self._log.read_text()}", 60, every_s=0.05)
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError(f"the gateway ended at its start:\n{self._log.read_text()}")
        try:
            return self.client.get("/live").status_code == 200
        except httpx.TransportError:
            return False

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """kill -9."""
        self.client.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> int:
        """End it politely; its exit code."""
        assert self._process is not None
        self._process.terminate()
        code = self._process.wait(30)
        self._process = None
        return code

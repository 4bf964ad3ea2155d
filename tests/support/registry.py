"""A schema registry for tests: in a thread of this process, or as a process of its own (`python -m tests.support.registry`)."""

import asyncio
import sys
import threading
from types import TracebackType
from typing import Any, Self

import httpx
from aiohttp import web

from headrace.registry.application import application
from headrace.registry.log.connection import Connection


async def serve(connection: Connection, authorize: Any = None) -> tuple[web.AppRunner, str]:
    runner = web.AppRunner(application(connection, authorize=authorize))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"


class Registry:
    """Use it in a `with` block; `url` is where it listens, and `ask` asks it."""

    def __init__(self, bootstrap: str, topic: str, authorize: Any = None) -> None:
        self._connection = Connection(bootstrap=bootstrap, topic=topic)
        self._authorize = authorize
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="test-registry", daemon=True)
        self.url = ""

    def __enter__(self) -> Self:
        self._thread.start()
        started = asyncio.run_coroutine_threadsafe(serve(self._connection, self._authorize), self._loop)
        self._runner, self.url = started.result(60)
        self._client = httpx.Client(base_url=self.url, timeout=60)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._client.close()
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The status, and the body or the error's code."""
        answer = self._client.request(method, path, json=body) if body is not None else self._client.request(method, path)
        told = answer.json() if answer.content else None
        return answer.status_code, told["error_code"] if isinstance(told, dict) and "error_code" in told else told


async def _main(bootstrap: str, topic: str) -> None:
    _, url = await serve(Connection(bootstrap=bootstrap, topic=topic))
    print(url, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))

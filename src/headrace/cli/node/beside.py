"""A gateway beside a broker in one process, for one machine: on a loop and a thread of its own, and over the wire like others."""

import logging
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from headrace.gateway.gateway import Addition, Gateway
    from headrace.gateway.settings import GatewaySettings

logger = logging.getLogger(__name__)

START_SECONDS_MAX = 10.0
STOP_SECONDS_MAX = 8.0


class GatewayBeside:
    """Started when the broker serves, and stopped after it has ended."""

    def __init__(self, settings: "GatewaySettings", additions: "Sequence[Callable[[Gateway], Addition]]" = ()) -> None:
        self._settings = settings
        self._additions = additions
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._ready = threading.Event()
        self._failure: Exception | None = None
        self.url = ""
        self.gateway: Gateway | None = None
        self._thread = threading.Thread(target=self._run, name="headrace-gateway", daemon=True)

    def start(self) -> None:
        """Return when it listens.  Raises OSError where it cannot."""
        self._thread.start()
        self._ready.wait(START_SECONDS_MAX)
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        if self._loop is not None and self._stopping is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(STOP_SECONDS_MAX)

    def _run(self) -> None:
        import asyncio

        import uvloop

        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve())
        except Exception as error:
            self._failure = error
            if self._ready.is_set():
                logger.exception("the gateway has ended; the broker goes on without it")
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        import asyncio

        from headrace.gateway.gateway import serve

        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        await serve(self._settings, self._listens, self._stopping, self._additions)

    def _listens(self, gateway: "Gateway") -> None:
        self.url = gateway.server.url
        self.gateway = gateway
        self._ready.set()

"""Whether this broker is alive and ready: told over HTTP, at an address of its own, to whoever has to know it.

`/live` answers 200 for as long as the event loop turns.  `/ready` answers 200 from when clients are served and every replica that
another broker leads has been in sync again since the start, until the broker is asked to stop, and 503 otherwise.  Both tell in
JSON how it is, and answer before the logs are opened, which may take a while.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import orjson

from headrace.broker.cluster.participation import Participation
from headrace.model.listeners import Address, parse_address

if TYPE_CHECKING:
    from aiohttp import web


class Phase(StrEnum):
    """How far a broker is in its life."""

    STARTING = "starting"
    SERVING = "serving"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True)
class Condition:
    """`reasons` are words for people: why it is not ready, or what is not as it should be although it is."""

    ready: bool
    state: str  # HEALTHY, DEGRADED or DOWN, as `headrace cluster status` has it
    reasons: tuple[str, ...] = ()
    replicas_behind: int = 0  # not in sync again since the start; only while the broker has never been ready


def not_serving(phase: Phase) -> Condition:
    """How a broker is that does not serve yet, or no longer."""
    return Condition(False, "DOWN", (f"the broker is {phase}",))


def serving(participation: Participation, more_reasons: tuple[str, ...] = ()) -> Condition:
    """How a broker is that serves clients; `more_reasons` are those of its other parts."""
    if not participation.may_lead():
        return Condition(False, "DOWN", ("the broker lost its place in the cluster and is registering anew",))
    reasons = participation.health.reasons() + more_reasons
    behind = participation.catching_up.behind
    if behind:
        words = "1 replica has" if behind == 1 else f"{behind} replicas have"
        reasons += (f"{words} not caught up since the start",)
    ready = participation.health.lost is None and not behind
    return Condition(ready, "DEGRADED" if reasons else "HEALTHY", reasons, behind)


def health_address(text: str) -> Address:
    """Where to listen; it speaks HTTP and may be written so."""
    return parse_address(text.removeprefix("http://"))


class HealthListener:
    """The HTTP address; nothing at all where none is set."""

    def __init__(self, wanted: str | None, condition: Callable[[], Condition]) -> None:
        """`wanted` is the address that was set; `condition` is how the broker is when somebody asks."""
        self._wanted = wanted
        self._condition = condition
        self._runner: web.AppRunner | None = None
        self.address: Address | None = None

    async def start(self) -> None:
        if (wanted := self._wanted) is None:
            return
        # Most brokers do without, and start sooner for it.
        from aiohttp import web

        application = web.Application()
        application.add_routes([web.get("/live", self._live), web.get("/ready", self._ready)])
        self._runner = web.AppRunner(application, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, *health_address(wanted))
        try:
            await site.start()
        except OSError as error:
            await self.close()
            raise OSError(f"headrace.health.listener={wanted}: {error.strerror}") from None
        host, port, *_ = self._runner.addresses[0]
        self.address = Address(host, port)

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _live(self, request: "web.Request") -> "web.Response":
        return _answer(200, self._condition())

    async def _ready(self, request: "web.Request") -> "web.Response":
        found = self._condition()
        return _answer(200 if found.ready else 503, found)


def _answer(status: int, found: Condition) -> "web.Response":
    from aiohttp import web

    return web.Response(status=status, body=orjson.dumps(asdict(found)), content_type="application/json")

"""Whether this broker is alive and ready: told over HTTP, at an address of its own, to whoever has to know it.

`/live` answers 200 for as long as the event loop turns.  `/ready` answers 200 from when clients are served and every replica that
another broker leads has been in sync again since the start, until the broker is asked to stop, and 503 otherwise.  Both tell in
JSON how it is, and answer before the logs are opened, which may take a while.  Nobody is asked who they are here, so nothing is
told that needs protection.
"""

import re
from collections.abc import Callable
from dataclasses import asdict, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import orjson

from headrace.broker.cluster.participation import Participation
from headrace.declaring import dataclass

if TYPE_CHECKING:
    from aiohttp import web

    from headrace.broker.network.http_listener import Page


_ONE_ROLE: Final = re.compile(r"the role of \S+")


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


class HealthPages:
    """`/live` and `/ready`."""

    def __init__(self, condition: Callable[[], Condition]) -> None:
        """`condition` is how the broker is when somebody asks."""
        self._condition = condition

    @property
    def by_path(self) -> "dict[str, Page]":
        return {"/live": self._live, "/ready": self._ready}

    async def _live(self, request: "web.Request") -> "web.Response":
        return _answer(200, self._condition())

    async def _ready(self, request: "web.Request") -> "web.Response":
        found = self._condition()
        return _answer(200 if found.ready else 503, found)


def _answer(status: int, found: Condition) -> "web.Response":
    from aiohttp import web

    told = replace(found, reasons=tuple(map(for_anybody, found.reasons)))
    return web.Response(status=status, body=orjson.dumps(asdict(told)), content_type="application/json")


def for_anybody(reason: str) -> str:
    """What a reason says before its colon: behind it there may be directories, topics, or whatever an error had in it.  Those who
    may see these find them in `headrace cluster status` and in the log."""
    return _ONE_ROLE.sub("the role of a replica", reason.partition(": ")[0])

"""Schedules: when each fires next, and running, pausing or removing one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from headrace.client.admin.schedules import Schedules
from headrace.gateway.api.call import Call
from headrace.gateway.api.operations import Operations
from headrace.gateway.api.shapes import described

operations = Operations("console schedules")


@dataclass(frozen=True, slots=True)
class Act:
    """What to do with a schedule."""

    act: Annotated[Literal["run", "pause", "resume"], described("What.")]


def _schedules(call: Call) -> Schedules:
    return Schedules(call.caller.bootstrap, call.caller.credentials.properties)


@operations.get("/console/api/schedules", "All schedules", listed=False)
async def list_schedules(call: Call) -> dict[str, Any]:
    found = await asyncio.to_thread(_schedules(call).all)
    return {
        "schedules": [
            {
                "name": each.name,
                "parts": dict(each.parts),
                "paused": each.is_paused,
                "next": each.next_due_ms,
                "last": each.last_due_ms,
                "fired": each.fired,
            }
            for each in found.values()
        ]
    }


@operations.post("/console/api/schedules/{name}/acts", "Run, pause or resume a schedule", body=Act, listed=False)
async def act(call: Call) -> None:
    schedules, name, wanted = _schedules(call), call.path("name"), call.body.act
    if wanted == "run":
        await asyncio.to_thread(schedules.run, name)
    else:
        await asyncio.to_thread(lambda: schedules.pause(name, paused=wanted == "pause"))


@operations.delete("/console/api/schedules/{name}", "Remove a schedule", listed=False)
async def remove(call: Call) -> None:
    await asyncio.to_thread(_schedules(call).remove, call.path("name"))

"""Schedules: records that are sent at set times."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Annotated, Literal, TypeVar

from headrace.client.admin.schedules import Schedule, Schedules
from headrace.client.errors import InvalidArgument
from headrace.gateway.api.call import Call
from headrace.gateway.api.operations import Operations
from headrace.gateway.api.paging import PAGE, page
from headrace.gateway.api.shapes import described
from headrace.gateway.serving.problems import not_found

operations = Operations("schedules")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class NewSchedule:
    """When a record is sent, where to, and what it says."""

    cron: Annotated[str, described("Minute, hour, day, month, weekday.", minLength=1, maxLength=1000, example="0 3 * * *")]
    topic: Annotated[str, described("Where to.", minLength=1, maxLength=249, example="jobs")]
    timezone: Annotated[str, described("Whose time it is.", minLength=1, maxLength=100, example="Europe/Vienna")] = "UTC"
    value: Annotated[str | None, described("What the record says.")] = None
    key: Annotated[str | None, described("Its key.")] = None
    headers: Annotated[dict[str, str], described("Its headers.")] = field(default_factory=dict)
    missed: Annotated[
        Literal["skip", "once", "all"], described("What becomes of times that went by without a broker; once is the last one.")
    ] = "once"
    paused: Annotated[bool, described("Whether it rests.")] = False


@dataclass(frozen=True, slots=True)
class ScheduleShown:
    """A schedule, and how far it has got.  Times are milliseconds since 1970."""

    name: str
    cron: str
    topic: str
    timezone: str
    value: str | None
    key: str | None
    headers: dict[str, str]
    missed: str
    paused: bool
    next_due_ms: int | None
    last_due_ms: int | None
    fired: int


@dataclass(frozen=True, slots=True)
class SchedulePage:
    """Some schedules, and where the next page begins."""

    schedules: list[ScheduleShown]
    next: str | None


@dataclass(frozen=True, slots=True)
class Pause:
    """Whether a schedule rests.  What would have been due meanwhile is not made up for."""

    paused: bool


async def _with(call: Call, use: Callable[[Schedules], Result]) -> Result:
    caller = call.caller
    try:
        return await asyncio.to_thread(lambda: use(Schedules(caller.bootstrap, caller.credentials.properties)))
    except ValueError as error:
        raise InvalidArgument(f"the schedule is refused: {error}") from None


async def _found(call: Call) -> Schedule:
    found = (await _with(call, lambda schedules: schedules.all())).get(call.path("schedule"))
    if found is None:
        raise not_found("schedule_not_found", "There is no such schedule.", "GET /schedules lists those there are.")
    return found


def _shown(found: Schedule) -> ScheduleShown:
    parts = found.parts
    return ScheduleShown(
        found.name,
        parts["cron"],
        parts["topic"],
        parts.get("timezone") or "UTC",
        parts.get("value"),
        parts.get("key"),
        parts.get("headers") or {},
        parts.get("missed") or "once",
        found.is_paused,
        found.next_due_ms,
        found.last_due_ms,
        found.fired,
    )


@operations.get("/schedules", "List schedules", query=PAGE, answer=SchedulePage)
async def list_schedules(call: Call) -> SchedulePage:
    found = await _with(call, lambda schedules: schedules.all())
    shown, following = page(found.values(), call.query, lambda each: each.name)
    return SchedulePage([_shown(each) for each in shown], following)


@operations.get("/schedules/{schedule}", "Show a schedule", answer=ScheduleShown)
async def show_schedule(call: Call) -> ScheduleShown:
    return _shown(await _found(call))


@operations.put("/schedules/{schedule}", "Make a schedule, or change it", body=NewSchedule, answer=ScheduleShown)
async def put_schedule(call: Call) -> ScheduleShown:
    name, parts = call.path("schedule"), asdict(call.body)
    await _with(call, lambda schedules: schedules.put(name, parts))
    return _shown(await _found(call))


@operations.patch("/schedules/{schedule}", "Pause or resume a schedule", body=Pause, answer=ScheduleShown)
async def pause_schedule(call: Call) -> ScheduleShown:
    found, paused = await _found(call), call.body.paused
    await _with(call, lambda schedules: schedules.pause(found.name, paused=paused))
    return _shown(await _found(call))


@operations.delete("/schedules/{schedule}", "Remove a schedule")
async def remove_schedule(call: Call) -> None:
    found = await _found(call)
    await _with(call, lambda schedules: schedules.remove(found.name))


@operations.post("/schedules/{schedule}/runs", "Send its record now", status=202)
async def run_schedule(call: Call) -> None:
    found = await _found(call)
    await _with(call, lambda schedules: schedules.run(found.name))

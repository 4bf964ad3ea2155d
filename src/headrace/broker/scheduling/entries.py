"""Entries of schedules as records of `__headrace_schedules`, and back: JSON."""

import json
from typing import Any
from uuid import UUID

from headrace.coordination.delay.entries import Target
from headrace.coordination.schedule.entries import Defined, Definition, Entry, Firing, Forgotten, Removed, ScheduleProgress
from headrace.model.delay.schedules import STATE_SUFFIX, read_schedule


class ScheduleEntryCodec:
    """Satisfies the coordinators' EntryCodec."""

    def encode(self, entry: Entry) -> tuple[bytes, bytes | None]:
        match entry:
            case Defined(definition):
                return definition.name.encode(), json.dumps(_parts(definition)).encode()
            case Removed(name):
                return name.encode(), None
            case Forgotten(name):
                return (name + STATE_SUFFIX).encode(), None
            case ScheduleProgress():
                return (entry.name + STATE_SUFFIX).encode(), json.dumps(_state(entry)).encode()

    def decode(self, key: bytes, value: bytes | None) -> Entry | None:
        name = key.decode()
        if name.endswith(STATE_SUFFIX):
            name = name.removesuffix(STATE_SUFFIX)
            return Forgotten(name) if value is None else _read_state(name, json.loads(value))
        return Removed(name) if value is None else Defined(definition_of(name, read_schedule(value)))


def definition_of(name: str, given: dict[str, Any]) -> Definition:
    """A schedule from what a record says of it."""
    key, value = given.get("key"), given.get("value")
    return Definition(
        name=name,
        cron=given["cron"],
        timezone=given.get("timezone") or "UTC",
        topic=given["topic"],
        key=None if key is None else key.encode(),
        value=None if value is None else value.encode(),
        headers=tuple((each, text.encode()) for each, text in (given.get("headers") or {}).items()),
        missed=given.get("missed") or "once",
        is_paused=given.get("paused", False),
    )


def _parts(definition: Definition) -> dict[str, Any]:
    return {
        "cron": definition.cron,
        "timezone": definition.timezone,
        "topic": definition.topic,
        "key": None if definition.key is None else definition.key.decode(),
        "value": None if definition.value is None else definition.value.decode(),
        "headers": {name: (value or b"").decode() for name, value in definition.headers},
        "missed": definition.missed,
        "paused": definition.is_paused,
    }


def _state(progress: ScheduleProgress) -> dict[str, Any]:
    return {
        "made": progress.made_ms,
        "next": progress.next_due_ms,
        "number": progress.next_number,
        "underway": [[each.number, each.due_ms, each.target.topic_id.hex, each.target.partition] for each in progress.underway],
        "run": progress.last_run,
        "last": progress.last_due_ms,
    }


def _read_state(name: str, state: dict[str, Any]) -> ScheduleProgress:
    underway = tuple(Firing(number, due, Target(UUID(hex=topic), index)) for number, due, topic, index in state["underway"])
    return ScheduleProgress(name, state["made"], state["next"], state["number"], underway, state["run"], state["last"])

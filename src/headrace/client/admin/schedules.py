"""Schedules: made, changed and looked at through their records in `__headrace_schedules`."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

from headrace.client.consumer.consumer import Consumer
from headrace.client.errors import InvalidArgument, TopicNotFound
from headrace.client.producer.producer import Producer
from headrace.model.delay.schedules import STATE_SUFFIX, read_schedule, why_not_a_schedule_name
from headrace.model.names import SCHEDULES


class Schedule(NamedTuple):
    """A schedule, and how far it has got."""

    name: str
    parts: Mapping[str, Any]
    next_due_ms: int | None
    last_due_ms: int | None
    fired: int

    @property
    def is_paused(self) -> bool:
        return bool(self.parts.get("paused"))


class Schedules:
    """All schedules of a cluster."""

    def __init__(self, bootstrap: str, librdkafka: Mapping[str, Any] | None = None) -> None:
        self._bootstrap = bootstrap
        self._librdkafka = dict(librdkafka or {})

    def put(self, name: str, parts: Mapping[str, Any]) -> None:
        """Make a schedule, or change the one of this name."""
        if (why := why_not_a_schedule_name(name)) is not None:
            raise InvalidArgument(why)
        self._write(name, json.dumps(read_schedule(json.dumps(dict(parts)).encode())))

    def remove(self, name: str) -> None:
        self._write(self.get(name).name, None)

    def run(self, name: str) -> None:
        """Have it send its record now, whatever the time is."""
        self._write(self.get(name).name, json.dumps({"run": str(uuid.uuid4())}))

    def pause(self, name: str, *, paused: bool = True) -> None:
        self._write(name, json.dumps({**self.get(name).parts, "paused": paused}))

    def get(self, name: str) -> Schedule:
        found = self.all().get(name)
        if found is None:
            raise InvalidArgument(f"there is no schedule {name}")
        return found

    def all(self) -> dict[str, Schedule]:
        """By name, as they are now."""
        parts: dict[str, dict[str, Any]] = {}
        states: dict[str, dict[str, Any]] = {}
        try:
            with Consumer(
                SCHEDULES, bootstrap=self._bootstrap, keys=str, start="earliest", librdkafka=self._librdkafka
            ) as consumer:
                for record in consumer.to_end():
                    name = record.key or ""
                    held = states if name.endswith(STATE_SUFFIX) else parts
                    name = name.removesuffix(STATE_SUFFIX)
                    held.pop(name, None)
                    if record.value is not None:
                        held[name] = json.loads(record.value)
        except TopicNotFound:
            return {}
        return {name: _schedule(name, each, states.get(name, {})) for name, each in sorted(parts.items())}

    def _write(self, name: str, value: str | None) -> None:
        # The first that names the topic has the brokers make it.
        with Producer(self._bootstrap, linger=0, librdkafka=self._librdkafka) as producer:
            producer.send(SCHEDULES, value, key=name).result()


def _schedule(name: str, parts: dict[str, Any], state: dict[str, Any]) -> Schedule:
    return Schedule(name, parts, state.get("next"), state.get("last"), state.get("number", 0))

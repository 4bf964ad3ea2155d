"""Members in processes of their own, watched from a test."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Producer

from tests.support.waiting import until

PROGRAM = Path(__file__).parent / "group_member_process.py"
WAIT_S = 30.0

PROTOCOLS: dict[str, dict[str, Any]] = {
    "eager": {"partition.assignment.strategy": "range"},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}


class MemberProcess:
    """One member: what it owns and what it has handled, as far as it has told."""

    def __init__(self, bootstrap: str, topic: str, group: str, protocol: str, **properties: Any) -> None:
        given = {
            "topic": topic,
            "is_incremental": protocol != "eager",
            "properties": {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 2,
                **PROTOCOLS[protocol],
                **properties,
            },
        }
        self.events: list[dict[str, Any]] = []
        self.owned: set[int] = set()
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM), json.dumps(given)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._note(json.loads(line))

    def _note(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "assigned":
                self.owned |= set(event["partitions"])
            case "revoked" | "lost":
                self.owned -= set(event["partitions"])
        self.events.append(event)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()

    def kill(self) -> None:
        """kill -9, as a crash does."""
        self._process.kill()
        self._process.wait()
        self._reader.join(WAIT_S)

    def leave(self) -> None:
        """Ask it to leave its group and end."""
        self._process.terminate()
        self._process.wait(WAIT_S)
        self._reader.join(WAIT_S)

    def handled(self) -> list[tuple[int, int, int]]:
        """Partition, offset and number of each record it has handled."""
        return [tuple(record) for event in list(self.events) if event["event"] == "handled" for record in event["records"]]

    def revoked_since(self, moment: float) -> set[int]:
        events = [event for event in list(self.events) if event["event"] in ("revoked", "lost") and event["time"] >= moment]
        return set().union(*(event["partitions"] for event in events))


def wait_for(condition: Callable[[], bool], seconds: float = WAIT_S, what: Callable[[], object] = lambda: "") -> float:
    """How long it took until the condition held; fails when it never did."""
    started = time.monotonic()
    until(condition, what, seconds, every_s=0.01)
    return time.monotonic() - started


def shares(members: Iterable[MemberProcess]) -> list[int]:
    return sorted(len(member.owned) for member in members)


class SteadyProducer:
    """Writes numbered records to all partitions in turn until it is stopped."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, per_second: int) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 2})
        self._topic, self._partitions, self._pause = topic, partitions, 1 / per_second
        self._is_stopping = threading.Event()
        self.acknowledged: list[tuple[int, int, int]] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._is_stopping.wait(self._pause):
            value = str(number).encode()
            self._producer.produce(self._topic, value, partition=number % self._partitions, on_delivery=self._delivered)
            self._producer.poll(0)
            number += 1

    def _delivered(self, error: Any, message: Any) -> None:
        assert error is None, error
        self.acknowledged.append((message.partition(), message.offset(), int(message.value())))

    def stop(self) -> list[tuple[int, int, int]]:
        """End and return what was acknowledged."""
        self._is_stopping.set()
        self._thread.join(WAIT_S)
        assert self._producer.flush(WAIT_S) == 0
        return self.acknowledged

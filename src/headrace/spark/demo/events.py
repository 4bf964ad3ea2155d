"""The demo's events: orders and payments, some malformed, some late, some too late.

Which event is what depends on its number alone, so a run's malformed events can be counted and compared.
"""

import json
import random
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from headrace.client.errors import BufferFull, HeadraceError
from headrace.client.producer.producer import Producer

TOPICS = ("demo.orders", "demo.payments")
CUSTOMERS = ("ada", "alan", "barbara", "dennis", "edsger", "grace", "ken", "margaret")
MALFORMED_EVERY = 50
LATE_EVERY = 20
TOO_LATE_EVERY = 400
LATE_SECONDS = 10
TOO_LATE_SECONDS = 3600


@dataclass(slots=True)
class Sent:
    """What has been sent so far."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys((*TOPICS, "malformed", "late", "too late"), 0))


def event(number: int, now: float, dice: random.Random) -> tuple[str, str, bytes, str]:
    """Topic, key, value and kind of one event."""
    topic = TOPICS[number % len(TOPICS)]
    customer = dice.choice(CUSTOMERS)
    if number % MALFORMED_EVERY == 0:
        return topic, customer, dice.choice((b"{not json", b'{"key": "ada"}', b"\xff\xfe")), "malformed"
    kind = "too late" if number % TOO_LATE_EVERY == 1 else "late" if number % LATE_EVERY == 1 else "fine"
    behind = {"too late": TOO_LATE_SECONDS, "late": LATE_SECONDS, "fine": 0}[kind]
    moment = datetime.fromtimestamp(now - behind, UTC).isoformat(timespec="milliseconds")
    body = {"key": customer, "value": round(dice.lognormvariate(3, 0.6), 2), "time": moment}
    return topic, customer, json.dumps(body).encode(), kind


class Generator:
    """Sends events at a steady rate in a thread until told to stop."""

    def __init__(self, bootstrap: str, per_second: int) -> None:
        self._producer = Producer(bootstrap, keys=str, linger=0.02, when_full="raise", librdkafka={"log_level": 0})
        self._per_second = per_second
        self._began = 0.0
        self._stop = threading.Event()
        self._sent = Sent()
        self._thread = threading.Thread(target=self._run, name="demo-events", daemon=True)

    def start(self) -> None:
        self._began = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(10)
        with suppress(HeadraceError):  # the brokers may have gone already
            self._producer.close(5)

    @property
    def counts(self) -> Mapping[str, int]:
        """What was sent so far, and how many events in a second."""
        elapsed = max(1.0, time.monotonic() - self._began)
        return dict(self._sent.counts) | {"events/s": round(sum(self._sent.counts[topic] for topic in TOPICS) / elapsed)}

    def _run(self) -> None:
        dice, number = random.Random(7), 0
        while not self._stop.is_set():
            due = int((time.monotonic() - self._began) * self._per_second)
            while number < due:
                self._send(number, dice)
                number += 1
            self._stop.wait(0.02)

    def _send(self, number: int, dice: random.Random) -> None:
        topic, key, value, kind = event(number, time.time(), dice)
        try:
            self._producer.send(topic, value, key=key)
        except BufferFull:
            self._stop.wait(0.1)  # the broker is slow: the demo shows that as a lower rate
            return
        self._sent.counts[topic] += 1
        if kind in self._sent.counts:
            self._sent.counts[kind] += 1

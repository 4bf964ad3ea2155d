"""What the demo shows: rates, lag, the latest windows and the dead letters, from the topics themselves."""

import json
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, Message
from rich.console import Group
from rich.panel import Panel
from rich.table import Table

from headrace.client.deadletter import PREFIX
from headrace.spark.metrics import QueryFigures

WINDOWS_SHOWN = 10
LETTERS_SHOWN = 5


@dataclass(slots=True)
class Seen:
    """What has come out of the pipeline."""

    window_count: int = 0
    letter_count: int = 0
    windows: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=WINDOWS_SHOWN))
    letters: deque[tuple[str, str, str]] = field(default_factory=lambda: deque(maxlen=LETTERS_SHOWN))


class Watcher:
    """Reads the results and the dead letters, as any other consumer would, in a thread."""

    def __init__(self, bootstrap: str, results: str, letters: Sequence[str]) -> None:
        self._results = results
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "demo-view",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        self._consumer.subscribe([results, *letters])
        self._stop = threading.Event()
        self.seen = Seen()
        self._thread = threading.Thread(target=self._run, name="demo-view", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(10)
        self._consumer.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            for message in self._consumer.consume(500, 0.3):
                if message.error() is None:
                    self._take(message)

    def _take(self, message: Message) -> None:
        if message.topic() == self._results:
            self.seen.window_count += 1
            self.seen.windows.append(json.loads(message.value()))
            return
        facts = {name: (value or b"").decode(errors="replace") for name, value in message.headers() or []}
        self.seen.letter_count += 1
        value = (message.value() or b"").decode(errors="backslashreplace")[:40]
        self.seen.letters.append((facts.get(f"{PREFIX}topic", "?"), value, facts.get(f"{PREFIX}reason", "?")[:70]))


def render(sent: Mapping[str, int], figures: Sequence[QueryFigures], seen: Seen, address: str) -> Group:
    """One screen."""
    events = "  ".join(f"{name} [bold]{count:,}[/bold]" for name, count in sent.items())
    return Group(
        Panel(events, title=f"sent to {address}", title_align="left"),
        _queries(figures),
        _windows(seen),
        _letters(seen),
        "Ctrl-C ends everything that was started.",
    )


def _queries(figures: Sequence[QueryFigures]) -> Table:
    table = Table(title="queries" if figures else "queries: Spark is starting …", title_justify="left", expand=True)
    for column in ("query", "batch", "rows", "rows/s", "batch ms", "lag", "too late", "watermark"):
        table.add_column(column, justify="left" if column in ("query", "watermark") else "right")
    for one in figures:
        numbers = (one.batch, one.rows, round(one.rows_per_second), one.batch_ms, one.lag, one.late_rows)
        table.add_row(one.name, *(f"{number:,}" for number in numbers), one.watermark or "-")
    return table


def _windows(seen: Seen) -> Table:
    table = Table(title=f"latest windows of {seen.window_count:,}", title_justify="left", expand=True)
    for column in ("window", "key", "count", "sum", "mean", "p95"):
        table.add_column(column, justify="left" if column in ("window", "key") else "right")
    for one in reversed(seen.windows):
        window = f"{one['window_start'][11:19]} – {one['window_end'][11:19]}"
        table.add_row(window, one["key"], str(one["count"]), *(f"{one[name]:,.2f}" for name in ("sum", "mean", "p95")))
    return table


def _letters(seen: Seen) -> Table:
    table = Table(title=f"latest dead letters of {seen.letter_count:,}", title_justify="left", expand=True)
    for column in ("from", "value", "reason"):
        table.add_column(column, overflow="ellipsis", no_wrap=True)
    for letter in reversed(seen.letters):
        table.add_row(*letter)
    return table

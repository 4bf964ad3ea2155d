"""What the demo shows: rates, lag, the latest windows and the dead letters, from the topics themselves."""

import json
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from headrace.client.consumer.consumer import Consumer
from headrace.client.deadletter.deadletter import PREFIX
from headrace.client.errors import HeadraceError
from headrace.client.records.record import Record
from headrace.spark.pipeline.metrics import QueryFigures

WINDOWS_SHOWN = 10
LETTERS_SHOWN = 5
FIXED_LINES = 14  # everything but the windows and the letters themselves
PIPELINE = "windowed-statistics"


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
        self._consumer = Consumer[bytes, bytes](
            [results, *letters], bootstrap=bootstrap, group="demo-view", librdkafka={"log_level": 0}
        )
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
            try:
                records = self._consumer.batch(500, 0.3)
            except HeadraceError:
                self._stop.wait(0.3)  # the pipeline reads from the same brokers, and is who tells
                continue
            for record in records:
                self._take(record)

    def _take(self, record: Record[bytes, bytes]) -> None:
        if record.topic == self._results:
            self.seen.window_count += 1
            self.seen.windows.append(json.loads(record.value))
            return
        facts = {name: (value or b"").decode(errors="replace") for name, value in record.headers}
        self.seen.letter_count += 1
        value = (record.value or b"").decode(errors="backslashreplace")[:40]
        self.seen.letters.append((facts.get(f"{PREFIX}topic", "?"), value, facts.get(f"{PREFIX}reason", "?")))


def render(sent: Mapping[str, int], figures: Sequence[QueryFigures], seen: Seen, address: str, height: int) -> Group:
    """One screen, no taller than the terminal."""
    events = Text("  ").join(Text.assemble(f"{name} ", (f"{count:,}", "bold")) for name, count in sent.items())
    letters_shown = max(1, min(LETTERS_SHOWN, (height - FIXED_LINES) // 3))
    windows_shown = max(1, min(WINDOWS_SHOWN, height - FIXED_LINES - letters_shown))
    return Group(
        Panel(events, title=f"sent to {address}", title_align="left"),
        _queries(figures),
        _windows(seen, windows_shown),
        _letters(seen, letters_shown),
        "Ctrl-C ends everything that was started.",
    )


def _table(title: str, columns: Mapping[str, bool]) -> Table:
    """A table with columns that stand to the right or do not."""
    table = Table(title=title, title_justify="left", title_style="bold", expand=True, box=None, pad_edge=False)
    for column, to_the_right in columns.items():
        table.add_column(column, justify="right" if to_the_right else "left", overflow="ellipsis", no_wrap=True)
    return table


def _queries(figures: Sequence[QueryFigures]) -> Table:
    names = ("batch", "rows", "rows/s", "batch ms", "lag", "too late")
    columns = {"query": False, **dict.fromkeys(names, True), "watermark": True}
    table = _table("queries" if figures else "queries: Spark is starting …", columns)
    for one in figures:
        numbers = (one.batch, one.rows, round(one.rows_per_second), one.batch_ms, one.lag, one.late_rows)
        table.add_row(one.name.removeprefix(f"{PIPELINE}-"), *(f"{number:,}" for number in numbers), _time(one.watermark))
    return table


def _time(moment: str | None) -> str:
    """The time of day alone: a demo does not last until tomorrow."""
    return moment[11:19] if moment and not moment.startswith("1970") else "-"


def _windows(seen: Seen, shown: int) -> Table:
    columns = {"window": False, "key": False, **dict.fromkeys(("count", "sum", "mean", "p95"), True)}
    table = _table(f"latest windows of {seen.window_count:,}", columns)
    for one in list(reversed(seen.windows))[:shown]:
        window = f"{_time(one['window_start'])} – {_time(one['window_end'])}"
        table.add_row(window, one["key"], str(one["count"]), *(f"{one[name]:,.2f}" for name in ("sum", "mean", "p95")))
    return table


def _letters(seen: Seen, shown: int) -> Table:
    table = _table(f"latest dead letters of {seen.letter_count:,}", {"from": False, "value": False, "reason": False})
    for letter in list(reversed(seen.letters))[:shown]:
        table.add_row(*(Text(cell) for cell in letter))
    return table

"""Log lines, counted by level; and those that say the same again and again, left out.

What a line says is its text before the values are put in: a thousand connections that fail alike are one thing, often.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable
from contextvars import ContextVar
from typing import Protocol

from headrace.declaring import dataclass

# The logger that has a line for each request, at DEBUG; and for what a follower wrote, by which of its requests.
REQUEST_LOG = "headrace.requests"
WINDOW_S = 60.0
KINDS_MAX = 1000  # of which the lines are counted; the oldest is forgotten for a new one


class Request(Protocol):
    """Something that a client asked for."""

    @property
    def name(self) -> str | None:
        """In words, with what its client knows it by; None once it is answered, as timers and tasks outlive it."""
        ...


# What is being worked on where a line is logged; formats tell it.
current_request: ContextVar[Request | None] = ContextVar("current_request", default=None)


class LogFigures:
    """Of this process: logging is its own."""

    def __init__(self) -> None:
        self.lines: defaultdict[str, int] = defaultdict(int)  # by level
        self.left_out = 0


FIGURES = LogFigures()


@dataclass(slots=True)
class _Kind:
    """Lines that say the same, in one minute."""

    began: float
    shown: int = 0
    left_out: int = 0


class LimitedRepetition(logging.Filter):
    """Lets warnings and errors of one kind through so many times a minute.  The next one says how many were left out."""

    def __init__(self, per_minute: int, figures: LogFigures = FIGURES, monotonic: Callable[[], float] = time.monotonic) -> None:
        """`per_minute` 0: all of them."""
        super().__init__()
        self._per_minute = per_minute
        self._figures = figures
        self._monotonic = monotonic
        self._kinds: dict[tuple[str, int, str], _Kind] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        self._figures.lines[record.levelname] += 1
        if not self._per_minute or record.levelno < logging.WARNING:
            return True
        kind = self._kind_of(record)
        if kind.shown < self._per_minute:
            kind.shown += 1
            return True
        kind.left_out += 1
        self._figures.left_out += 1
        return False

    def _kind_of(self, record: logging.LogRecord) -> _Kind:
        key, now = (record.name, record.levelno, str(record.msg)), self._monotonic()
        kind = self._kinds.get(key)
        if kind is None or now - kind.began >= WINDOW_S:
            if kind is not None and kind.left_out:
                record.left_out = kind.left_out
            self._kinds.pop(key, None)
            if len(self._kinds) >= KINDS_MAX:
                del self._kinds[next(iter(self._kinds))]
            kind = self._kinds[key] = _Kind(now)
        return kind

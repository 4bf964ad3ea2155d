"""Where the SDK writes what nobody asked for: the loggers `headrace.client` and, for librdkafka's own lines,
`headrace.client.librdkafka`."""

import logging
import re
import threading
import time
from collections.abc import Callable

log = logging.getLogger("headrace.client")
librdkafka_log = logging.getLogger("headrace.client.librdkafka")


_RESET = re.compile(r"(?P<topic>\S+) \[(?P<partition>\d+)\]: offset reset \(at offset (?P<at>-?\d+).*\) to offset (?P<to>\w+)")
_PLACES = {"BEGINNING": "its beginning", "END": "its end"}


class OffsetResets(logging.Handler):
    """What librdkafka reports reaches the caller as an exception, and its lines are for those who configure logging; except this
    one: that a position does not exist, and reading goes on elsewhere, is told nowhere else."""

    def emit(self, record: logging.LogRecord) -> None:
        found = _RESET.search(record.getMessage())
        if found is not None:
            log.warning(
                "%s[%s] has no offset %s (any more, or yet); reading goes on at %s",
                found["topic"],
                found["partition"],
                found["at"],
                _PLACES.get(found["to"], found["to"]),
            )


class Repeats(logging.Filter):
    """A broker that is away is a line for each attempt of each client: dozens in a second.  The first of those that say the same
    is let through, then one in `AGAIN_S`, with a count of those left out."""

    AGAIN_S = 30.0
    KNOWN_MAX = 1000
    PASSING = re.compile(r"\(after \d+ms in state \w+.*?\)|, \d+ identical error\(s\) suppressed|\d+ms|\d+ request\(s\)")

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, int]] = {}  # when it may be said again, and how often it was left out

    def filter(self, record: logging.LogRecord) -> bool:
        said = record.getMessage()
        if _RESET.search(said):
            return True
        now, same = self._monotonic(), self.PASSING.sub("", said)
        with self._lock:
            again_at, left_out = self._known.get(same, (now, 0))
            if now < again_at:
                self._known[same] = again_at, left_out + 1
                return False
            if len(self._known) >= self.KNOWN_MAX:
                self._known.clear()
            self._known[same] = now + self.AGAIN_S, 0
        if left_out:
            record.msg, record.args = f"{said} ({left_out} more like it were left out)", ()
        return True


librdkafka_log.addFilter(Repeats())
librdkafka_log.addHandler(OffsetResets(level=logging.WARNING))

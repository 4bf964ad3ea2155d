"""When a record is due, as its headers say it, and as producers, brokers and commands read it.

A record with one of the headers is delivered when its time has come, on topics with `headrace.delay.enable`.  Of several such
headers the last one counts.  What is not a whole number of milliseconds is refused: delivered at once it would be too early.
"""

from collections.abc import Iterable

DELIVER_AT_HEADER = "headrace-deliver-at"
DELAY_HEADER = "headrace-delay-ms"
CANCEL_HEADER = "headrace-cancel"
DUE_MS_MAX = 2**47 - 1  # in the year 6429; an entry of the waiting has six bytes for it

Headers = Iterable[tuple[str, bytes | None]]


def due_of(headers: Headers, now_ms: int) -> int | None:
    """When a record is due; None for one that has no such header.  ValueError, in words, where nobody can tell."""
    due = None
    for name, value in headers:
        if name == DELIVER_AT_HEADER:
            due = _milliseconds(name, value)
        elif name == DELAY_HEADER:
            due = min(now_ms + _milliseconds(name, value), DUE_MS_MAX)
    return due


def is_cancellation(headers: Headers) -> bool:
    """Whether a record takes back what waits under its key."""
    return any(name == CANCEL_HEADER for name, _ in headers)


def headers_when_delivered(headers: Headers, due_ms: int) -> tuple[tuple[str, bytes | None], ...]:
    """The headers of a record that was due: a time that is over delays it nowhere again, where a delay would."""
    others = tuple(header for header in headers if header[0] not in (DELIVER_AT_HEADER, DELAY_HEADER))
    return (*others, (DELIVER_AT_HEADER, str(due_ms).encode()))


def _milliseconds(name: str, value: bytes | None) -> int:
    if value is None or not value.isdigit() or len(value) > 18 or int(value) > DUE_MS_MAX:
        shown = "null" if value is None else repr(value[:40].decode(errors="replace"))
        raise ValueError(f"its header {name} is {shown}, not a number of milliseconds up to {DUE_MS_MAX}")
    return int(value)

"""The last day in numbers: a ring for each series, in a file of its own.

A slot is ten seconds.  Each holds its own number beside the value, so that what is left from the day before is known for what it
is, nothing has ever to be cleared, and a console that is killed leaves a ring that can be read.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final

SLOT_S: Final = 10
SLOTS: Final = 24 * 3600 // SLOT_S
SERIES_MAX: Final = 2000
_SLOT: Final = struct.Struct("<If")


class History:
    """Series by name.  A directory is used by one console at a time; two would only write the same numbers twice."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def note(self, at: float, values: Mapping[str, float]) -> None:
        """Put values into the slot of a moment."""
        number = int(at) // SLOT_S
        for name, value in values.items():
            with open(os.open(self._file(name), os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0) as file:
                file.seek(number % SLOTS * _SLOT.size)
                file.write(_SLOT.pack(number, value))

    def read(self, name: str, now: float, seconds: int, points_max: int = 360) -> list[tuple[int, float | None]]:
        """The last seconds of a series, oldest first, at most so many points: the mean of what falls together, None for gaps."""
        try:
            data = self._file(name).read_bytes()
        except FileNotFoundError:
            return []
        last = int(now) // SLOT_S
        count = max(1, min(SLOTS, seconds // SLOT_S))
        width = -(-count // points_max)
        # Groups of slots lie at multiples of their width, so that a chart does not waver as time goes on.
        oldest = last - count + 1
        return [_point(data, start, width, oldest) for start in range(oldest // width * width, last + 1, width)]

    def forget_the_oldest(self) -> None:
        """Keep the number of files bounded: those that nobody has written to for longest go first."""
        files = sorted(self._directory.glob("*.ring"), key=lambda file: file.stat().st_mtime)
        for file in files[: max(0, len(files) - SERIES_MAX)]:
            file.unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        return self._directory / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.ring"


def _point(data: bytes, start: int, width: int, oldest: int) -> tuple[int, float | None]:
    found = [value for number in range(max(start, oldest), start + width) if (value := _value(data, number)) is not None]
    return start * SLOT_S, sum(found) / len(found) if found else None


def _value(data: bytes, number: int) -> float | None:
    at = number % SLOTS * _SLOT.size
    if at + _SLOT.size > len(data):
        return None
    kept, value = _SLOT.unpack_from(data, at)
    return value if kept == number & 0xFFFFFFFF else None

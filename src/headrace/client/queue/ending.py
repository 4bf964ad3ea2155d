"""SIGTERM and Ctrl-C end the work after the jobs in hand, where the program has no other plans for them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def ended_by_signals(stop: Callable[[], None], *numbers: signal.Signals) -> Iterator[None]:
    """The first signal stops; a second one does what it would have done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[signal.Signals, Any] = {}

    def on_signal(number: int, frame: FrameType | None) -> None:
        restore()
        stop()

    def restore() -> None:
        while before:
            number, handler = before.popitem()
            signal.signal(number, handler)

    for number in numbers:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            before[number] = signal.signal(number, on_signal)
    try:
        yield
    finally:
        restore()

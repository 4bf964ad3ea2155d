"""The end of a process: the signals that ask for it, and one that comes whatever hangs.

A thread that waits for a disk cannot be stopped, and Python waits for it."""

import logging
import os
import signal
import threading

logger = logging.getLogger(__name__)


def exit_within(seconds: float, *, why: str) -> None:
    """Whatever hangs, this process is over by then, with exit code 1.  One that ends before takes no notice."""

    def end() -> None:
        logger.critical("the process exits now, after %.0f s in which it could not end well: %s", seconds, why)
        os._exit(1)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


def ending_signals(*, hang_up: bool = True) -> tuple[signal.Signals, ...]:
    """Ctrl-C, a polite kill, and a terminal that is closed (`hang_up`); not one that is ignored, as `nohup` has the last."""
    asking = (signal.SIGINT, signal.SIGTERM, *((signal.SIGHUP,) if hang_up else ()))
    return tuple(number for number in asking if signal.getsignal(number) is not signal.SIG_IGN)


def has_terminal() -> bool:
    """Whether a terminal controls this process, whose closing is then told by SIGHUP."""
    try:
        os.close(os.open(os.ctermid(), os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True

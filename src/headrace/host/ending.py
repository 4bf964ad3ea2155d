"""The end of a process that may not end by itself: a thread that waits for a disk cannot be stopped, and Python waits for it."""

import logging
import os
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

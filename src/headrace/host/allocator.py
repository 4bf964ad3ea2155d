"""Memory that was freed, given back to the machine: the C library keeps it for later, which may be never."""

import ctypes
import sys


def give_memory_back() -> None:
    """Takes tens of milliseconds, without holding up other threads.  Does nothing where it is not known how."""
    if not sys.platform.startswith("linux"):
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)

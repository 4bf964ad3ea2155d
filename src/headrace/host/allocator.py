"""What the C library does with memory that was freed: keep it at hand, or give it back to the machine.

By itself it gives large blocks back at once.  A broker that reads megabytes for one reply, and for the next, then pays for every
page of them anew: the kernel clears it and maps it, which costs more than the bytes that are read into it.
"""

import ctypes
import sys
from collections.abc import Callable
from typing import Any, Final

# As <malloc.h> numbers them.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
# Larger ones are not taken from what was kept: the C library accepts no more.
BLOCK_BYTES_MAX: Final = 32 * 1024 * 1024


def keep_freed_memory(bytes_max: int) -> bool:
    """From now on so many bytes stay at hand when they are freed, for the whole process; whether that is possible here.

    There is one heap for all threads: what one of them has freed is of use to the others, and nothing is kept twice."""
    mallopt = _function("mallopt")
    if mallopt is None:
        return False
    wanted = ((_M_ARENA_MAX, 1), (_M_MMAP_THRESHOLD, min(bytes_max, BLOCK_BYTES_MAX)), (_M_TRIM_THRESHOLD, bytes_max))
    return all(mallopt(name, value) for name, value in wanted)


def give_memory_back() -> None:
    """Takes tens of milliseconds, without holding up other threads.  Does nothing where it is not known how."""
    trim = _function("malloc_trim")
    if trim is not None:
        trim(0)


def _function(name: str) -> Callable[..., Any] | None:
    if not sys.platform.startswith("linux"):
        return None
    found: Callable[..., Any] | None = getattr(ctypes.CDLL(None), name, None)
    return found

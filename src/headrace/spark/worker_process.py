"""What makes a Python worker quick at many small tasks.

Between two tasks Spark's worker collects garbage in full, which looks at every object that the imported packages hold: some 20 ms
of CPU, several times what reading 10,000 records takes.  Modules live as long as the process; once they are set aside, there is
next to nothing to look at.
"""

import gc
import os

_settled_in: int | None = None


def settle() -> None:
    """Called by every task; does its work in the first one of a process."""
    global _settled_in
    if _settled_in != os.getpid():  # workers are forked, and a fork may inherit the flag
        _settled_in = os.getpid()
        gc.freeze()

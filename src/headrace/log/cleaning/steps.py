"""Long work in short steps, so that whoever serves others meanwhile can do it between two turns.

Work is a generator.  It yields None where it may be interrupted, after a fraction of a millisecond: whoever does it looks at the
clock there.  It yields a function where it needs something computed that cannot be divided (packing, unpacking), and goes on with
what that function returns or raises, wherever it was run.
"""

from collections.abc import Callable, Generator
from typing import Any, Final, TypeVar

Elsewhere = Callable[[], Any]
Result = TypeVar("Result")
Steps = Generator[Elsewhere | None, Any, Result]

# So many small records take about a fifth of a millisecond to look at one by one, in Python, and so many bytes of large ones.
RECORDS_PER_STEP: Final = 25
BYTES_PER_STEP: Final = 256 * 1024
# So many take about as long to walk over without opening them.
BATCHES_PER_STEP: Final = 500
# What is smaller is packed and unpacked at once, unless it unpacks to more than so much.
WHOLE_BYTES_MAX: Final = 16 * 1024
WHOLE_UNPACKED_BYTES_MAX: Final = BYTES_PER_STEP


def finish(steps: Steps[Result]) -> Result:
    """Do it all at once."""
    answer: Any = None
    while True:
        try:
            step = steps.throw(answer) if isinstance(answer, Exception) else steps.send(answer)
        except StopIteration as end:
            result: Result = end.value
            return result
        try:
            answer = step() if step is not None else None
        except Exception as error:
            answer = error

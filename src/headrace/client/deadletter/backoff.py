"""How long to wait before trying again."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.client.arguments import seconds
from headrace.client.errors import InvalidArgument

EXPONENT_MAX = 64


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits that grow, with jitter.

    Args:
        first: Seconds after the first attempt.
        longest: What they grow to at most.
        factor: How much longer each is than the one before.
        jitter: Up to what part of it each is shortened at random.
    """

    first: float = 0.5
    longest: float = 60.0
    factor: float = 2.0
    jitter: float = 0.2

    def __post_init__(self) -> None:
        seconds("first", self.first)
        seconds("longest", self.longest, at_least=self.first)
        for argument, given, least, most in (("factor", self.factor, 1, math.inf), ("jitter", self.jitter, 0, 1)):
            if isinstance(given, bool) or not isinstance(given, int | float) or not least <= given <= most:
                upper = "" if most == math.inf else f" and at most {most}"
                raise InvalidArgument(f"{argument}={given!r} is not accepted; accepted: a number of at least {least}{upper}")

    def __call__(self, attempt: int) -> float:
        """Seconds to wait after the attempt of this number; the first is 1."""
        wait = min(self.longest, self.first * self.factor ** min(attempt - 1, EXPONENT_MAX))
        return wait * (1 - self.jitter * random.random())


BackoffGiven = Backoff | float | int | Sequence[float] | Callable[[int], float]


def backoff(argument: str, given: object) -> Callable[[int], float]:
    """A number is the same wait each time, a sequence one wait after the other (the last for all that follow)."""
    if callable(given):
        return given
    if isinstance(given, int | float) and not isinstance(given, bool):
        wait = seconds(argument, given)
        return lambda attempt: wait
    if isinstance(given, Sequence) and not isinstance(given, str | bytes) and given:
        waits = [seconds(argument, each) for each in given]
        return lambda attempt: waits[min(attempt, len(waits)) - 1]
    raise InvalidArgument(
        f"{argument}={given!r} is not accepted; accepted: Backoff(…), "
        "seconds, a list of seconds, or a callable (attempt) -> seconds"
    )

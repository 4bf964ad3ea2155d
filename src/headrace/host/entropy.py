"""Randomness, handed in, so that a simulation with a seed repeats itself."""

import random
import uuid
from typing import Protocol

_chance = random.SystemRandom()


class Entropy(Protocol):
    def uuid(self) -> uuid.UUID:
        """A fresh random identifier."""
        ...

    def uniform(self, low: float, high: float) -> float:
        """A number in [low, high), for jitter."""
        ...


class SystemEntropy:
    """The operating system's randomness."""

    def uuid(self) -> uuid.UUID:
        return uuid.uuid4()

    def uniform(self, low: float, high: float) -> float:
        return _chance.uniform(low, high)

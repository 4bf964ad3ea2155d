"""What a simulated machine gives the broker on it: a clock that may be wrong, and randomness that repeats."""

import random
import uuid

from simulation.world.loop import SimulatedLoop
from simulation.world.machine import Machine

# The world begins on a fixed day.
EPOCH_MS = 1_767_225_600_000


class SimulatedClock:
    """The clocks of one machine: they run a little fast or slow, and the one on the wall is off.  Satisfies host.Clock."""

    def __init__(self, loop: SimulatedLoop, machine: Machine) -> None:
        self._loop = loop
        self._machine = machine

    def wall_ms(self) -> int:
        return EPOCH_MS + self._machine.wall_skew_ms + int(self.monotonic() * 1000)

    def monotonic(self) -> float:
        return self._machine.local_time(self._loop.now)


class SimulatedEntropy:
    """Satisfies host.Entropy."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def uuid(self) -> uuid.UUID:
        return uuid.UUID(int=self._chance.getrandbits(128), version=4)

    def uniform(self, low: float, high: float) -> float:
        return self._chance.uniform(low, high)

"""What all simulated seeds of a test run went through, summed up over its workers, and whether anything never came."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from simulation.rules.tally import Tally, counted, missing

# How many seeds every test run simulates.
SEEDS = 100
PROPERTY = "simulated seeds"


def note(record_property: Callable[[str, object], None], seeds: int, tally: Tally) -> None:
    """In a test: so many seeds were run, and this is what they went through."""
    record_property(PROPERTY, json.dumps([seeds, {str(name): count for name, count in tally.items()}]))


@dataclass(slots=True)
class SumOfSeeds:
    """Of a whole test run."""

    seeds: int = 0
    tally: Tally = field(default_factory=Tally)

    def take(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            for name, value in report.user_properties:
                if name == PROPERTY:
                    seeds, tally = json.loads(str(value))
                    self.seeds += seeds
                    self.tally += Tally(tally)

    def missing(self, seeds: int) -> list[str]:
        """What never came in so many seeds; nothing when fewer were run."""
        return missing(self.tally) if self.seeds >= seeds else []

    def lines(self) -> Iterator[str]:
        yield from counted(self.tally)

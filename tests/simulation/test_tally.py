"""Faults are counted where they take effect, and what never came is told."""

import random
from types import SimpleNamespace
from typing import Any

from simulation.rules.tally import SIGNS, Fault, Tally, counted, missing, signs_of
from simulation.world.medium import Directory, Inode, Lost
from tests.support.tallying import SumOfSeeds, note


def report_of(seeds: int, tally: Tally, *, passed: bool = True) -> Any:
    properties: list[tuple[str, object]] = []
    note(lambda name, value: properties.append((name, value)), seeds, tally)
    return SimpleNamespace(when="call", passed=passed, user_properties=properties)


def test_what_never_came_in_all_the_seeds_is_told_and_in_fewer_it_is_not() -> None:
    simulated = SumOfSeeds()
    almost = Tally(dict.fromkeys([*Fault, *SIGNS], 2))
    del almost[Fault.TORN_WRITE]
    simulated.take(report_of(5, almost))
    simulated.take(report_of(5, almost))
    simulated.take(report_of(5, Tally({Fault.TORN_WRITE: 1}), passed=False))

    assert simulated.missing(11) == []
    assert simulated.missing(10) == [Fault.TORN_WRITE]
    assert f"{4:>8} {Fault.LOST_LEASE}" in simulated.lines()
    simulated.take(report_of(5, Tally({Fault.TORN_WRITE: 1})))
    assert simulated.missing(10) == []


def test_signs_are_counted_in_the_story() -> None:
    tally = signs_of(["1.0 broker-1   is killed", "2.0 broker-2   is killed", "3.0 nemesis    broker-1 stands still"])

    assert (tally["kills"], tally["standstills"]) == (2, 1)
    assert "kills" not in missing(tally)
    assert "full disks" in missing(tally)
    assert len(list(counted(tally))) == len(Fault) + len(SIGNS)


def test_a_power_failure_says_what_it_took() -> None:
    outcomes = set()
    for seed in range(200):
        directory, file = Directory(), Inode()
        directory.change(("file", file))
        directory.sync()
        file.write(0, b"synced")
        file.sync()
        file.write(6, b"not synced")
        lost = Lost()
        directory.lose_power(random.Random(seed), lost)
        outcomes.add((lost.forgotten, lost.torn, lost.nameless))

        assert lost.forgotten == (file.data != b"syncednot synced")
        assert not lost.torn or lost.forgotten

    assert outcomes == {(0, 0, 0), (1, 0, 0), (1, 1, 0)}
    assert str(Lost()) == "nothing is forgotten"
    assert str(Lost(forgotten=2, torn=1)) == "2 files forget what was not synced, 1 writes are torn"

"""Two hundred simulated clusters, each with its own faults: no rule is ever broken, and each can be replayed by its seed."""

import os
import subprocess
import sys

import pytest

from headrace.testing.simulation.scenario import run_seed

SEEDS = 200
PER_TEST = 5
LAST_EVENTS = 60


@pytest.mark.parametrize("first", range(0, SEEDS, PER_TEST), ids=lambda first: f"from-{first}")
def test_no_seed_breaks_a_rule(first: int) -> None:
    for seed in range(first, first + PER_TEST):
        outcome = run_seed(seed)
        assert not outcome.violations, outcome.report(LAST_EVENTS)


def test_the_seeds_do_something_worth_checking() -> None:
    outcomes = [run_seed(seed) for seed in range(8)]

    assert sum(outcome.acknowledged for outcome in outcomes) > 300
    assert sum(outcome.polled for outcome in outcomes) > 300
    told = "\n".join(line for outcome in outcomes for line in outcome.history.story)
    for sign in ("loses its power", "is killed", "cut: ", "stands still", "is lost, unfairly", "gives up ["):
        assert sign in told, f"in eight seeds it never happened that a broker {sign}"


def test_one_seed_is_one_story_in_every_process() -> None:
    def digest(hash_seed: int) -> str:
        command = [sys.executable, "-m", "headrace.testing.simulation", "--seed", "7", "--quiet"]
        environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout

    assert digest(1) == digest(2)


def test_two_seeds_are_two_stories() -> None:
    assert run_seed(1).digest != run_seed(2).digest


def test_a_run_does_not_depend_on_the_runs_before_it() -> None:
    first = run_seed(3).digest
    run_seed(4)

    assert run_seed(3).digest == first

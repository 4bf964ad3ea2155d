"""A hundred simulated clusters, each with its own faults: no rule is ever broken, and each can be replayed by its seed."""

import json
import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from simulation.rules.tally import Tally
from simulation.scenario import run_seed
from tests.support.tallying import SEEDS, note

PER_TEST = 5
LAST_EVENTS = 60
TOLD_AGAIN = 3


@pytest.mark.parametrize("first", range(0, SEEDS, PER_TEST), ids=lambda first: f"from-{first}")
def test_no_seed_breaks_a_rule(first: int, record_property: Callable[[str, object], None]) -> None:
    tally = Tally()
    for seed in range(first, first + PER_TEST):
        outcome = run_seed(seed)
        assert not outcome.violations, outcome.report(LAST_EVENTS)
        tally += outcome.tally

    # That each fault comes at all in so many seeds is judged when all workers are done.
    note(record_property, PER_TEST, tally)


def stories(seeds: list[int], hash_seed: int) -> dict[int, str]:
    """The stories that another process tells of these seeds, one after the other."""
    program = (
        "import json, sys; from simulation.scenario import run_seed; "
        "print(json.dumps([(int(seed), run_seed(int(seed)).history.story) for seed in sys.argv[1:]]))"
    )
    command = [sys.executable, "-c", program, *map(str, seeds)]
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=True)
    return {seed: "\n".join(story) for seed, story in json.loads(done.stdout)}


def test_one_seed_is_one_story_in_every_process_whatever_ran_before_it() -> None:
    seeds = list(range(TOLD_AGAIN))
    first, again = stories(seeds, hash_seed=1), stories(seeds[::-1], hash_seed=2)

    for seed in seeds:
        assert first[seed] == again[seed], f"seed {seed} has two stories"
    assert len(set(first.values())) == len(seeds), "two seeds have one story"

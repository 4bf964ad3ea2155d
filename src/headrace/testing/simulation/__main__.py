"""Replay the simulation of one seed and print its story, or run seed after seed until one breaks a rule.

python -m headrace.testing.simulation --seed 7
python -m headrace.testing.simulation --forever --from 1000
"""

import argparse
import itertools
import sys
import time
from collections.abc import Iterable

from headrace.testing.simulation.scenario import Outcome, run_seed

PROGRESS_SECONDS = 10.0
LAST_EVENTS = 80


def main() -> int:
    """0 when no rule was broken."""
    parser = argparse.ArgumentParser(prog="python -m headrace.testing.simulation", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1, help="the seed to replay")
    parser.add_argument("--count", type=int, default=1, help="how many seeds, from --seed on; more than one prints only failures")
    parser.add_argument("--forever", action="store_true", help="from --seed on until stopped or until a rule is broken")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first broken rule")
    parser.add_argument("--quiet", action="store_true", help="do not print the story of a single seed")
    options = parser.parse_args()
    if options.forever or options.count > 1:
        seeds = itertools.count(options.seed) if options.forever else range(options.seed, options.seed + options.count)
        return run_many(seeds, keep_going=options.keep_going)
    outcome = run_seed(options.seed)
    if not options.quiet:
        print("\n".join(outcome.history.story))
    print(summary(outcome))
    return 1 if outcome.violations else 0


def run_many(seeds: Iterable[int], *, keep_going: bool) -> int:
    """Run seeds and print those that break a rule."""
    broken: list[int] = []
    began = told = time.monotonic()
    done = 0
    try:
        for seed in seeds:
            outcome = run_seed(seed)
            done += 1
            if outcome.violations:
                broken.append(seed)
                print(outcome.report(LAST_EVENTS), flush=True)
                if not keep_going:
                    return 1
            if time.monotonic() - told > PROGRESS_SECONDS:
                told = time.monotonic()
                print(f"{done} seeds in {told - began:.0f} s, {len(broken)} broken", flush=True)
    except KeyboardInterrupt:
        pass
    print(f"{done} seeds in {time.monotonic() - began:.0f} s, {len(broken)} broken: {broken}")
    return 1 if broken else 0


def summary(outcome: Outcome) -> str:
    """What a run came to, in a few lines."""
    lines = [
        f"seed {outcome.seed}: {outcome.acknowledged} records acknowledged, {outcome.polled} read, digest {outcome.digest[:16]}",
        *(f"BROKEN: {each}" for each in outcome.violations),
    ]
    return "\n".join(lines if outcome.violations else [*lines, "every rule holds"])


if __name__ == "__main__":
    sys.exit(main())

"""Replay the simulation of one seed and tell its story, or run seed after seed.

python -m headrace.testing.simulation --seed 7
python -m headrace.testing.simulation --seed 7 --about events-0
python -m headrace.testing.simulation --forever --seed 1000
"""

import argparse
import itertools
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import NamedTuple

from headrace.testing.simulation.scenario import run_seed
from headrace.testing.simulation.tally import Tally, counted
from headrace.testing.simulation.telling import about, evidence, plot, summary

PROGRESS_SECONDS = 10.0
LAST_EVENTS = 80
# How many seeds for each process wait to be taken up, so that none is idle.
AHEAD = 4


def main() -> int:
    """0 when no rule was broken."""
    options = _parser().parse_args()
    if options.forever or options.count > 1:
        seeds = itertools.count(options.seed) if options.forever else range(options.seed, options.seed + options.count)
        verdicts = judged(seeds, options.jobs, options.fault_seconds)
        return run_many(verdicts, keep_going=options.keep_going)
    outcome = run_seed(options.seed, fault_seconds=options.fault_seconds)
    story = outcome.history.story
    if options.about:
        print("\n".join(about(story, options.about)))
    elif options.all:
        print("\n".join(story))
    elif not options.quiet:
        print("\n".join(plot(story)))
        print("\n".join(evidence(outcome)))
    print(summary(outcome))
    return 1 if outcome.violations else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m headrace.testing.simulation", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1, help="the seed to replay")
    parser.add_argument("--all", action="store_true", help="the whole story: what each client did, too")
    parser.add_argument("--about", metavar="WORD", help="all that names a partition, a client, a broker or a record")
    parser.add_argument("--quiet", action="store_true", help="only how it ended")
    parser.add_argument("--fault-seconds", type=float, help="how long things break; the seed decides if not given")
    parser.add_argument("--count", type=int, default=1, help="how many seeds, from --seed on; more than one prints only failures")
    parser.add_argument("--forever", action="store_true", help="from --seed on until stopped or until a rule is broken")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first broken rule")
    parser.add_argument("--jobs", type=int, default=1, help="how many seeds at a time")
    return parser


class Verdict(NamedTuple):
    """How one of many seeds ended: with the report of a broken rule, or well."""

    seed: int
    report: str | None
    tally: Tally


def run_many(verdicts: Iterable[Verdict], *, keep_going: bool) -> int:
    """Print the seeds that break a rule and, in the end, what all of them went through."""
    broken: list[int] = []
    tally = Tally()
    began = told = time.monotonic()
    done = 0
    try:
        for verdict in verdicts:
            done += 1
            tally += verdict.tally
            if verdict.report is not None:
                broken.append(verdict.seed)
                print(verdict.report, flush=True)
                if not keep_going:
                    break
            if time.monotonic() - told > PROGRESS_SECONDS:
                told = time.monotonic()
                print(f"{done} seeds, the last was {verdict.seed}, in {told - began:.0f} s, {len(broken)} broken", flush=True)
    except KeyboardInterrupt:
        print()
    print("what happened:", *counted(tally), sep="\n")
    print(f"{done} seeds in {time.monotonic() - began:.0f} s, {len(broken)} broken: {broken}")
    return 1 if broken else 0


def judged(seeds: Iterable[int], jobs: int, fault_seconds: float | None = None) -> Iterator[Verdict]:
    """The verdict on each seed, in order."""
    judge_one = partial(judge, fault_seconds=fault_seconds)
    if jobs == 1:
        yield from map(judge_one, seeds)
        return
    under_way: deque[Future[Verdict]] = deque()
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        try:
            for seed in seeds:
                under_way.append(pool.submit(judge_one, seed))
                if len(under_way) > AHEAD * jobs:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def judge(seed: int, fault_seconds: float | None) -> Verdict:
    outcome = run_seed(seed, fault_seconds=fault_seconds)
    return Verdict(seed, outcome.report(LAST_EVENTS) if outcome.violations else None, outcome.tally)


if __name__ == "__main__":
    sys.exit(main())

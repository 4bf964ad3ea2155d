"""Seed after seed, several at a time, and what came of them."""

import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import NamedTuple

from simulation.rules.tally import Tally, counted
from simulation.scenario import run_seed

PROGRESS_SECONDS = 10.0
LAST_EVENTS = 80
# How many seeds for each process wait to be taken up, so that none is idle.
AHEAD = 4


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

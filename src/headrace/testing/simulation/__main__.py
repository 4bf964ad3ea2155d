"""Replay the simulation of one seed and tell its story, or run seed after seed.

python -m headrace.testing.simulation --seed 7
python -m headrace.testing.simulation --seed 7 --about events-0
python -m headrace.testing.simulation --forever --seed 1000
"""

import argparse
import itertools
import re
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context

from headrace.testing.simulation.scenario import Outcome, run_seed

PROGRESS_SECONDS = 10.0
LAST_EVENTS = 80
# How many seeds for each process wait to be taken up, so that none is idle.
AHEAD = 4
# How much of the story of a record, or of a partition, that a broken rule names.
LINES_ABOUT = 25
# A record's value, or else a partition.
NAMED = (re.compile(r"[a-z]+(?:-\w+)*/\d[\w.~-]*"), re.compile(r"[\w#-]+-\d+(?=[@: ,)]|$)"))


def main() -> int:
    """0 when no rule was broken."""
    parser = argparse.ArgumentParser(prog="python -m headrace.testing.simulation", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1, help="the seed to replay")
    parser.add_argument("--all", action="store_true", help="the whole story: what each client did, too")
    parser.add_argument("--about", metavar="WORD", help="all that names a partition, a client, a broker or a record")
    parser.add_argument("--quiet", action="store_true", help="only how it ended")
    parser.add_argument("--count", type=int, default=1, help="how many seeds, from --seed on; more than one prints only failures")
    parser.add_argument("--forever", action="store_true", help="from --seed on until stopped or until a rule is broken")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first broken rule")
    parser.add_argument("--jobs", type=int, default=1, help="how many seeds at a time")
    options = parser.parse_args()
    if options.forever or options.count > 1:
        seeds = itertools.count(options.seed) if options.forever else range(options.seed, options.seed + options.count)
        return run_many(seeds, keep_going=options.keep_going, jobs=options.jobs)
    outcome = run_seed(options.seed)
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


def run_many(seeds: Iterable[int], *, keep_going: bool, jobs: int) -> int:
    """Run seeds, several at a time, and print those that break a rule."""
    broken: list[int] = []
    began = told = time.monotonic()
    done = 0
    try:
        for seed, report in judged(seeds, jobs):
            done += 1
            if report is not None:
                broken.append(seed)
                print(report, flush=True)
                if not keep_going:
                    break
            if time.monotonic() - told > PROGRESS_SECONDS:
                told = time.monotonic()
                print(f"{done} seeds, the last was {seed}, in {told - began:.0f} s, {len(broken)} broken", flush=True)
    except KeyboardInterrupt:
        print()
    print(f"{done} seeds in {time.monotonic() - began:.0f} s, {len(broken)} broken: {broken}")
    return 1 if broken else 0


def judged(seeds: Iterable[int], jobs: int) -> Iterator[tuple[int, str | None]]:
    """Each seed and, when it broke a rule, the report of it; in order."""
    if jobs == 1:
        yield from map(judge, seeds)
        return
    under_way: deque[Future[tuple[int, str | None]]] = deque()
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        try:
            for seed in seeds:
                under_way.append(pool.submit(judge, seed))
                if len(under_way) > AHEAD * jobs:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def judge(seed: int) -> tuple[int, str | None]:
    outcome = run_seed(seed)
    return seed, outcome.report(LAST_EVENTS) if outcome.violations else None


# -- the story


def who(line: str) -> str:
    return line.split(maxsplit=2)[1]


def is_plot(line: str) -> bool:
    """Whether a line tells of the cluster or of its faults, and not of what one client did."""
    return who(line) in ("world", "nemesis") or who(line).startswith("broker-") or "VIOLATION" in line


def plot(story: list[str]) -> Iterator[str]:
    """What happened to the cluster; of the clients, a line where there was much between."""
    acts: Counter[str] = Counter()
    for line in story:
        if is_plot(line):
            if sum(acts.values()) >= LINES_ABOUT:
                yield from between(acts)
                acts.clear()
            yield line
            continue
        act = line.split(maxsplit=3)[2]
        acts[act] += act in ("sends", "hears", "reads")
    yield from between(acts)


def between(acts: Counter[str]) -> Iterator[str]:
    if sum(acts.values()):
        words = {"sends": "records sent", "hears": "acknowledgements", "reads": "records read"}
        yield f"{'':>9} clients    " + ", ".join(f"{acts[act]} {what}" for act, what in words.items() if acts[act])


def about(story: list[str], word: str) -> list[str]:
    # producer-1/2 is not producer-1/22, and events-1 is not events-10.
    named = re.compile(rf"(?<![\w/-]){re.escape(word)}(?!\d)")
    return [line for line in story if named.search(line)]


def evidence(outcome: Outcome) -> Iterator[str]:
    """For each broken rule, the end of the story of the record or the partition that it names."""
    told: set[str] = set()
    for violation in outcome.violations:
        names = [name for pattern in NAMED for name in pattern.findall(violation)]
        if names and names[0] not in told:
            told.add(names[0])
            lines = about(outcome.history.story, names[0])
            yield f"\nthe story of {names[0]}" + (f", the last {LINES_ABOUT} lines:" if len(lines) > LINES_ABOUT else ":")
            yield from lines[-LINES_ABOUT:]


def summary(outcome: Outcome) -> str:
    """What a run came to, in a few lines."""
    lines = [
        f"seed {outcome.seed}: {outcome.acknowledged} records acknowledged, {outcome.polled} read, digest {outcome.digest[:16]}"
    ]
    if not outcome.violations:
        return "\n".join([*lines, "every rule holds"])
    return "\n".join([*lines, f"{len(outcome.violations)} rule(s) broken:", *outcome.broken()])


if __name__ == "__main__":
    sys.exit(main())

"""Replay the simulation of one seed and tell its story, or run seed after seed.

python -m simulation --seed 7
python -m simulation --seed 7 --about events-0
python -m simulation --forever --seed 1000
"""

import argparse
import itertools
import sys

from simulation.many_seeds import judged, run_many
from simulation.scenario import run_seed
from simulation.storytelling import about, evidence, plot, summary


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
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__.splitlines()[0])
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


if __name__ == "__main__":
    sys.exit(main())

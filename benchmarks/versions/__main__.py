"""`python -m benchmarks.versions CHECKOUT [--rounds 5] [--only ...]`: this checkout's figures beside another's.

The other one has an environment of its own (CHECKOUT/.venv).  Each round measures both, one after the other, so that what else
the machine does meets both; the middle one of the rounds' ratios counts.
"""

import argparse
import os
import signal
import sys
from pathlib import Path
from statistics import median

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.broker.target import HEADRACE
from benchmarks.versions.figures import QUESTIONS, Command, Figures

RATIO_MAX = 1.03  # what a change may cost


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.versions", description=__doc__)
    parser.add_argument("checkout", type=Path, help="the root of the other checkout, with an environment in .venv")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured (5)")
    parser.add_argument("--only", nargs="+", choices=sorted(QUESTIONS), default=list(QUESTIONS), help="only these questions")
    arguments = parser.parse_args()
    python = arguments.checkout / ".venv" / "bin" / "python"
    if not python.exists():
        parser.error(f"{python} does not exist: make an environment there (make run, stopped with Ctrl-C)")
    # The brokers are ended with this, whoever ends it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    # Where no bytecode is kept, every start compiles every module, which is not what anybody's broker does.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    console = Console(highlight=False, width=None if os.isatty(1) else 140)
    for name in arguments.only:
        console.print(compared(name, HEADRACE, (str(python), "-m", "headrace"), arguments.rounds))


def compared(question: str, this: Command, other: Command, rounds: int) -> Table:
    """Each figure's two medians and their ratio, beside the lowest and the highest ratio of a round."""
    ask = QUESTIONS[question]
    pairs: list[tuple[Figures, Figures]] = []
    with ask(this) as ours, ask(other) as theirs:
        for number in range(-1, rounds):
            # By turns one and the other is the first.  The round before the first only warms both up.
            pair = (ours(), theirs()) if number % 2 else (theirs(), ours())[::-1]
            if number >= 0:
                pairs.append(pair)
    table = Table(title=(ask.__doc__ or question).strip(), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("figure", "this", "other", "ratio", "of the rounds", ""):
        table.add_column(column, justify="left" if column == "figure" else "right")
    for figure in pairs[0][0]:
        ratios = [our[figure] / their[figure] for our, their in pairs]
        ratio = median(ratios)
        table.add_row(
            figure,
            *(f"{median(pair[side][figure] for pair in pairs):.4g}" for side in (0, 1)),
            f"{ratio:.2f}",
            f"{min(ratios):.2f}–{max(ratios):.2f}",
            "slower" if ratio > RATIO_MAX else "",
        )
    return table


if __name__ == "__main__":
    main()

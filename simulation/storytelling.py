"""The story of a run, told so that a person can follow it: the plot, all about one thing, and the evidence of a broken rule."""

import re
from collections import Counter
from collections.abc import Iterator

from simulation.scenario import Outcome

# How much of the story of a record, or of a partition, that a broken rule names.
LINES_ABOUT = 25
# A record's value, or else a partition.
NAMED = (re.compile(r"[a-z]+(?:-\w+)*/\d[\w.~-]*"), re.compile(r"[\w#-]+-\d+(?=[@: ,)]|$)"))


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

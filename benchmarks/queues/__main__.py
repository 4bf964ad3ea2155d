"""`python -m benchmarks.queues [--quick] [--only NAME]`: jobs worked off, how soon they come, and what a million that wait cost.

One queue of one partition, jobs of 100 bytes, on disk before they are acknowledged.  Redis and RabbitMQ stand beside it where
they are installed, on the same machine, one after the other.
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable, Iterable, Iterator

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.queues import ours, peers

Row = tuple[str, ...]


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.queues", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the jobs, a hundredth of those that wait")
    parser.add_argument("--only", choices=tuple(MEASURES), help="one of the tables")
    arguments = parser.parse_args()
    console = Console(highlight=False, width=None if os.isatty(1) else 140)
    console.print(
        f"{platform.machine()}, {os.cpu_count()} cores shared by brokers and workers, Python {platform.python_version()}"
    )
    for name, (title, columns, measures) in MEASURES.items():
        if arguments.only in (None, name):
            rows = [row for measure in measures for row in measure(arguments.quick)]
            show(console, title, columns, rows)


def show(console: Console, title: str, columns: Iterable[str], rows: list[Row]) -> None:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left")
    for row in rows:
        table.add_row(*row)
    console.print(table)


Measure = Callable[[bool], Iterator[Row]]
MEASURES: dict[str, tuple[str, tuple[str, ...], tuple[Measure, ...]]] = {
    "rate": (
        "Jobs worked off, each acknowledged",
        ("what", "workers", "jobs/s", "broker's CPU, µs each"),
        (ours.rates, peers.redis_rates, peers.rabbitmq_rates),
    ),
    "latency": (
        "From put to handler, 1,000 jobs a second",
        ("what", "p50 ms", "p99 ms", "max ms"),
        (ours.latency, peers.redis_latency, peers.rabbitmq_latency),
    ),
    "delayed": (
        "Jobs that wait for their time",
        ("what", "figure", "unit"),
        (ours.delayed,),
    ),
}

if __name__ == "__main__":
    main()

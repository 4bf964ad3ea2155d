"""`python -m benchmarks.cluster [--quick] [--only NAME ...] [--move-gib N]`: print all tables of a cluster of three."""

import argparse
import os
import platform
import time
from collections.abc import Callable, Iterator
from types import ModuleType

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.cluster import capacity, failover, growth, metadata, moving, replication, scaling
from headrace.testing.etcd import etcd_program

QUESTIONS: dict[str, ModuleType] = {
    "replication": replication,
    "failover": failover,
    "moving": moving,
    "metadata": metadata,
    "scaling": scaling,
    "growth": growth,
    "capacity": capacity,
}
Rows = Callable[..., Iterator[tuple[object, ...]]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.cluster", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few rounds, small loads")
    parser.add_argument("--only", nargs="+", choices=sorted(QUESTIONS), default=list(QUESTIONS), help="only these questions")
    parser.add_argument("--move-gib", type=float, default=None, help="how much to move (10; with --quick half a one)")
    arguments = parser.parse_args()
    if etcd_program() is None:
        raise SystemExit("A cluster needs etcd. Debian: apt install etcd-server.")
    console = Console(highlight=False, width=None if os.isatty(1) else 160)
    cores = f"{platform.machine()}, {os.cpu_count()} cores shared by brokers, etcd and clients"
    console.print(f"{cores}, Python {platform.python_version()}")
    began = time.monotonic()
    for name in arguments.only:
        question = QUESTIONS[name]
        options = {"gibibytes": arguments.move_gib} if question is moving else {}
        show(console, name, question, question.rows(arguments.quick, **options))
    console.print(f"{time.monotonic() - began:.0f} s in all.")


def show(console: Console, name: str, question: ModuleType, rows: Iterator[tuple[object, ...]]) -> None:
    table = Table(
        title=(question.__doc__ or name).strip().splitlines()[0], title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False
    )
    for column in question.COLUMNS:
        table.add_column(column, justify="left" if column in ("what", "flush") else "right")
    with console.status(name):
        for row in rows:
            table.add_row(*(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row))
    console.print(table)


if __name__ == "__main__":
    main()

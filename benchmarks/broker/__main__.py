"""`python -m benchmarks.broker [--quick] [--only NAME ...] [--peer NAME=HOST:PORT[@PID] ...]`: print all tables."""

import argparse
import os
import platform
import time
from types import ModuleType

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.broker import footprint, groups, latency, requests, throughput, transactions
from benchmarks.broker.target import Target
from benchmarks.broker.watched import observed, scrapes

QUESTIONS: dict[str, ModuleType] = {
    "throughput": throughput,
    "latency": latency,
    "requests": requests,
    "footprint": footprint,
    "groups": groups,
    "scrapes": scrapes,
    "transactions": transactions,
    "observed": observed,
}


def peer(text: str) -> Target:
    """NAME=HOST:PORT, with @PID where its CPU time and memory are wanted too."""
    name, equals, rest = text.partition("=")
    bootstrap, _, pid = rest.partition("@")
    if not equals or ":" not in bootstrap:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=HOST:PORT[@PID]")
    return Target(name, bootstrap, int(pid) if pid else None)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.broker", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the messages, a third of the time")
    parser.add_argument("--only", nargs="+", choices=sorted(QUESTIONS), default=list(QUESTIONS), help="only these questions")
    parser.add_argument("--peer", action="append", type=peer, default=[], help="also this broker, which must be running")
    arguments = parser.parse_args()
    console = Console(highlight=False, width=None if os.isatty(1) else 140)
    console.print(
        f"{platform.machine()}, {os.cpu_count()} cores shared by broker and clients, Python {platform.python_version()}"
    )
    began = time.monotonic()
    for name in arguments.only:
        show(console, name, QUESTIONS[name], arguments.quick, arguments.peer)
    console.print(f"{time.monotonic() - began:.0f} s in all.")


def show(console: Console, name: str, question: ModuleType, quick: bool, peers: list[Target]) -> None:
    table = Table(title=(question.__doc__ or name).strip(), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in question.COLUMNS:
        table.add_column(column, justify="right" if column not in ("broker", "codec", "what", "unit") else "left")
    with console.status(name):
        for row in question.rows(quick, peers):
            table.add_row(*(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row))
    console.print(table)


if __name__ == "__main__":
    main()

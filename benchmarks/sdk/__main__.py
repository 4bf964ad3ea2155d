"""`python -m benchmarks.sdk [--quick] [--peer HOST:PORT]`: the SDK beside the bare client, one run, one broker (flush os)."""

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.broker.target import fresh_broker
from benchmarks.sdk import bare, ours
from headrace import Admin, Producer

ROUNDS = 5  # the two take turns, and the best of each counts: other programs on the machine only ever add
AIM = 70
READ_MORE = 5  # what librdkafka has fetched before the clock starts must not be most of it


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.sdk", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the messages")
    parser.add_argument(
        "--peer", metavar="HOST:PORT", help="against this broker, which must be running, instead of one of our own"
    )
    arguments = parser.parse_args()
    console = Console(highlight=False, width=None if os.isatty(1) else 140)
    console.print(
        f"{platform.machine()}, {os.cpu_count()} cores shared by broker and clients, Python {platform.python_version()}"
    )
    count = 50_000 if arguments.quick else 200_000
    if arguments.peer:
        show_all(console, arguments.peer, count)
        return
    with fresh_broker("os") as target:
        show_all(console, target.bootstrap, count)


def show_all(console: Console, bootstrap: str, count: int) -> None:
    show(
        console,
        "Records of 100 bytes a second",
        ["what", "bare client", "SDK", "% of bare", "aim", "CPU µs, bare", "CPU µs, SDK"],
        throughput(bootstrap, count),
    )
    show(console, "Acknowledgement of one record at linger=0, ms", ["what", "p50", "p99"], latency(bootstrap, count // 100))
    show(
        console,
        "Push, records a second",
        ["workers", "callback does nothing", "callback takes 1 ms"],
        push(bootstrap, count // 10),
    )


def show(console: Console, title: str, columns: list[str], rows: Iterator[tuple[object, ...]]) -> None:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="left" if column == "what" else "right")
    with console.status(title):
        for row in rows:
            table.add_row(*(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row))
    console.print(table)


def throughput(bootstrap: str, count: int) -> Iterator[tuple[object, ...]]:
    for batch in (100, 10_000):
        name = fresh(bootstrap)
        yield row(
            f"send, one by one, batches of {batch}",
            count,
            lambda b=batch, t=name: bare.produce(bootstrap, t, count, b),
            lambda b=batch, t=name: ours.send(bootstrap, t, count, b),
            "-",
        )
        yield row(
            f"send_many, batches of {batch}",
            count,
            lambda b=batch, t=name: bare.produce_batches(bootstrap, t, count, b),
            lambda b=batch, t=name: ours.send_many(bootstrap, t, count, b),
            f"{AIM} %",
        )
    count *= READ_MORE
    full = filled(bootstrap, count)
    yield row(
        "read, lists of 1,000",
        count,
        lambda: bare.consume(bootstrap, full, count),
        lambda: ours.batches(bootstrap, full, count),
        f"{AIM} %",
    )
    yield row(
        "read, one by one", count, lambda: bare.consume(bootstrap, full, count), lambda: ours.iterate(bootstrap, full, count), "-"
    )


def row(what: str, count: int, theirs: Callable[[], float], mine: Callable[[], float], aim: str) -> tuple[object, ...]:
    best = [Best(), Best()]
    for _ in range(ROUNDS):
        for each, run in zip(best, (theirs, mine), strict=True):
            each.take(run)
    bare_rate, our_rate = (count / each.seconds for each in best)
    bare_cpu, our_cpu = (f"{each.cpu_seconds / count * 1e6:.2f}" for each in best)
    return what, round(bare_rate), round(our_rate), f"{100 * our_rate / bare_rate:.0f} %", aim, bare_cpu, our_cpu


class Best:
    """The shortest time, and the least CPU of this process, over several rounds."""

    def __init__(self) -> None:
        self.seconds = self.cpu_seconds = float("inf")

    def take(self, run: Callable[[], float]) -> None:
        before = time.process_time()
        self.seconds = min(self.seconds, run())
        self.cpu_seconds = min(self.cpu_seconds, time.process_time() - before)


def latency(bootstrap: str, count: int) -> Iterator[tuple[object, ...]]:
    topic = fresh(bootstrap)
    for what, round_trips in (("bare client", bare.round_trips), ("SDK", ours.round_trips)):
        times = sorted(list(round_trips(bootstrap, topic, count))[count // 10 :])
        yield what, f"{statistics.median(times) * 1000:.2f}", f"{times[int(len(times) * 0.99)] * 1000:.2f}"


def push(bootstrap: str, count: int) -> Iterator[tuple[object, ...]]:
    topic = filled(bootstrap, count)
    few = filled(bootstrap, count // 10)
    for workers in (1, 4, 16):
        idle = count / min(ours.push(bootstrap, topic, count, workers, lambda: None) for _ in range(ROUNDS))
        slow = count // 10 / ours.push(bootstrap, few, count // 10, workers, lambda: time.sleep(0.001))
        yield workers, round(idle), round(slow)


def fresh(bootstrap: str) -> str:
    name = f"bench-{time.time_ns()}"
    with Admin(bootstrap) as admin:
        admin.create_topic(name)
    return name


def filled(bootstrap: str, count: int) -> str:
    name = fresh(bootstrap)
    with Producer(bootstrap, batch_messages=10_000) as producer:
        producer.send_many(name, (bare.VALUE for _ in range(count)), keys=(str(number % 1000) for number in range(count)))
    return name


if __name__ == "__main__":
    main()

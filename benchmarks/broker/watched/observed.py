"""What metrics cost: a broker whose pages are read every second beside one whose are not, and one that measures no request."""

import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from statistics import median
from urllib.request import urlopen

from benchmarks.broker import costs
from benchmarks.broker.requests import produce_frame, require_success
from benchmarks.broker.target import Target, data_directory, free_port, serving
from benchmarks.broker.throughput import temporary_topic

COLUMNS = ("what", "CPU µs a message", "pages read", "ratio", "not measured", "ratio")
ROUNDS = 5
UNCOUNTED = (sys.executable, "-m", "benchmarks.broker.watched.uncounted")
SCRAPE_S = 1.0
COUNTS = {100: 1_000_000, 1024: 200_000}


def rows(quick: bool, peers: list[Target]) -> Iterator[tuple[object, ...]]:
    """The middle one of the rounds' ratios, to a broker as most run it: it counts, and nobody looks."""
    with ExitStack() as stack:
        brokers = [stack.enter_context(each) for each in (_plain(), _read(), _plain(UNCOUNTED))]
        connections = [(target, stack.enter_context(_asked(target))) for target in brokers]
        rounds = [[_round(quick, *each) for each in connections] for _ in range(ROUNDS)]
    for name in rounds[0][0]:
        plain, read, unmeasured = ([each[side][name] for each in rounds] for side in range(3))
        yield name, f"{median(plain):.3g}", *_against(plain, read), *_against(plain, unmeasured)


def _against(plain: list[float], other: list[float]) -> tuple[str, str]:
    ratio = median(one / another for one, another in zip(other, plain, strict=True))
    return f"{median(other):.3g}", f"{ratio:.2f}"


@contextmanager
def _plain(command: tuple[str, ...] | None = None) -> Iterator[Target]:
    with data_directory() as data, serving(data, "os", command=command) as (target, _):
        yield target


@contextmanager
def _read() -> Iterator[Target]:
    """Both pages, every second: fifteen times as often as Prometheus does."""
    port = free_port()
    over = threading.Event()

    def read() -> None:
        while not over.wait(SCRAPE_S):
            for page in ("metrics", "metrics/detail"):
                urlopen(f"http://127.0.0.1:{port}/{page}").read()

    settings = {"listeners": "PLAINTEXT://127.0.0.1:{port}", "headrace.metrics.listener": f"127.0.0.1:{port}"}
    with data_directory() as data, serving(data, "os", settings) as (target, _):
        reader = threading.Thread(target=read)
        reader.start()
        try:
            yield target
        finally:
            over.set()
            reader.join()


@contextmanager
def _asked(target: Target) -> Iterator[tuple[socket.socket, bytes]]:
    """A connection, and a request of one message for it."""
    with temporary_topic(target, 1) as topic, socket.create_connection(target.address, 10) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        frame = produce_frame(topic)
        require_success(connection, frame)
        yield connection, frame


def _round(quick: bool, target: Target, asked: tuple[socket.socket, bytes]) -> dict[str, float]:
    figures = {
        f"one message in a request, {count} in flight": costs.of_a_request(target, *asked, count) * 1e6 for count in (1, 50)
    }
    for size, count in COUNTS.items():
        written, read = costs.of_a_million(target, size, count // 4 if quick else count)
        figures |= {f"written in batches, {size} bytes": written, f"read in batches, {size} bytes": read}
    return figures

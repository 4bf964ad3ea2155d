"""What metrics cost: a broker as it is beside one that measures no request, in turns; and reading the pages."""

import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from statistics import median
from urllib.request import urlopen

from benchmarks.broker import costs
from benchmarks.broker.requests import produce_frame, require_success
from benchmarks.broker.target import HEADRACE, Target, data_directory, free_port, serving
from benchmarks.broker.throughput import run_client, temporary_topic

COLUMNS = ("what", "CPU µs", "not measured", "ratio")
UNCOUNTED = (sys.executable, "-m", "benchmarks.broker.watched.uncounted")
PAGES = ("metrics", "metrics/detail")
SCRAPES = 20
Round = Callable[[], dict[str, float]]


def rows(quick: bool, peers: list[Target]) -> Iterator[tuple[object, ...]]:
    """The middle one of the rounds' ratios: aim 1.02."""
    port = free_port()
    settings = {"listeners": "PLAINTEXT://127.0.0.1:{port}", "headrace.metrics.listener": f"127.0.0.1:{port}"}
    with ExitStack() as stack:
        brokers = [
            stack.enter_context(serving(stack.enter_context(data_directory()), "os", told, command))[0]
            for told, command in ((settings, HEADRACE), (None, UNCOUNTED))
        ]
        asked = [stack.enter_context(_asked(target, 500_000 if quick else 1_000_000)) for target in brokers]
        # The first round only warms both up.
        rounds = [[once() for once in asked] for _ in range(1 + (7 if quick else 21))][1:]
        for name in rounds[0][0]:
            pairs = [(counted[name], uncounted[name]) for counted, uncounted in rounds]
            ratio = median(counted / uncounted for counted, uncounted in pairs)
            yield name, *(f"{median(pair[side] for pair in pairs):.3g}" for side in (0, 1)), f"{ratio:.2f}"
        for page in PAGES:
            yield f"/{page}, read once", f"{_of_a_scrape(brokers[0], f'http://127.0.0.1:{port}/{page}') * 1e6:,.0f}", "–", "–"


def _of_a_scrape(target: Target, url: str) -> float:
    before = target.cpu_seconds()
    for _ in range(SCRAPES):
        urlopen(url).read()
    return (target.cpu_seconds() - before) / SCRAPES


@contextmanager
def _asked(target: Target, count: int) -> Iterator[Round]:
    """Writes by requests of one size, whatever the pace, and reads what is there."""
    with (
        temporary_topic(target, 1) as topic,
        temporary_topic(target, costs.PARTITIONS) as full,
        socket.create_connection(target.address, 10) as connection,
    ):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        one, many = produce_frame(topic), produce_frame(topic, 100, 1024)
        require_success(connection, one)
        run_client(
            "produce", bootstrap=target.bootstrap, topic=full, partitions=costs.PARTITIONS, count=count, size=100, codec="none"
        )
        yield lambda: {
            "a request of one message, 1 in flight": costs.of_a_request(target, connection, one, 1) * 1e6,
            "a request of one message, 50 in flight": costs.of_a_request(target, connection, one, 50) * 1e6,
            "a request of 100 messages of 1 KiB": costs.of_a_request(target, connection, many, 5) * 1e6,
            "a message of 100 bytes, read": costs.of_a_million_read(target, full, count),
        }

"""How long a record takes from the producer's hand to the consumer's, at a steady rate."""

import json
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.broker.load import WARM_UP_S
from benchmarks.broker.target import Target, fresh_broker
from benchmarks.broker.throughput import run_client, temporary_topic

COLUMNS = ("broker", "messages/s", "p50 ms", "p99 ms", "p99.9 ms")
RATES = (1_000, 10_000)


def rows(quick: bool, peers: list[Target]) -> Iterator[tuple[object, ...]]:
    for rate in RATES:
        for flush in ("ack", "os"):
            with fresh_broker(flush) as target:
                yield measure(target, rate, 3 if quick else 10)
        for peer in peers:
            yield measure(peer, rate, 3 if quick else 10)


def measure(target: Target, rate: int, seconds: int) -> tuple[object, ...]:
    """The consumer waits before the producer begins, so that every message is measured at the head of the log."""
    with temporary_topic(target, 1) as topic:
        return _measure(target, rate, seconds, topic)


def _measure(target: Target, rate: int, seconds: int, topic: str) -> tuple[object, ...]:
    arguments = {
        "bootstrap": target.bootstrap,
        "topic": topic,
        "count": int(rate * (seconds + WARM_UP_S)),
        "skip": int(rate * WARM_UP_S),
    }
    command = [sys.executable, "-m", "benchmarks.broker.load", "arrivals", json.dumps(arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as consumer:
        assert consumer.stdout is not None
        consumer.stdout.readline()
        run_client("pace", bootstrap=target.bootstrap, topic=topic, rate=rate, seconds=seconds)
        taken = json.loads(consumer.stdout.readline())
    return target.name, rate, *(f"{taken[name]:.2f}" for name in ("p50", "p99", "p99.9"))

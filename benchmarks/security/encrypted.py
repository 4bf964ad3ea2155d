"""Produce and consume by TLS 1.3 beside plain text: one broker with a listener of each, asked in turns by the same client.

The client has a process of its own and shares the machine's cores with the broker: what is left of the throughput counts what
both spend, and the broker's own part is told beside it.
"""

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.broker.target import API_VERSIONS_FRAME, Target, data_directory, free_port, serving
from benchmarks.broker.throughput import run_client, temporary_topic
from headrace.host.certificates import DevelopmentAuthority

TURNS = 3
PARTITIONS = 6
AIM = 0.6
COUNTS = {100: 1_000_000, 1024: 150_000}
COLUMNS = ["", "bytes", "plain text/s", "TLS/s", "ratio", "broker, CPU s/M", "by TLS", "ratio"]


@dataclass(frozen=True)
class Stage:
    """A broker that is reached both ways."""

    target: Target
    secure_bootstrap: str
    authority: Path

    def ways(self) -> dict[str, dict[str, Any]]:
        trusted = {"security.protocol": "SSL", "ssl.ca.location": str(self.authority)}
        return {
            "plain": {"bootstrap": self.target.bootstrap},
            "tls": {"bootstrap": self.secure_bootstrap, "security": trusted},
        }


@contextmanager
def both_ways() -> Iterator[Stage]:
    secure_port = free_port()
    with data_directory() as folder:
        authority = DevelopmentAuthority(folder / "certificates")
        settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{{port}},SSL://127.0.0.1:{secure_port}",
            "ssl.keystore.location": str(authority.issue_broker(["127.0.0.1"])),
            "ssl.enabled.protocols": "TLSv1.3",
        }
        with serving(folder / "data", "os", settings) as (target, _):
            yield Stage(target, f"127.0.0.1:{secure_port}", authority.file)


def encrypted(quick: bool) -> Iterator[tuple[object, ...]]:
    """For each size and direction: what goes through both ways and what it costs the broker; the middle of the turns counts."""
    with both_ways() as stage:
        for size, count in COUNTS.items():
            produced: dict[str, list[Measured]] = {"plain": [], "tls": []}
            consumed: dict[str, list[Measured]] = {"plain": [], "tls": []}
            for _ in range(TURNS):
                for way, reached in stage.ways().items():
                    wrote, read = one_turn(stage.target, reached, size, count // 4 if quick else count)
                    produced[way].append(wrote)
                    consumed[way].append(read)
            yield "produced", size, *compared(produced)
            yield "consumed", size, *compared(consumed)


@dataclass(frozen=True)
class Measured:
    """Messages a second, and what a million of them cost the broker."""

    a_second: float
    cpu_seconds: float


def one_turn(target: Target, reached: dict[str, Any], size: int, count: int) -> tuple[Measured, Measured]:
    with temporary_topic(target, PARTITIONS) as topic:
        wrote = timed(
            target,
            lambda: run_client("produce", topic=topic, partitions=PARTITIONS, count=count, size=size, codec="none", **reached),
        )
        read = timed(target, lambda: run_client("consume", topic=topic, partitions=PARTITIONS, count=count, **reached))
    return wrote, read


def timed(target: Target, load: Callable[[], dict[str, Any]]) -> Measured:
    before = target.cpu_seconds()
    done = load()
    return Measured(done["messages"] / done["seconds"], (target.cpu_seconds() - before) / done["messages"] * 1e6)


def compared(measured: dict[str, list[Measured]]) -> tuple[str, ...]:
    """Each turn's two ways followed one another: the ratio is the middle one of theirs."""
    pairs = list(zip(measured["plain"], measured["tls"], strict=True))
    return (
        f"{median(plain.a_second for plain, _ in pairs):,.0f}",
        f"{median(tls.a_second for _, tls in pairs):,.0f}",
        f"{median(tls.a_second / plain.a_second for plain, tls in pairs):.2f}",
        f"{median(plain.cpu_seconds for plain, _ in pairs):.2f}",
        f"{median(tls.cpu_seconds for _, tls in pairs):.2f}",
        f"{median(tls.cpu_seconds / plain.cpu_seconds for plain, tls in pairs):.2f}",
    )


def handshakes(count: int) -> Iterator[tuple[object, ...]]:
    """Connections that ask one thing, plain and by TLS, none of which resumes a session: full handshakes."""
    with both_ways() as stage:
        host, port = stage.secure_bootstrap.rsplit(":", 1)
        context = ssl.create_default_context(cafile=stage.authority)

        def by_tls() -> None:
            with (
                socket.create_connection((host, int(port))) as below,
                context.wrap_socket(below, server_hostname=host) as connection,
            ):
                ask(connection)

        def in_plain() -> None:
            with socket.create_connection(stage.target.address) as connection:
                ask(connection)

        for name, connect in (("plain text", in_plain), ("TLS 1.3, P-256", by_tls)):
            before, began, own = stage.target.cpu_seconds(), time.perf_counter(), time.process_time()
            for _ in range(count):
                connect()
            seconds, own = time.perf_counter() - began, time.process_time() - own
            spent = stage.target.cpu_seconds() - before
            yield (
                name,
                f"{count / seconds:,.0f}",
                f"{spent / count * 1e6:,.0f}",
                f"{count / spent:,.0f}",
                f"{own / count * 1e6:,.0f}",
            )


def ask(connection: socket.socket) -> None:
    connection.sendall(API_VERSIONS_FRAME)
    assert connection.recv(4096)

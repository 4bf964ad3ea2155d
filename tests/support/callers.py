"""Librdkafka's clients, seen from outside: who calls at the address of a broker that is away, and how many this process has."""

import socket
from pathlib import Path


def wait_for_callers(bootstrap: str, count: int, seconds: float = 60.0) -> None:
    """Return when so many have called at the address of a broker that is down; each is turned away."""
    host, _, port = bootstrap.rpartition(":")
    with socket.create_server((host, int(port))) as door:
        door.settimeout(seconds)
        for _ in range(count):
            door.accept()[0].close()


def clients_here() -> int:
    """How many of librdkafka's clients this process has: each has one main thread."""
    names = (path.read_text() for path in Path("/proc/self/task").glob("*/comm"))
    return sum(name.startswith("rdk:main") for name in names)

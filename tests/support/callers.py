"""Waiting until clients have noticed that a broker is away: somebody else listens in its place, and sees who calls."""

import socket


def wait_for_callers(bootstrap: str, count: int, seconds: float = 60.0) -> None:
    """Return when so many have called at the address of a broker that is down; each is turned away."""
    host, _, port = bootstrap.rpartition(":")
    with socket.create_server((host, int(port))) as door:
        door.settimeout(seconds)
        for _ in range(count):
            door.accept()[0].close()

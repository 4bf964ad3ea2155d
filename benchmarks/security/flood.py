"""Somebody who has long been in, while another address begins a thousand TLS handshakes a second."""

import socket
import ssl
from collections.abc import Iterator

from benchmarks.broker.target import API_VERSIONS_FRAME
from benchmarks.security.encrypted import both_ways
from headrace.testing.handshake_flood import Waits, flooded, watch

A_SECOND = 1000
COLUMNS = ["", "handshakes answered a second", "broker, % of a core", "median, ms", "p99, ms", "longest, ms"]


def watched(seconds: float) -> Iterator[tuple[object, ...]]:
    """How long answers took by TLS without a flood, and with it."""
    with both_ways() as stage:
        host, port = stage.secure_bootstrap.rsplit(":", 1)
        context = ssl.create_default_context(cafile=stage.authority)
        with (
            socket.create_connection((host, int(port))) as below,
            context.wrap_socket(below, server_hostname=host) as connection,
        ):
            spent = stage.target.cpu_seconds()
            quiet = watch(connection, API_VERSIONS_FRAME, seconds)
            yield "nobody else", "–", *told(stage.target.cpu_seconds() - spent, seconds, quiet)
            # It lasts a little longer than anybody looks.
            with flooded((host, int(port)), A_SECOND, seconds + 1) as flood:
                spent = stage.target.cpu_seconds()
                busy = watch(connection, API_VERSIONS_FRAME, seconds)
                spent = stage.target.cpu_seconds() - spent
                assert flood.stdout is not None
                answered = int(flood.stdout.readline().split()[0])
            name = f"{A_SECOND:,} handshakes a second from another address"
            yield name, f"{answered / (seconds + 1):,.0f}", *told(spent, seconds, busy)


def told(spent: float, seconds: float, waits: Waits) -> tuple[str, ...]:
    return (f"{spent / seconds * 100:.0f}", f"{waits.median:.2f}", f"{waits.p99:.2f}", f"{waits.longest:.2f}")

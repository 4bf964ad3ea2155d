"""How TLS is best spoken by a Python process: the ways that there are, without a broker, by processor time for a gigabyte.

A thread of this process is the other side; what it spends with OpenSSL is counted apart and taken off.
"""

import asyncio
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import uvloop

from headrace.host.certificates import DevelopmentAuthority

CHUNK = bytes(64 * 1024)
RECEIVE_BYTES = 256 * 1024
ULPS = Path("/proc/sys/net/ipv4/tcp_available_ulp")


class Sink(asyncio.BufferedProtocol):
    """Takes so many bytes, then sends as many."""

    def __init__(self, size: int, done: "asyncio.Future[float]") -> None:
        self._buffer = memoryview(bytearray(RECEIVE_BYTES))
        self._left = self._to_send = size
        self._done = done
        self._is_full = False
        self.received_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._left -= nbytes
        if self._left <= 0:
            self.received_at = time.thread_time()
            self.resume_writing()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        while self._to_send > 0 and not self._is_full:
            self._to_send -= len(CHUNK)
            self._transport.write(CHUNK)
        if self._to_send <= 0 and not self._done.done():
            self._done.set_result(time.thread_time())

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(exc or ConnectionError("the other side went away"))


class BioSink(Sink):
    """The same by TLS, with OpenSSL's buffers in memory between a TCP transport and itself."""

    def __init__(self, size: int, done: "asyncio.Future[float]", context: ssl.SSLContext) -> None:
        super().__init__(size, done)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._plain = memoryview(bytearray(RECEIVE_BYTES))
        self._is_open = False

    def buffer_updated(self, nbytes: int) -> None:
        self._incoming.write(self._buffer[:nbytes])
        try:
            if not self._is_open:
                self._tls.do_handshake()
                self._is_open = True
            while count := self._tls.read(RECEIVE_BYTES, cast(bytearray, self._plain)):
                super().buffer_updated(int(count))
        except ssl.SSLWantReadError:
            pass
        self._flush()

    def resume_writing(self) -> None:
        self._is_full = False
        while self._to_send > 0 and not self._is_full:
            self._to_send -= len(CHUNK)
            self._tls.write(CHUNK)
            self._flush()
        if self._to_send <= 0 and not self._done.done():
            self._done.set_result(time.thread_time())

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._transport.write(self._outgoing.read())


Measure = Callable[[int], tuple[float, float]]


def transports(size: int) -> Iterator[tuple[object, ...]]:
    """Seconds of processor time for a gigabyte in and out."""
    with tempfile.TemporaryDirectory() as folder:
        authority = DevelopmentAuthority(Path(folder))
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(authority.issue_broker(["127.0.0.1"]))
        client = ssl.create_default_context(cafile=authority.file)
        ways: list[tuple[str, Callable[[], asyncio.AbstractEventLoop], ssl.SSLContext | None, bool]] = [
            ("plain TCP, uvloop", uvloop.new_event_loop, None, False),
            ("TLS by uvloop", uvloop.new_event_loop, server, False),
            ("TLS by asyncio", asyncio.new_event_loop, server, False),
            ("TLS by a memory BIO of ours, uvloop", uvloop.new_event_loop, server, True),
        ]
        for name, make_loop, context, by_bio in ways:
            received, sent = min(_measured(make_loop, context, client, size, by_bio=by_bio) for _ in range(3))
            yield name, f"{received / size * 1e9:.2f}", f"{sent / size * 1e9:.2f}"
    offered = ULPS.read_text().split() if ULPS.exists() else []
    yield "TLS by the kernel", *(["not measured"] * 2 if "tls" in offered else ["not in this kernel"] * 2)


def _measured(
    make_loop: Callable[[], asyncio.AbstractEventLoop],
    context: ssl.SSLContext | None,
    client: ssl.SSLContext,
    size: int,
    *,
    by_bio: bool,
) -> tuple[float, float]:
    loop = make_loop()
    try:
        return loop.run_until_complete(_served(loop, context, client, size, by_bio=by_bio))
    finally:
        loop.close()


async def _served(
    loop: asyncio.AbstractEventLoop, context: ssl.SSLContext | None, client: ssl.SSLContext, size: int, *, by_bio: bool
) -> tuple[float, float]:
    done: asyncio.Future[float] = loop.create_future()
    made: list[Sink] = []

    def make() -> Sink:
        made.append(BioSink(size, done, context) if by_bio and context is not None else Sink(size, done))
        return made[-1]

    server = await loop.create_server(make, "127.0.0.1", 0, ssl=None if by_bio else context)
    address: Any = server.sockets[0].getsockname()
    other = threading.Thread(target=_other_side, args=(address, client if context is not None else None, size), daemon=True)
    began = time.thread_time()
    other.start()
    ended = await done
    while other.is_alive():
        await asyncio.sleep(0.001)
    server.close()
    return made[0].received_at - began, ended - made[0].received_at


def _other_side(address: tuple[str, int], context: ssl.SSLContext | None, size: int) -> None:
    connection = socket.create_connection(address)
    if context is not None:
        connection = context.wrap_socket(connection, server_hostname="127.0.0.1")
    with connection:
        for _ in range(size // len(CHUNK)):
            connection.sendall(CHUNK)
        left, into = size, memoryview(bytearray(RECEIVE_BYTES))
        while left > 0:
            left -= connection.recv_into(into)

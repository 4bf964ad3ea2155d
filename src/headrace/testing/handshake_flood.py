"""A flood of TLS handshakes from one address, and how long somebody waits meanwhile who has long been in.

A handshake is begun with its first message, which costs the broker a key exchange and a signature; its answer is awaited, and the
connection closed.  That is cheap for whoever does it, as it is for an attacker.  The flood comes from a process of its own:
`python -m headrace.testing.handshake_flood HOST PORT A_SECOND SECONDS` prints how many were answered.
"""

import errno
import selectors
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

FROM: Final = "127.0.0.2"  # all of 127.0.0.0/8 is this machine
OPEN_MAX: Final = 600
ASK_EVERY_S: Final = 0.005


@dataclass(frozen=True, slots=True)
class Waits:
    """How long somebody waited for answers, in milliseconds."""

    median: float
    p99: float
    longest: float


def watch(connection: socket.socket, question: bytes, seconds: float) -> Waits:
    """Ask again and again, and take the time.  Each question has one short answer."""
    waited: list[float] = []
    ends = time.perf_counter() + seconds
    while (began := time.perf_counter()) < ends:
        connection.sendall(question)
        size = int.from_bytes(_received(connection, 4))
        _received(connection, size)
        took = time.perf_counter() - began
        waited.append(took * 1000)
        time.sleep(max(0.0, ASK_EVERY_S - took))
    waited.sort()
    return Waits(waited[len(waited) // 2], waited[len(waited) * 99 // 100], waited[-1])


def _received(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        piece = connection.recv(size - len(received))
        if not piece:
            raise ConnectionError("the broker hung up")
        received += piece
    return bytes(received)


@contextmanager
def flooded(address: tuple[str, int], a_second: int, seconds: float) -> Iterator["subprocess.Popen[str]"]:
    """While a process begins so many handshakes a second."""
    command = [sys.executable, "-m", __name__, address[0], str(address[1]), str(a_second), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
            yield process
        finally:
            process.kill()


def hello() -> bytes:
    """What a client of TLS says first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    said = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), said, server_hostname="localhost").do_handshake()
    return said.read()


class Flood:
    """Begins handshakes at a steady pace, however long the answers take."""

    def __init__(self, address: tuple[str, int], a_second: int) -> None:
        self._address = address
        self._a_second = a_second
        self._hello = hello()
        self._selector = selectors.DefaultSelector()
        self.begun = self.answered = self.refused = 0

    def run(self, seconds: float) -> None:
        began = time.perf_counter()
        while (passed := time.perf_counter() - began) < seconds:
            while self.begun < passed * self._a_second and len(self._selector.get_map()) < OPEN_MAX:
                self._begin()
            for key, events in self._selector.select(0.001):
                assert isinstance(key.fileobj, socket.socket)
                self._go_on(key.fileobj, events)
        for key in list(self._selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            self._end(key.fileobj)

    def _begin(self) -> None:
        self.begun += 1
        connection = socket.socket()
        connection.setblocking(False)
        connection.bind((FROM, 0))
        if connection.connect_ex(self._address) not in (0, errno.EINPROGRESS):
            connection.close()
            self.refused += 1
            return
        self._selector.register(connection, selectors.EVENT_WRITE)

    def _go_on(self, connection: socket.socket, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                connection.sendall(self._hello)
                self._selector.modify(connection, selectors.EVENT_READ)
                return
            is_answered = bool(connection.recv(1))
        except OSError:
            is_answered = False
        self.answered += is_answered
        self.refused += not is_answered
        self._end(connection)

    def _end(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        # Without leaving anything behind: tens of thousands of closed connections would use up the ports.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        connection.close()


def main() -> None:
    host, port, a_second, seconds = sys.argv[1:]
    flood = Flood((host, int(port)), int(a_second))
    print("begun", flush=True)
    flood.run(float(seconds))
    print(flood.answered, flood.refused, flush=True)


if __name__ == "__main__":
    main()

"""Copies of the trail for whoever collects logs: lines in a file, messages to a syslog.

One thread writes them, out of a bounded queue, so that neither a slow disk nor a syslog that is away holds anybody up.  The topic
is what counts: what finds no room here, or cannot be written, is counted, and a line in the log tells of it.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, Protocol
from urllib.parse import urlsplit

from headrace.host.clock import Clock
from headrace.model.broker_settings import BrokerConfig
from headrace.model.settings import SettingError

logger = logging.getLogger(__name__)

FILE: Final = "headrace.audit.file"
SYSLOG: Final = "headrace.audit.syslog"
LINES_MAX: Final = 10_000  # that wait at a time
END_SECONDS_MAX: Final = 2.0
SEND_SECONDS_MAX: Final = 5.0
FILE_MODE: Final = 0o600  # it names people and what they do
PRIORITY: Final = 10 * 8 + 5  # the facility authpriv, the severity notice


class Sink(Protocol):
    """Where copies go.  Used by one thread."""

    name: str

    def write(self, lines: Sequence[bytes]) -> None: ...
    def close(self) -> None: ...


class FileSink:
    """Appends lines, and begins a new file when somebody has moved the old one away."""

    def __init__(self, path: str) -> None:
        self.name = path
        try:
            self._file = self._open()
        except OSError as error:
            raise SettingError(f"{FILE}: {path} cannot be written: {error.strerror}") from None

    def _open(self) -> int:
        return os.open(self.name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)

    def write(self, lines: Sequence[bytes]) -> None:
        if not self._is_in_place():
            # The new one first: where it cannot be opened, the number of a closed one might be somebody else's by the next time.
            opened = self._open()
            os.close(self._file)
            self._file = opened
        left = memoryview(b"".join(line + b"\n" for line in lines))
        while left:
            left = left[os.write(self._file, left) :]

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.stat(self.name), os.fstat(self._file))
        except FileNotFoundError:
            return False

    def close(self) -> None:
        os.close(self._file)


class SyslogSink:
    """Sends each event as one message.  A connection that was lost is made anew for the next one."""

    def __init__(self, where: str, clock: Clock) -> None:
        self.name = where
        self._clock = clock
        self._is_local = where.startswith("/")
        self._connect = _connector(where)
        self._host = socket.gethostname()
        self._socket: socket.socket | None = None

    def write(self, lines: Sequence[bytes]) -> None:
        try:
            for line in lines:
                if self._socket is None:
                    self._socket = self._connect()
                self._socket.sendall(self._message(line))
        except OSError:
            self.close()
            raise

    def _message(self, line: bytes) -> bytes:
        """RFC 5424, each on a line of its own; sockets of this machine take the older form without date and host."""
        if self._is_local:
            return b"<%d>headrace[%d]: %b" % (PRIORITY, os.getpid(), line)
        now = datetime.fromtimestamp(self._clock.wall_ms() / 1000, UTC).isoformat(timespec="milliseconds")
        return f"<{PRIORITY}>1 {now} {self._host} headrace {os.getpid()} audit - ".encode() + line + b"\n"

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _connector(where: str) -> Callable[[], socket.socket]:
    """What opens a socket to a syslog; SettingError when nothing can."""
    if where.startswith("/"):
        return lambda: _to_socket(where)
    parts = urlsplit(where)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if parts.scheme not in ("udp", "tcp") or not host or port is None:
        raise SettingError(f"{SYSLOG} is {where!r}; write /dev/log, udp://HOST:PORT or tcp://HOST:PORT")
    if parts.scheme == "tcp":
        return lambda: socket.create_connection((host, port), SEND_SECONDS_MAX)
    return lambda: _to_datagrams(host, port)


def _to_socket(path: str) -> socket.socket:
    found = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    found.settimeout(SEND_SECONDS_MAX)
    return _connected(found, path)


def _to_datagrams(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    return _connected(socket.socket(family, kind, protocol), address)


def _connected(made: socket.socket, address: object) -> socket.socket:
    try:
        made.connect(address)  # type: ignore[arg-type]
    except OSError:
        made.close()
        raise
    return made


class Copies:
    """All that is copied, in the order in which it was recorded."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks = sinks
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="audit copies") if sinks else None
        # The loop counts the one, the thread the other.
        self._taken = 0
        self._done = 0
        self._without_room = 0
        self._unwritten = 0
        self._failing: set[str] = set()

    @classmethod
    def from_settings(cls, config: BrokerConfig, clock: Clock) -> "Copies":
        sinks: list[Sink] = []
        if config[FILE]:
            sinks.append(FileSink(config[FILE]))
        if config[SYSLOG]:
            sinks.append(SyslogSink(config[SYSLOG], clock))
        return cls(sinks)

    @property
    def lost(self) -> int:
        """How many found no room, or could not be written."""
        return self._without_room + self._unwritten

    def add(self, lines: Sequence[bytes]) -> None:
        """Have them written soon."""
        if self._thread is None:
            return
        if self._taken - self._done + len(lines) > LINES_MAX:
            self._without_room += len(lines)
            return
        self._taken += len(lines)
        self._thread.submit(self._write, lines)

    def _write(self, lines: Sequence[bytes]) -> None:
        for sink in self._sinks:
            try:
                sink.write(lines)
                self._failing.discard(sink.name)
            except Exception as error:
                self._unwritten += len(lines)
                if sink.name not in self._failing:
                    self._failing.add(sink.name)
                    logger.error("the audit trail cannot be copied to %s: %s; the topic has it", sink.name, error)
        self._done += len(lines)

    async def close(self) -> None:
        """Write what waits, if that does not take long."""
        if self._thread is None:
            return
        thread, self._thread = self._thread, None
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.wrap_future(thread.submit(self._close)), END_SECONDS_MAX)
        thread.shutdown(wait=False, cancel_futures=True)
        if self.lost:
            logger.error("%d events of the audit trail were not copied; the topic has them", self.lost)

    def _close(self) -> None:
        for sink in self._sinks:
            sink.close()

"""One client's connection: frames in, replies out.

Requests are started in the order they arrive and answered in that order; one that waits never delays the start of the next.
What a client can make the broker hold is bounded: it is read only while its requests under way, its replies not yet taken and its
half-received frame stay within their limits.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from headrace.host.disk import Buffer
from headrace.wire.errors import WireError
from headrace.wire.framing import FrameSplitter

if TYPE_CHECKING:
    from headrace.broker.server import Server

logger = logging.getLogger(__name__)

# Replies up to this size are joined and written with one call.
JOIN_BYTES_MAX = 65_536


class PendingReply:
    """A place in the order of replies, kept for a request that has been started."""

    __slots__ = ("_connection", "at_head", "buffers", "size")

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection
        self.buffers: Sequence[Buffer] | None = None
        self.size = 0
        # Called once when every earlier request is answered: a reply that may be large is made only then.
        self.at_head: Callable[[], None] | None = None

    def send(self, buffers: Sequence[Buffer]) -> None:
        """Answer with a whole frame less its length."""
        if self.buffers is None:
            self.buffers = buffers
            self.size = sum(map(len, buffers))
            self._connection.on_answered(self)

    def skip(self) -> None:
        """Answer nothing, as acks=0 asks."""
        self.send(())

    def when_at_head(self, action: Callable[[], None]) -> None:
        """Call back when all earlier requests are answered; at once if they are."""
        if self._connection.is_head(self):
            action()
        else:
            self.at_head = action

    def abandon(self, reason: str) -> None:
        """There is no answer to this request: the connection ends."""
        self._connection.close(reason)

    @property
    def is_wanted(self) -> bool:
        return self._connection.is_open


class Connection(asyncio.BufferedProtocol):
    """A client's socket."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._splitter = FrameSplitter(server.frame_bytes_max)
        self._frames: deque[Buffer] = deque()
        self._replies: deque[PendingReply] = deque()
        self._held_bytes = 0
        self._write_paused = False
        self._read_paused = False
        self._write_scheduled = False
        self._starting = False
        self._resting = False
        self._reserved = 0
        self.client_host = ""
        self.is_open = False
        self.last_active = 0.0

    # -- the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.client_host = peer[0] if peer else ""
        self.is_open = True
        self.last_active = self._server.loop.time()
        if not self._server.admit(self):
            self.close("there are already max.connections connections")

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        self._release()
        self._frames.clear()
        self._replies.clear()
        self._server.forget(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._splitter.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        self.last_active = self._server.loop.time()
        try:
            self._frames.extend(self._splitter.buffer_updated(nbytes))
        except WireError as error:
            self.close(f"it sent a frame that cannot be: {error}")
            return
        self._start_frames()
        self._regulate()

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        self.last_active = self._server.loop.time()
        self._write_ready()
        self._start_frames()
        self._regulate()

    def close(self, reason: str) -> None:
        """End the connection, for a reason worth one line in the log."""
        if self.is_open:
            self.is_open = False
            logger.warning("closed the connection from %s: %s", self.client_host or "an unknown peer", reason)
            self._transport.abort()

    def close_quietly(self) -> None:
        """End the connection after what was written is sent."""
        if self.is_open:
            self.is_open = False
            self._transport.close()

    @property
    def is_idle(self) -> bool:
        """Nothing under way, and no frame begun."""
        return not self._replies and not self._frames and not self.has_partial_frame

    @property
    def has_partial_frame(self) -> bool:
        return self._splitter.buffered_bytes > 0

    @property
    def is_stuck_writing(self) -> bool:
        return self._write_paused

    # -- requests

    def _start_frames(self) -> None:
        while self._frames and self._may_start():
            frame = self._frames.popleft()
            reply = PendingReply(self)
            self._replies.append(reply)
            try:
                self._server.start(frame, self, reply)
            except WireError as error:
                self.close(f"it sent a request that cannot be read: {error}")
            except Exception:
                logger.exception("a request from %s failed", self.client_host)
                self.close("its request failed in the broker")

    def _may_start(self) -> bool:
        return (
            self.is_open
            and not self._starting
            and not self._resting
            and not self._write_paused
            and len(self._replies) < self._server.requests_max
            and self._held_bytes < self._server.reply_bytes_max
        )

    def hold_start(self) -> None:
        """A request was handed to a task that has not begun: the next one waits for that, so that both start in order."""
        self._starting = True

    def release_start(self) -> None:
        self._starting = False
        self._server.loop.call_soon(self._resume_start)

    def rest(self, seconds: float) -> None:
        """A quota is used up: nothing more is started, and so nothing more is read, for a while."""
        if not self._resting:
            self._resting = True
            self._server.loop.call_later(seconds, self._rested)

    def _rested(self) -> None:
        self._resting = False
        self._resume_start()

    def _resume_start(self) -> None:
        if self.is_open and not self._starting:
            self._start_frames()
            self._regulate()

    def _regulate(self) -> None:
        """Read from the socket only while there is room for what comes."""
        if not self.is_open:
            return
        blocked = bool(self._frames) or self._write_paused or not self._reserve()
        if blocked and not self._read_paused:
            self._read_paused = True
            self._transport.pause_reading()
        elif not blocked and self._read_paused:
            self._read_paused = False
            self._transport.resume_reading()

    def _reserve(self) -> bool:
        """Room for the rest of a large frame comes out of what all connections share."""
        needed = self._splitter.announced_bytes
        if needed == self._reserved:
            return True
        self._release()
        if not self._server.reserve(needed, self):
            return False
        self._reserved = needed
        return True

    def _release(self) -> None:
        if self._reserved:
            released, self._reserved = self._reserved, 0
            self._server.release(released)

    def on_room(self) -> None:
        """Shared room for frames has become free."""
        self._regulate()

    # -- replies

    def is_head(self, reply: PendingReply) -> bool:
        return bool(self._replies) and self._replies[0] is reply

    def on_answered(self, reply: PendingReply) -> None:
        if not self.is_open:
            return
        self._held_bytes += reply.size
        if self._replies[0] is reply and not self._write_scheduled:
            # Once per turn of the loop, so that replies that become ready together leave together.
            self._write_scheduled = True
            self._server.loop.call_soon(self._write_ready)

    def _write_ready(self) -> None:
        self._write_scheduled = False
        if not self.is_open:
            return
        parts: list[Buffer] = []
        total = 0
        while self._replies and (buffers := self._replies[0].buffers) is not None and not self._write_paused:
            size = self._replies.popleft().size
            self._held_bytes -= size
            if size:
                parts.append(size.to_bytes(4, "big"))
                parts.extend(buffers)
                total += size
            if total > JOIN_BYTES_MAX:
                self._write(parts, total)
                parts, total = [], 0
            self._call_head()
        if parts:
            self._write(parts, total)
        if self._frames or self._read_paused:
            self._start_frames()
            self._regulate()

    def _write(self, parts: list[Buffer], total: int) -> None:
        if total <= JOIN_BYTES_MAX:
            self._transport.write(b"".join(parts))
        else:
            self._transport.writelines(parts)

    def _call_head(self) -> None:
        if self._replies and (action := self._replies[0].at_head) is not None:
            self._replies[0].at_head = None
            action()

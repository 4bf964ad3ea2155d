"""One client's connection: frames in, replies out.

Requests are started in the order they arrive and answered in that order; one that waits never delays the start of the next.
What a client can make the broker hold is bounded: it is read only while its requests under way and its replies not yet taken stay
within their limits, and all that it holds comes out of the memory that all connections share.
"""

import asyncio
import logging
import sys
from collections.abc import Callable, Hashable
from fcntl import ioctl
from termios import FIONREAD
from typing import TYPE_CHECKING, cast

from headrace.broker.metrics.figures import ConnectionFigures
from headrace.broker.network.pace import Pace
from headrace.broker.network.pending_reply import FAILED, PendingReply
from headrace.host.disk import Buffer
from headrace.model.access.principals import Principal, Subject
from headrace.model.listeners import PLAINTEXT
from headrace.security.authentication.exchange import Authenticated
from headrace.security.authentication.session import NotSignedInError
from headrace.wire.errors import WireError
from headrace.wire.framing import FrameSplitter

if TYPE_CHECKING:
    from headrace.broker.network.server import Server
    from headrace.broker.sign_in.sign_in import SignIn

logger = logging.getLogger(__name__)

# Replies up to this size are joined and written with one call.
JOIN_BYTES_MAX = 65_536
# Replies up to this size leave without being counted first, as most do at once.
UNCOUNTED_BYTES_MAX = 4096
# After so many bytes a connection is not read before the others had their turn: a flood is else read for as long as it lasts.
# From an eighth of a MiB to two, a million records of 1 KiB cost the broker the same, as far as that can be measured.
BYTES_PER_TURN = 512 * 1024
# How long a frame may stand half received, or a reply half taken, without a byte moving.
STALL_SECONDS = 60.0
STALLED = (1 / STALL_SECONDS, STALL_SECONDS)
# Of the time that a connection may be slow, the part for which it may stop amid a request while others wait for its turn.
STANDSTILL_PART = 0.3
# Less than what any kernel takes for a socket that is not read.
WINDOW_BYTES_MIN = 16_384
# Longer than the longest wait that a client asks for in earnest: a rebalance of slow members.
UNDER_WAY_SECONDS_MAX = 3600.0
NOBODY = Subject()


class Connection(asyncio.BufferedProtocol):
    """A client's socket."""

    # Where its owner has to sign in: how far that is.
    sign_in: "SignIn | None" = None
    # The client's library and its version, where it says so.
    software = ""
    # What is to be done when it is lost, for what outlives a request.
    when_lost: dict[Hashable, Callable[[], None]] | None = None

    def __init__(self, server: "Server", listener: str = PLAINTEXT) -> None:
        self._server = server
        self.listener = listener
        self.loop = server.loop
        self.figures = ConnectionFigures(server.monotonic)
        self.share = server.memory.open()
        self._splitter = FrameSplitter(server.frame_bytes_max)
        # Lists, though taken from the front: they are short, and an empty deque takes 760 bytes of every idle connection.
        self._frames: list[Buffer] = []
        self._replies: list[PendingReply] = []
        # Bytes of replies that are made and wait for their place, and of those that the transport has and the socket has not.
        self._held_bytes = 0
        self._leaving_bytes = 0
        # Bytes of requests under way that are still needed.
        self._kept_bytes = 0
        self._write_paused = False
        self._read_paused = False
        self._write_scheduled = False
        self._starting = False
        self._is_held_back = False
        self._turned_away = False
        # Up to which of them it is read before the others have their turn, and whether they have it now.
        self._pause_at = BYTES_PER_TURN
        self._gives_way = False
        self._pauses = 0
        # Who asks, and from where.
        self.subject = NOBODY
        self.is_open = False
        self.last_active = 0.0
        self._arriving: Pace | None = None
        self._leaving: Pace | None = None
        self._turn: Pace | None = None
        self._stopped: Pace | None = None
        self._under_way: Pace | None = None

    @property
    def has_tls(self) -> bool:
        return False

    @property
    def principal(self) -> Principal:
        """Whom it belongs to; ANONYMOUS when nobody was asked."""
        return self.subject.principal

    @property
    def client_host(self) -> str:
        return self.subject.address

    @property
    def client_port(self) -> int | None:
        peer = self._transport.get_extra_info("peername")
        return peer[1] if peer else None

    def request_id(self, correlation_id: int) -> str:
        """What a request is known by in logs and traces, here and at its client: where it came from, and the number there."""
        return f"{self.client_host or 'unknown'}:{self.client_port or 0}/{correlation_id}"

    def on_signed_in(self, identity: Authenticated) -> None:
        """Its owner is known now."""
        raise AssertionError("nobody signs in here")

    # -- the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        # Paused while anything is unsent: a buffer is let go as a whole, so a reply is held until its last byte has left.  With
        # 64 KiB or 1 MiB instead, writing and reading a million records of 1 KiB cost no less, and what is unsent goes uncounted.
        self._transport.set_write_buffer_limits(0)
        peer = transport.get_extra_info("peername")
        self.subject = Subject(address=peer[0]) if peer else NOBODY
        self.is_open = True
        self.last_active = self.loop.time()
        if not self._server.admit(self):
            self._server.figures.refused += 1
            self.close("there are already max.connections connections")
        elif (seconds := self._server.connection_wait(self.client_host)) > 0:
            self._server.figures.refused += 1
            self._turn_away(seconds)

    def _turn_away(self, seconds: float) -> None:
        """Its address makes connections faster than it may.  It is not heard, and closed after a while, as Kafka does: whoever is
        refused at once comes back at once."""
        self._turned_away = True
        # Not now: the transport begins to read after this call, whatever it is told before.
        self.loop.call_soon(self._regulate)
        self.loop.call_later(seconds, self.close_quietly)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        replies, self._replies = self._replies, []
        self._frames.clear()
        self._splitter = FrameSplitter(0)
        # A request that is still under way keeps its bytes, as far as it needs them.
        self.share.close(self._kept_bytes)
        self._server.forget(self)
        for end in list((self.when_lost or {}).values()):
            end()
        for reply in replies:
            if reply.figures is not None:
                reply.figures.on_given_up()
            if (action := reply.when_closed) is not None:
                reply.when_closed = None
                reply.run(action)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._splitter.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        if self._turned_away:
            return
        self.last_active = self.loop.time()
        self.figures.received_bytes += nbytes
        try:
            self._splitter.buffer_updated(nbytes, self._frames)
        except WireError as error:
            self._server.figures.unreadable += 1
            self.close(f"it sent a frame that cannot be: {error}")
            return
        if len(self._frames) > 1:
            self.figures.note_waiting(len(self._frames))
        if self.share.is_in_line and self._frames:
            # The turn was for the frame that is complete now, not for the next one.
            self.share.stop_receiving()
        self._start_frames()
        if self._frames:
            self.figures.note_waiting(len(self._frames))
        if self.figures.received_bytes >= self._pause_at:
            self._give_way()
        elif self._frames or self._splitter.partial is not None or self._read_paused or self._write_paused or self.share.requests:
            self._regulate()

    def _give_way(self) -> None:
        if not self._gives_way:
            self._gives_way = True
            self.loop.call_soon(self._gave_way)
        self._regulate()

    def _gave_way(self) -> None:
        self._gives_way = False
        self._pause_at = self.figures.received_bytes + BYTES_PER_TURN
        self._regulate()

    def pause_writing(self) -> None:
        self._write_paused = True
        self._pauses += 1

    def resume_writing(self) -> None:
        self._write_paused = False
        self._leaving_bytes = 0
        self.last_active = self.loop.time()
        self._call_head()
        self._write_ready()
        self._start_frames()
        self._regulate()

    def close(self, reason: str) -> None:
        """End the connection, for a reason that the log has to tell."""
        if self.is_open:
            self._server.figures.cut_off += 1
            self._server.closings.note(self.client_host or "an unknown peer", reason, self.loop.time())
            self.abort()

    def abort(self) -> None:
        """End the connection now, whatever is unsent."""
        self.is_open = False
        self._transport.abort()

    def close_quietly(self) -> None:
        """End the connection after what was written is sent."""
        if self.is_open:
            self.is_open = False
            self._transport.close()

    # -- those who do nothing, or too little

    @property
    def is_idle(self) -> bool:
        """Nothing under way, and no frame begun."""
        return not self._replies and not self._frames and not self._splitter.buffered_bytes

    @property
    def missing_bytes(self) -> int:
        """How much of the request that it sends has not arrived."""
        return self._splitter.missing_bytes

    def offence(self, now: float, *, others_wait: bool) -> str | None:
        """Why this connection must not be kept; asked now and then."""
        if self._write_paused:
            return self._leaving_offence(now, others_wait=others_wait)
        if self._splitter.buffered_bytes and (not self._read_paused or self._has_stopped_sending()):
            return self._arriving_offence(now)
        if self._replies:
            self._under_way = self._under_way or Pace()
            if self._under_way.is_below(1, UNDER_WAY_SECONDS_MAX, thing=self._replies[0], moved=0, now=now):
                return f"its request was still under way after {UNDER_WAY_SECONDS_MAX:.0f} s"
        else:
            self._under_way = None
        return None

    def _has_stopped_sending(self) -> bool:
        """Whether a connection that is not read, as there is no room, has stopped by itself: it would have filled its window."""
        socket = self._transport.get_extra_info("socket")
        if socket is None or not self.share.is_in_line:
            return False
        try:
            waiting = ioctl(socket.fileno(), FIONREAD, bytes(4))
        except OSError:
            return False
        return int.from_bytes(waiting, sys.byteorder) < min(WINDOW_BYTES_MIN, self._splitter.missing_bytes)

    def _arriving_offence(self, now: float) -> str | None:
        """What is not read because there is no room is not the client's fault; it is not asked about then."""
        rate, seconds = self._server.slowest
        self._arriving = self._arriving or Pace()
        if self._arriving.is_below(rate, seconds, thing=self._splitter.begun, moved=self.figures.received_bytes, now=now):
            return f"it sent a request more slowly than {rate:g} bytes a second"
        if not (self.share.has_turn and self._server.memory.is_short):
            self._turn = self._stopped = None
            return None
        self._stopped = self._stopped or Pace()
        standstill = seconds * STANDSTILL_PART
        # The others are asked to wait for whoever is slow, but not as long for one that has stopped.
        if self._stopped.is_below(
            1 / standstill, standstill, thing=self._splitter.begun, moved=self.figures.received_bytes, now=now
        ):
            return f"others waited for memory while it stopped for {standstill:g} s amid a large request"
        self._turn = self._turn or Pace()
        if self._turn.is_below(1, STALL_SECONDS, thing=self._splitter.begun, moved=0, now=now):
            return f"others waited {STALL_SECONDS:.0f} s for memory while it sent a large request"
        return None

    def _leaving_offence(self, now: float, *, others_wait: bool) -> str | None:
        rate, seconds = self._server.slowest if others_wait else STALLED
        self._leaving = self._leaving or Pace()
        left = self._transport.get_write_buffer_size()
        if not self._leaving.is_below(rate, seconds, thing=self._pauses, moved=-left, now=now):
            return None
        if others_wait:
            return f"it read its replies more slowly than {rate:g} bytes a second while others waited for memory"
        return f"it did not read its replies for {seconds:.0f} s"

    # -- requests

    def _start_frames(self) -> None:
        if not self._frames:
            return
        figures, start, monotonic = self.figures, self._server.start, self.figures.monotonic
        now = monotonic()
        while self._frames and self._may_start():
            frame = self._frames.pop(0)
            reply = PendingReply(self, figures.arrived.pop(0) if figures.arrived else 0.0, now)
            figures.requests += 1
            self._replies.append(reply)
            try:
                start(frame, self, reply)
            except NotSignedInError as error:
                self.close(str(error))
            except WireError as error:
                self._server.figures.unreadable += 1
                self.close(f"it sent a request that cannot be read: {error}")
            except Exception:
                logger.exception("%s failed", reply.name)
                self._server.figures.failed += 1
                self.close(FAILED)
            reply.worked_at = reply.answered_at = now = monotonic()

    def _may_start(self) -> bool:
        server = self._server
        return (
            self.is_open
            and not self._starting
            and not self._is_held_back
            and not self._write_paused
            and len(self._replies) < server.requests_max
            and self._held_bytes < server.reply_bytes_max
            and (not server.memory.is_flooded or self._wait_to_start())
        )

    def _wait_to_start(self) -> bool:
        self.share.wait_to_start(self.on_room)
        return False

    def hold_start(self) -> None:
        """A request was handed to a task that has not begun: the next one waits for that, so that both start in order."""
        self._starting = True

    def release_start(self) -> None:
        self._starting = False
        self.loop.call_soon(self._resume_start)

    def hold_back(self, seconds: float) -> None:
        """A quota is used up: nothing more is started, and so nothing more is read, for a while."""
        if not self._is_held_back:
            self._is_held_back = True
            self.loop.call_later(seconds, self._go_on)

    def _go_on(self) -> None:
        self._is_held_back = False
        self._resume_start()

    def _resume_start(self) -> None:
        if self.is_open and not self._starting:
            self._start_frames()
            self._regulate()

    def on_room(self) -> None:
        """There is room again for what this connection waits for."""
        self._resume_start()

    def _regulate(self) -> None:
        """Read from the socket only while there is room for what comes."""
        if not self.is_open:
            return
        queued = sum(map(len, self._frames)) if self._frames else 0
        blocked = bool(queued) or self._write_paused or self._turned_away
        if blocked and self.share.is_in_line:
            self.share.stop_receiving()
        requests = self._kept_bytes + queued + self._splitter.held_bytes
        if not blocked and self._splitter.held_bytes:
            wanted = self._kept_bytes + self._splitter.wanted_bytes
            if self.share.may_receive(wanted, self.on_room):
                requests = wanted
            else:
                blocked = True
        self._settle(requests)
        blocked = blocked or self._gives_way
        if blocked and not self._read_paused:
            self._read_paused = True
            self._transport.pause_reading()
        elif not blocked and self._read_paused:
            self._read_paused = False
            self._arriving = None
            self._transport.resume_reading()

    # -- memory

    def _settle(self, requests: int) -> None:
        share, replies = self.share, self._held_bytes + self._leaving_bytes
        if requests != share.requests or replies != share.replies:
            share.settle(requests, replies)

    def on_kept(self, size: int) -> None:
        """A request under way needs so many bytes more, or less."""
        self._kept_bytes += size
        self.share.settle(self.share.requests + size, self.share.replies)

    # -- replies

    def is_head(self, reply: PendingReply) -> bool:
        return bool(self._replies) and self._replies[0] is reply and not self._write_paused

    def on_answered(self, reply: PendingReply) -> None:
        if not self.is_open:
            return
        self._held_bytes += reply.size
        if self._held_bytes > self.share.replies + UNCOUNTED_BYTES_MAX:
            self._settle(self.share.requests)
        if self._replies[0] is reply and not self._write_scheduled:
            # Once per turn of the loop, so that replies that become ready together leave together.
            self._write_scheduled = True
            self.loop.call_soon(self._write_ready)

    def _write_ready(self) -> None:
        self._write_scheduled = False
        if not self.is_open:
            return
        while not self._write_paused and self._replies and self._replies[0].buffers is not None:
            self._write_some()
            if self._replies:
                self._call_head()
        if self._frames or self._read_paused:
            self._start_frames()
            self._regulate()
        elif self._leaving_bytes or self.share.replies:
            self._settle(self.share.requests)

    def _write_some(self) -> None:
        """Write the replies that are ready, up to and including the first large one."""
        parts: list[Buffer] = []
        total = 0
        replies, now = self._replies, self.figures.monotonic()
        while total <= JOIN_BYTES_MAX and replies and (buffers := replies[0].buffers) is not None:
            reply = replies.pop(0)
            size = reply.size
            # Whoever still knows the reply does not hold its bytes.
            reply.buffers = ()
            self._held_bytes -= size
            if (figures := reply.figures) is not None:
                figures.on_sent(reply.arrived_at, reply.started_at, reply.worked_at, reply.answered_at, now)
            if buffers:  # a reply may be empty; none at all is for those who want none
                parts.append(size.to_bytes(4, "big"))
                parts.extend(buffers)
                total += size
        self.figures.sent_bytes += total
        if total > JOIN_BYTES_MAX:
            self._transport.writelines(parts)
        elif parts:
            self._transport.write(b"".join(parts))
        if self._write_paused:
            self._leaving_bytes = total

    def _call_head(self) -> None:
        """Let the next reply be made, if it waited for its turn and the earlier ones have left."""
        if self._replies and not self._write_paused and (action := self._replies[0].at_head) is not None:
            reply = self._replies[0]
            reply.at_head = None
            reply.run(action)

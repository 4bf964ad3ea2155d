"""The place of one request in the order of replies, and the guard over all that the request does later."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from headrace.broker.metrics.figures import ApiFigures
from headrace.broker.network.memory_account import Share
from headrace.host.disk import Buffer
from headrace.wire.apis import api_name

if TYPE_CHECKING:
    from headrace.broker.network.connection import Connection

logger = logging.getLogger(__name__)

FAILED = "its request failed in the broker"


class PendingReply:
    """A place in the order of replies, kept for a request that has been started.

    Whatever a request does later goes through `run`, `soon` or `later`, or through a task of the dispatcher: should it fail
    there, it is logged and the connection ends, so that no client waits for a reply that never comes."""

    # What was asked, and under which number: set once that is known.
    api_key: int
    correlation_id: int

    __slots__ = (
        "answered_at",
        "api_key",
        "arrived_at",
        "at_head",
        "buffers",
        "connection",
        "correlation_id",
        "figures",
        "kept",
        "size",
        "started_at",
        "when_closed",
        "worked_at",
    )

    def __init__(self, connection: "Connection", arrived_at: float = 0.0, started_at: float = 0.0) -> None:
        """`arrived_at` is when its request had, where it was not started at once."""
        self.connection = connection
        # What is known of its request's time, on the clock of figures: started, worked on for the first time, answered.  Whoever
        # starts it looks at the clock afterwards, for this one's end and the next one's start at once.
        self.arrived_at = arrived_at
        self.started_at = started_at
        self.worked_at = self.answered_at = 0.0
        # Where it is counted, once it is known what was asked.
        self.figures: ApiFigures | None = None
        self.buffers: Sequence[Buffer] | None = None
        self.size = 0
        # Bytes of the request that are still needed.
        self.kept = 0
        # Called once when every earlier reply has left: a reply that may be large is made only then.
        self.at_head: Callable[[], None] | None = None
        # Called when the connection is gone and nobody wants the reply any more.
        self.when_closed: Callable[[], None] | None = None

    def send(self, buffers: Sequence[Buffer]) -> None:
        """Answer with a whole frame less its length."""
        if self.buffers is None:
            self.buffers = buffers
            self.size = sum(map(len, buffers))
            if self.worked_at:
                self.answered_at = self.connection.figures.monotonic()
            # What is called back refers to this reply: with such a circle, its bytes would stay until the collector comes.
            self.when_closed = None
            if self.kept:
                self.let_go()
            self.connection.on_answered(self)

    def skip(self) -> None:
        """Answer nothing, as acks=0 asks."""
        self.send(())

    def when_at_head(self, action: Callable[[], None]) -> None:
        """Call back when all earlier replies have left; at once if they have."""
        if self.connection.is_head(self):
            self.run(action)
        else:
            self.at_head = action

    def abandon(self, reason: str) -> None:
        """There is no answer to this request: the connection ends, unless it was answered after all."""
        self.let_go()
        if self.buffers is None:
            self.connection.close(reason)

    @property
    def name(self) -> str:
        """The request in words, for the log."""
        client = self.connection
        if not hasattr(self, "api_key"):
            return f"a request from {client.client_host}"
        return f"{api_name(self.api_key)} request {client.request_id(self.correlation_id)} of {client.figures.client_id!r}"

    @property
    def is_wanted(self) -> bool:
        return self.connection.is_open

    @property
    def share(self) -> Share:
        """The connection's part of the memory."""
        return self.connection.share

    # -- work that is done later

    def run(self, action: Callable[..., None], *arguments: Any) -> None:
        """Do a part of the request's work."""
        try:
            action(*arguments)
        except Exception:
            logger.exception("%s failed", self.name)
            self.abandon(FAILED)

    def soon(self, action: Callable[[], None]) -> None:
        self.connection.loop.call_soon(self.run, action)

    def later(self, seconds: float, action: Callable[[], None]) -> asyncio.TimerHandle:
        return self.connection.loop.call_later(seconds, self.run, action)

    # -- the request's own bytes

    def keep(self, size: int) -> None:
        """The request, or so many bytes of it, is needed beyond its start."""
        self.kept += size
        self.connection.on_kept(size)

    def let_go(self, size: int | None = None) -> None:
        """So many of these bytes are needed no more; by default all of them."""
        size = self.kept if size is None else min(size, self.kept)
        if size:
            self.kept -= size
            self.connection.on_kept(-size)

"""A broker for dramatiq: `pip install headrace[dramatiq]`, then `dramatiq.set_broker(HeadraceBroker())`.

Delays are the queue's own, on disk and not in a worker's memory: what dramatiq's Retries and `send_with_options(delay=…)` put off
comes once, and not before its time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any, Unpack

from dramatiq import Broker, Consumer, Message, MessageProxy, Middleware
from dramatiq.errors import QueueJoinTimeout, QueueNotFound

from headrace.client.backends.queues import GROUP, Queues
from headrace.client.options import QueueOptions
from headrace.client.queue.job import Job
from headrace.client.queue.queue import Queue

JOIN_S = 0.1


class HeadraceBroker(Broker):  # type: ignore[misc]  # dramatiq has no types to build on
    """Each of dramatiq's queues is a topic.  Takes what Queue takes."""

    def __init__(
        self,
        *,
        bootstrap: str | None = None,
        group: str = GROUP,
        prefix: str = "dramatiq.",
        middleware: list[Middleware] | None = None,
        **settings: Unpack[QueueOptions],
    ) -> None:
        super().__init__(middleware=middleware)
        self._all = Queues(bootstrap=bootstrap, group=group, prefix=prefix, **settings)

    def declare_queue(self, queue_name: str) -> None:
        if queue_name not in self.queues:
            self.emit_before("declare_queue", queue_name)
            self.queues[queue_name] = queue_name
            self.emit_after("declare_queue", queue_name)

    def enqueue(self, message: Message[Any], *, delay: int | None = None) -> Message[Any]:
        if message.queue_name not in self.queues:
            raise QueueNotFound(message.queue_name)
        self.emit_before("enqueue", message, delay)
        self._all.shared(message.queue_name).put(message.encode(), delay=None if delay is None else delay / 1000)
        self.emit_after("enqueue", message, delay)
        return message

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 1000) -> Consumer:
        if queue_name not in self.queues:
            raise QueueNotFound(queue_name)
        return _Consumer(self._all.open(queue_name, prefetch=prefetch), prefetch, timeout / 1000)

    def get_declared_delay_queues(self) -> set[str]:
        return set()  # delays are the queue's own

    def join(self, queue_name: str, *, timeout: int | None = None) -> None:
        """Until all is done that was put, also what waits for its time."""
        deadline = None if timeout is None else time.monotonic() + timeout / 1000
        queue = self._all.shared(queue_name)
        while (depth := queue.depth()).unfinished or depth.delayed:
            if deadline is not None and time.monotonic() >= deadline:
                raise QueueJoinTimeout(queue_name)
            time.sleep(JOIN_S)

    def close(self) -> None:
        self._all.close()


class _Consumer(Consumer):  # type: ignore[misc]
    def __init__(self, queue: Queue[Any, bytes], prefetch: int, timeout: float) -> None:
        self._queue = queue
        self._timeout = timeout
        self._room = threading.Semaphore(prefetch)

    def __next__(self) -> MessageProxy | None:
        if not self._room.acquire(timeout=self._timeout):
            return None
        job = self._queue.take(timeout=self._timeout)
        if job is None:
            self._room.release()
            return None
        return _Proxy(Message.decode(job.value), job)

    def ack(self, message: MessageProxy) -> None:
        self._end(message, lambda job: job.done())

    def nack(self, message: MessageProxy) -> None:
        reason = repr(message._exception) if message._exception is not None else "dramatiq gave it up"
        self._end(message, lambda job: job.reject(reason))

    def requeue(self, messages: Iterable[MessageProxy]) -> None:
        for message in messages:
            self._end(message, lambda job: job.release())

    def _end(self, message: Any, word: Any) -> None:
        if message.job.is_open:
            word(message.job)
        self._room.release()

    def close(self) -> None:
        self._queue.close()


class _Proxy(MessageProxy):  # type: ignore[misc]
    def __init__(self, message: Message[Any], job: Job[Any, bytes]) -> None:
        super().__init__(message)
        self.job = job

"""A broker for taskiq: `pip install headrace[taskiq]`, then `broker = HeadraceBroker("tasks")`.

A task with the label `delay` (seconds) waits on disk, and is delivered once, not before its time.  What a worker has taken and
not acknowledged when it dies comes again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, Unpack

from taskiq import AckableMessage, AsyncBroker, BrokerMessage

from headrace.client.aio.queue import AsyncQueue
from headrace.client.backends.queues import GROUP
from headrace.client.options import QueueOptions
from headrace.client.queue.job import Job


class HeadraceBroker(AsyncBroker):  # type: ignore[misc]  # taskiq has no types to build on
    """All its tasks are in one topic.  Takes what Queue takes; `ahead` is how many tasks a worker may have at a time."""

    def __init__(
        self,
        topic: str = "taskiq",
        *,
        bootstrap: str | None = None,
        group: str = GROUP,
        ahead: int = 100,
        task_id_generator: Callable[[], str] | None = None,
        **settings: Unpack[QueueOptions],
    ) -> None:
        super().__init__(task_id_generator=task_id_generator)
        self._topic = topic
        self._bootstrap = bootstrap
        self._group = group
        self._ahead = ahead
        self._settings = settings
        self._queue: AsyncQueue[bytes, bytes] | None = None

    def _opened(self) -> AsyncQueue[bytes, bytes]:
        if self._queue is None:
            self._queue = AsyncQueue(self._topic, group=self._group, bootstrap=self._bootstrap, **self._settings)
        return self._queue

    async def kick(self, message: BrokerMessage) -> None:
        delay = message.labels.get("delay")
        await self._opened().put(message.message, delay=None if delay is None else float(delay))

    async def listen(self) -> AsyncGenerator[AckableMessage, None]:
        queue = self._opened()
        while (job := await queue.take()) is not None:
            yield AckableMessage(data=job.value, ack=_acknowledging(job))

    async def shutdown(self) -> None:
        if self._queue is not None:
            await self._queue.close()
            self._queue = None
        await super().shutdown()


def _acknowledging(job: Job[Any, bytes]) -> Callable[[], None]:
    def acknowledge() -> None:
        if job.is_open:
            job.done()

    return acknowledge

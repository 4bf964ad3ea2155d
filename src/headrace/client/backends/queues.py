"""What the backends of task frameworks share: queues of one cluster by name, opened when they are first used."""

from __future__ import annotations

import threading
from typing import Any, Unpack

from headrace.client.options import QueueOptions
from headrace.client.queue.queue import Queue

GROUP = "workers"


class Queues:
    """A framework's queue is a topic of the same name, behind a prefix.

    A handler that fails is the framework's business: it puts a task again when it is to be tried again.  So what a worker takes
    is acknowledged when the framework is done with it; what dies with its worker comes again."""

    def __init__(
        self, *, bootstrap: str | None = None, group: str = GROUP, prefix: str = "", **settings: Unpack[QueueOptions]
    ) -> None:
        self._bootstrap = bootstrap
        self._group = group
        self._prefix = prefix
        self._settings = settings
        self._lock = threading.Lock()
        self._queues: dict[str, Queue[Any, bytes]] = {}

    def topic(self, name: str) -> str:
        return f"{self._prefix}{name}"

    def open(self, name: str, *, prefetch: int | None = None) -> Queue[Any, bytes]:
        """One that nobody shares: its jobs are the caller's."""
        settings: QueueOptions = {"prefetch": prefetch, **self._settings}
        return Queue(self.topic(name), group=self._group, bootstrap=self._bootstrap, **settings)

    def shared(self, name: str) -> Queue[Any, bytes]:
        """The one to put into."""
        with self._lock:
            found = self._queues.get(name)
            if found is None:
                found = self._queues[name] = self.open(name)
            return found

    def close(self) -> None:
        with self._lock:
            queues, self._queues = self._queues, {}
        for each in queues.values():
            each.close()

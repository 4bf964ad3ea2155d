"""A member of a share group on an event loop of its own, in a thread: locks are renewed whatever the caller is busy with."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from headrace.client.brokers.cluster import Cluster
from headrace.client.errors import Closed
from headrace.client.lifetimes import watch
from headrace.client.logs import log
from headrace.client.queue.job import Job
from headrace.client.queue.member import CLOSE_S, Member
from headrace.client.queue.pace import Pace
from headrace.client.records.serialization import Codec
from headrace.client.security.connecting import Way

JOIN_S = 30.0
OnJobs = Callable[[list[Job[Any, Any]]], None]


class Engine:
    """Started when the first job is wanted.  `on_jobs` is called in its thread: with jobs, or with none when it is over."""

    def __init__(
        self,
        way: Way,
        topic: str,
        group: str,
        *,
        keys: Codec,
        values: Codec,
        prefetch: int | None,
        client_id: str,
        on_jobs: OnJobs,
    ) -> None:
        self._way = way
        self._topic = topic
        self._group = group
        self._keys, self._values = keys, values
        self._prefetch = prefetch
        self._client_id = client_id
        self._on_jobs = on_jobs
        self._member: Member | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_up = threading.Event()
        self._asking = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"headrace-queue-{topic}", daemon=True)
        self._thread.start()
        self._is_up.wait()
        watch(self)

    @property
    def member(self) -> Member:
        if self._member is None:
            raise Closed("this queue was opened before a fork, and works only in the process that opened it")
        return self._member

    def want(self, workers: int) -> None:
        """So many work from now on."""
        self.member.workers = workers
        self.member.wake()

    def wait_until_at_work(self) -> None:
        """Who joins a group for the first time waits for it; nobody's timeout is meant for that."""
        if not self.member.is_at_work.wait(JOIN_S):
            log.warning("group '%s' has not given out any partition of '%s' in %g s", self._group, self._topic, JOIN_S)

    @contextmanager
    def wanting(self, count: int) -> Iterator[None]:
        """Beside those that are worked on, somebody waits for so many more."""
        self._ask(count)
        try:
            yield
        finally:
            self._ask(-count)

    def _ask(self, count: int) -> None:
        with self._asking:
            self.member.workers = 0
            self.member.takers += count
        self.member.wake()

    def raise_failure(self) -> None:
        failure = self.member.failure
        if failure is not None:
            raise failure

    def close(self) -> None:
        """Say what is to be said, and leave the group."""
        loop, member = self._loop, self._member
        if loop is None or member is None or not self._thread.is_alive():
            return
        asyncio.run_coroutine_threadsafe(member.close(), loop).result(CLOSE_S * 2)
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join(CLOSE_S)

    def at_exit(self) -> None:
        """Nothing: with the connection the broker takes back what is not done."""

    def after_fork(self) -> None:
        self._member = None

    def _run(self) -> None:
        loop = self._loop = asyncio.new_event_loop()
        try:
            loop.run_until_complete(self._begin())
            self._is_up.set()
            loop.run_forever()
        finally:
            self._is_up.set()
            loop.close()

    async def _begin(self) -> None:
        cluster = Cluster(self._way.bootstrap, self._way.properties, client_id=self._client_id)
        self._member = Member(
            cluster,
            self._topic,
            self._group,
            keys=self._keys,
            values=self._values,
            pace=Pace(self._prefetch),
            on_jobs=self._on_jobs,
        )
        self._member.spawn(self._member.run(), "membership of a share group")

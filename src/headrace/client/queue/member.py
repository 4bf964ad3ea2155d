"""One worker as a member of a share group (KIP-932): heartbeats, a link to each broker that leads partitions it was given, and
the jobs that came over them.

Runs on one event loop; jobs may be taken and ended on any thread.  What always holds: a job is handed to one taker; a job that is
worked on has its lock renewed; one that nobody has begun with is given back before its lock runs out.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final
from uuid import UUID

from headrace.client.admin.wire_admin import raise_for
from headrace.client.brokers.cluster import COORDINATOR_MOVED, Cluster
from headrace.client.brokers.connection import Connection
from headrace.client.errors import BrokerError, BrokerTimeout, DecodeFailed, HeadraceError, SecurityFailed
from headrace.client.logs import log
from headrace.client.queue.job import Job, Stage, job_of, name_of
from headrace.client.queue.link import Arrival, BrokerLink
from headrace.client.queue.pace import Pace
from headrace.client.queue.words import Word
from headrace.client.records.record import decoded, expired
from headrace.client.records.serialization import Codec
from headrace.model.errors import ErrorCode
from headrace.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

JOIN_EPOCH, LEAVE_EPOCH = 0, -1
AGAIN_S: Final = 0.2
REJOIN: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})
# Of a lock's time, the part that is left when it is renewed.
RENEWED_AT: Final = 0.5
LOOK_S_MIN: Final = 0.01
LOOKS_A_LOCK: Final = 8
CLOSE_S: Final = 10.0


class Member:
    """`on_jobs` is called on the loop: with jobs to take, or with none when there will be no more (`failure`, `is_closed`)."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        group: str,
        *,
        keys: Codec,
        values: Codec,
        pace: Pace,
        on_jobs: Callable[[list[Job[Any, Any]]], None],
    ) -> None:
        self.group = group
        self.member_id = str(uuid.uuid4())
        self.topic_id = UUID(int=0)
        self.workers = 0
        self.takers = 0  # beside those, who wait for a job each
        self.failure: HeadraceError | None = None
        self.is_closed = False
        self.is_at_work = threading.Event()  # it has joined, and is asking for jobs; or it never will
        self._cluster = cluster
        self._topic = topic
        self._keys, self._values = keys, values
        self._pace = pace
        self._on_jobs = on_jobs
        self._lock = threading.Lock()
        self._waiting = 0  # jobs that nobody has begun with
        self._working = 0
        self._links: dict[int, BrokerLink] = {}
        self._assigned: frozenset[int] = frozenset()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._is_woken = False
        self._epoch = JOIN_EPOCH
        self._is_looking = False
        self._has_locks = asyncio.Event()

    # --- for those who work -----------------------------------------------------------------------------------------------

    def begin(self, job: Job[Any, Any]) -> bool:
        """Whether the job is the caller's; not so where it was given back meanwhile."""
        if not self.turn(job, (Stage.WAITING,), Stage.WORKING):
            return False
        job._started = time.monotonic()
        return True

    def turn(self, job: Job[Any, Any], before: tuple[Stage, ...], after: Stage) -> bool:
        with self._lock:
            if job._stage not in before:
                return False
            self._waiting -= job._stage is Stage.WAITING
            self._working += (after is Stage.WORKING) - (job._stage is Stage.WORKING)
            if job._stage is Stage.WORKING:
                self._pace.finished(1, time.monotonic() - job._started)
            job._stage = after
        return True

    def wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            with suppress(RuntimeError):  # the loop is closed: there is nobody to be told
                self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._is_woken = False
        for link in self._links.values():
            link.wake()

    @property
    def working(self) -> int:
        return self._working

    # --- for links --------------------------------------------------------------------------------------------------------

    def room(self, link: BrokerLink) -> int:
        if self.is_closed or self.failure is not None or not (self.workers or self.takers):
            return 0
        idle = max(0, self.workers - self._working) + self.takers
        asked_for = sum(each.asked_for for each in self._links.values())
        return max(0, idle + self._pace.ahead(self.workers + self.takers) - self._waiting - asked_for)

    def arrived(self, link: BrokerLink, records: Iterable[Arrival], deadline: float) -> None:
        jobs = [job for each in records if (job := self._job(link, each, deadline)) is not None]
        self._has_locks.set()
        if jobs:
            self._on_jobs(jobs)

    def _job(self, link: BrokerLink, arrival: Arrival, deadline: float) -> Job[Any, Any] | None:
        """None where nobody is to see it: its time to live has run out, or it cannot be read."""
        message, attempt, reason = arrival
        message.set_topic(self._topic)
        key = value = None
        is_expired = bool(message.headers()) and expired(message)
        if not reason and not is_expired:
            try:
                record = decoded(message, self._keys, self._values)
                key, value = record.key, record.value
            except DecodeFailed as error:
                reason = str(error)
        job = job_of(message, key, value, attempt, link, deadline)
        link.held[job.partition, job.offset] = job
        with self._lock:
            self._waiting += 1
        if reason:
            log.warning("%s is rejected: %s", name_of(job), reason)
            link.say(job, Word.REJECT, reason)
        elif is_expired:
            link.say(job, Word.ACCEPT)
        else:
            return job
        return None

    def moved(self) -> None:
        if not self._is_looking:
            self._is_looking = True
            self.spawn(self._look_for_leaders(), "look for leaders")

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if not isinstance(error, HeadraceError):
            log.error("%s failed", task.get_name(), exc_info=error)
            error = BrokerTimeout(f"the {task.get_name()} failed: {error!r}")
        self._fail(error)

    def _fail(self, error: HeadraceError) -> None:
        self.failure = self.failure or error
        self.is_at_work.set()
        self._on_jobs([])

    # --- membership -------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until it is closed.  Raises what no patience mends."""
        self.spawn(self._keep_locks(), "renewal of locks")
        while not self.is_closed:
            try:
                interval = await self._beat()
            except SecurityFailed:
                raise
            except (BrokerTimeout, BrokerError) as error:
                if isinstance(error, BrokerError) and not error.retriable:
                    raise
                log.warning("no heartbeat to group '%s': %s", self.group, error)
                interval = AGAIN_S
            await asyncio.sleep(interval)

    async def _beat(self) -> float:
        request = ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self._epoch,
            subscribed_topic_names=(self._topic,) if self._epoch == JOIN_EPOCH else None,
        )
        reply = await self._cluster.call_coordinator(self.group, request)
        if reply.error_code in COORDINATOR_MOVED:
            self._cluster.forget_coordinator(self.group)
            return AGAIN_S
        if reply.error_code in REJOIN:
            self._epoch = JOIN_EPOCH
            return 0.0
        raise_for(reply.error_code, f"group '{self.group}'", reply.error_message)
        self._epoch = reply.member_epoch
        if reply.assignment is not None:
            self._assigned = frozenset(partition for topic in reply.assignment.topic_partitions for partition in topic.partitions)
            self.moved()
        # What the group is given may come with the next heartbeat, when its state is kept: it is not waited for as long.
        return float(reply.heartbeat_interval_ms / 1000) if self._assigned else AGAIN_S

    async def _look_for_leaders(self) -> None:
        try:
            while not self.is_closed:
                self._cluster.forget(self._topic)
                try:
                    self.topic_id = await self._cluster.topic_id(self._topic)
                    leaders = await self._cluster.leaders(self._topic)
                except BrokerTimeout as error:
                    log.warning("who leads '%s' is not known: %s", self._topic, error)
                    leaders = {}
                self._follow({each: leaders.get(each, -1) for each in self._assigned})
                if all(leaders.get(each, -1) >= 0 for each in self._assigned):
                    return
                await asyncio.sleep(AGAIN_S)
        finally:
            self._is_looking = False

    def _follow(self, leaders: Mapping[int, int]) -> None:
        for broker in set(leaders.values()) - self._links.keys() - {-1}:
            link = self._links[broker] = BrokerLink(self, broker, self._connection)
            self.spawn(link.run(), f"link to broker {broker}")
        for broker, link in self._links.items():
            link.want(each for each, leader in leaders.items() if leader == broker)

    async def _connection(self, broker: int) -> Connection:
        return await self._cluster.connection(await self._cluster.endpoint_of(broker), "share")

    # --- locks ------------------------------------------------------------------------------------------------------------

    async def _keep_locks(self) -> None:
        while not self.is_closed:
            now = self._loop.time()
            for link in self._links.values():
                due = now + link.lock_s * RENEWED_AT
                for job in list(link.held.values()):
                    if job._deadline > due:
                        continue
                    if job._stage is Stage.WORKING:
                        link.renew(job)
                    elif job._stage is Stage.WAITING:
                        link.say(job, Word.RELEASE)
            if not any(link.held for link in self._links.values()):
                self._has_locks.clear()
                await self._has_locks.wait()
            shortest = min(link.lock_s for link in self._links.values() if link.lock_s)
            await asyncio.sleep(max(LOOK_S_MIN, shortest / LOOKS_A_LOCK))

    # --- the end ----------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Say what is to be said, give back what nobody has begun with, and leave the group."""
        if self.is_closed:
            return
        self.is_closed = True
        self.is_at_work.set()
        links = [task for task in self._tasks if task.get_name().startswith("link to")]
        for link in self._links.values():
            link.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await asyncio.gather(*links, return_exceptions=True)
                await self._leave()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._cluster.abort()
        self._on_jobs([])

    async def _leave(self) -> None:
        if self._epoch == JOIN_EPOCH:
            return
        request = ShareGroupHeartbeatRequest(group_id=self.group, member_id=self.member_id, member_epoch=LEAVE_EPOCH)
        with suppress(BrokerTimeout, BrokerError):
            await self._cluster.call_coordinator(self.group, request)

"""One share fetch under way: it looks at the partitions of its session in turn until it has something, or its time is over."""

import asyncio
from contextlib import suppress
from functools import partial
from uuid import UUID

from headrace.broker.network.dispatch import RequestContext
from headrace.broker.network.throttling import Throttling
from headrace.broker.sharing.led import LedSharePartition
from headrace.broker.sharing.partitions import SharePartitions
from headrace.broker.sharing.reading import NOT_YET, Delivery, deliver
from headrace.broker.sharing.settings import SettingsOf
from headrace.controller.image import CurrentImage
from headrace.coordination.share.partition import Wish
from headrace.coordination.share.sessions import PartitionId, ShareSession, ShareSessions
from headrace.declaring import dataclass
from headrace.host.disk import Disk
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.errors import ErrorCode, RequestError

# How soon a share coordinator that was not there is asked again.
RETRY_S = 0.1

Found = dict[PartitionId, Delivery | RequestError]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareFetching:
    """What every share fetch, and every acknowledgement, needs."""

    sessions: ShareSessions
    partitions: SharePartitions
    settings_of: SettingsOf
    image: CurrentImage
    throttling: Throttling
    disk: Disk
    broker_id: int
    bytes_max: int

    def watch(self, session: ShareSession, context: RequestContext) -> None:
        """What the session's member has is free at once when its connection is lost."""
        connection = context.connection
        if connection.when_lost is None:
            connection.when_lost = {}
        connection.when_lost[session.key] = partial(self._on_lost, session)

    def finish(self, session: ShareSession, context: RequestContext) -> None:
        """The session is closed: what its member still has is free."""
        (context.connection.when_lost or {}).pop(session.key, None)
        self.partitions.release(*session.key, was_lost=False)

    def _on_lost(self, session: ShareSession) -> None:
        if self.sessions.is_open(session):
            self.sessions.close(session.key)
            self.partitions.release(*session.key, was_lost=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Appetite:
    """How much is wanted at most, and how long somebody waits for it."""

    wish: Wish
    max_bytes: int
    wait_s: float


class ShareFetch:
    """Runs once."""

    def __init__(self, session: ShareSession, appetite: Appetite, sharing: ShareFetching, context: RequestContext) -> None:
        self._session = session
        self._appetite = appetite
        self._sharing = sharing
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + appetite.wait_s
        self._woken = asyncio.Event()
        self._watched: dict[LedSharePartition, None] = {}
        self._look_again_s: float | None = None

    def wake(self) -> None:
        """A partition has records, or some of them are free again."""
        self._woken.set()

    async def run(self) -> Found:
        try:
            while True:
                self._woken.clear()
                self._look_again_s = None
                found = await self._look()
                left = self._deadline - self._loop.time()
                if found or left <= 0 or not self._is_wanted:
                    return found
                if self._look_again_s is not None:
                    # Whatever wakes it meanwhile: that a share-partition could not be loaded is such a thing itself.
                    await asyncio.sleep(min(left, self._look_again_s))
                    continue
                with suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await self._woken.wait()
        finally:
            for led in self._watched:
                led.readers.discard(self)
                led.partition.readers.discard(self)

    @property
    def _is_wanted(self) -> bool:
        """What is acquired for somebody who has gone would be nobody's until its lock runs out."""
        return self._sharing.sessions.is_open(self._session) and bool(self._session.partitions)

    async def _look(self) -> Found:
        found: Found = {}
        wish, max_bytes = self._appetite.wish, min(self._appetite.max_bytes, self._sharing.bytes_max)
        held = 0
        for topic_id, index in self._session.turn():
            room = partial(self._room, held, max_bytes - held)
            if wish.max_records <= 0 or not room():
                # Nothing is acquired that there is no memory to deliver from; soon there may be.
                self._look_again_s = RETRY_S
                break
            try:
                led = self._find(topic_id, index)
                # What is found is not held back for a disk, nor in memory meanwhile, where nobody counts it yet.
                delivery = await deliver(led, wish, room, self._sharing.disk, lambda: self._is_wanted, may_wait=not held)
            except RequestError as error:
                if error.code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
                    # Consumers do not know what to do about it; a moment later it is there.
                    self._look_again_s = RETRY_S
                else:
                    found[topic_id, index] = error
                continue
            if delivery is NOT_YET:
                self._look_again_s = RETRY_S
            if delivery.acquired:
                found[topic_id, index] = delivery
                wish = wish._replace(max_records=wish.max_records - delivery.record_count)
                held += len(delivery.records)
        return found

    def _room(self, held: int, wanted: int) -> int:
        """How much more may be read now, beside what is held already for the same reply."""
        if wanted <= 0:
            return 0
        return max(0, self._context.connection.share.room_for_reply(held + wanted) - held)

    def _find(self, topic_id: UUID, index: int) -> LedSharePartition:
        topic = self._sharing.image().topics_by_id.get(topic_id)
        if topic is None:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_ID)
        self._context.require(Operation.READ, ResourceType.TOPIC, topic.name)
        led = self._sharing.partitions.find(self._session.key[0], topic_id, index)
        if led not in self._watched:
            self._watched[led] = None
            led.readers.add(self)
            led.partition.readers.add(self)
        return led

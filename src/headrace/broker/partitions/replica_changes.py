"""What becomes of the replicas on this broker: opened, led, followed and removed as the cluster's metadata says.

Changes of the metadata are carried out one after the other, the slow part of each (files) in a thread, so that the event loop and
every other partition go on meanwhile.  When one cannot be carried out, its partition is offline, others may lead it, and a little
later everything is compared with the metadata and made so.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from uuid import UUID

from headrace.broker.health.disk_space import DiskSpace
from headrace.broker.metrics.figures import WriteFigures
from headrace.broker.partitions.flushing import Flusher, portions_for_threads
from headrace.broker.partitions.page_cache import PageCache, WrittenLately
from headrace.broker.partitions.partition import Alone, Leadership, Partition
from headrace.broker.partitions.replicas import Replicas
from headrace.broker.partitions.storage import Opened, Storage, Wanted
from headrace.broker.supervision.supervision import PAUSE_S_MAX, Again, Deaths, Rule, Scope, Service, verdict
from headrace.controller.changes import (
    BrokerAdmitted,
    BrokerConfigsChanged,
    Change,
    PartitionChanged,
    TopicConfigsChanged,
    TopicCreated,
    TopicDeleted,
    TopicGrew,
)
from headrace.controller.entries import PartitionState
from headrace.controller.image import CurrentImage
from headrace.declaring import dataclass
from headrace.log.memory.memory_log import MemoryLog
from headrace.model.errors import NoRoom, StorageError
from headrace.model.identity import TopicPartition
from headrace.model.topic_settings import LogConfig

logger = logging.getLogger(__name__)

# Logs are opened this many at a time, in threads, so that a topic of thousands is not one long silence.
OPEN_CHUNK = 200
OPEN_THREADS = 8  # each waits for its disk while others compute

# How long whoever has changed something waits for it to be carried out here.  It holds all the same, and is carried out later.
SETTLED_SECONDS_MAX = 30.0

# A partition that cannot be led yet is asked about again after so long.
NOT_YET_S = 0.1

# Between so many partitions the loop gets a turn: a lease must be renewed however many there are.
ROLES_PER_TURN = 50

Settled = Callable[[], Awaitable[bool]]
Lead = Callable[[Partition, PartitionState], Leadership]


class NotYet(Exception):
    """A partition cannot be led yet, for a reason in words for people."""


@dataclass(frozen=True, slots=True)
class RightToLeadChanged:
    """This broker lost its lease, or has one again."""


@dataclass(frozen=True, slots=True)
class Reconcile:
    """Something was not carried out, or perhaps not heard of."""


@dataclass(frozen=True, slots=True)
class RoomToOpen:
    """The disk may have room for a log that could not be opened."""

    partition: Partition


Submitted = Change | RightToLeadChanged | Reconcile | RoomToOpen


class ReplicaChanges:
    """Carries out, one after the other, what changes the replicas here or their roles."""

    def __init__(
        self,
        broker_id: int,
        replicas: Replicas,
        image: CurrentImage,
        storage: Storage,
        flusher: Flusher,
        config_of: Callable[[str], LogConfig],
        loop: asyncio.AbstractEventLoop,
        scope: Scope,
        space: DiskSpace,
        page_cache: PageCache,
        figures: WriteFigures | None = None,
    ) -> None:
        self._figures = figures or WriteFigures()
        self._replicas = replicas
        self._space = space
        self._page_cache = page_cache
        self._broker_id = broker_id
        self._image = image
        self._storage = storage
        self._flusher = flusher
        self._config_of = config_of
        self._loop = loop
        self._scope = scope
        self._changes: asyncio.Queue[Submitted] = asyncio.Queue()
        # Replicas that could not take up their role, and when anything went wrong here lately.
        self._without_role: dict[Partition, None] = {}
        self._failures = Deaths()
        # However much fails, one comparison makes up for all of it: one is waited for, and one is in the queue, at most.
        self._reconcile_later: asyncio.TimerHandle | None = None
        self._reconcile_soon = False
        self._worker: Service | None = None
        # The change that is being carried out.
        self._in_hand: Submitted | None = None
        # How a leader keeps track of its followers; a broker of its own has none.
        self.lead: Lead = lambda partition, state: Alone()
        # Whether this broker may lead at all: not before the controller has admitted it, nor after it lost its lease.
        self.may_lead: Callable[[], bool] = lambda: True
        # Why a partition cannot be led here yet; it is asked again a little later.
        self.why_not_yet: Callable[[Partition, PartitionState], str | None] = lambda partition, state: None
        # Told after a partition's role has changed, and before it goes away.
        self.on_role: list[Callable[[Partition], None]] = []
        self.on_removed: list[Callable[[Partition], None]] = []
        # Takes what unlinks a partition's files, and for how many milliseconds they stay.
        self.unlink_later: Callable[[Callable[[], None], int], None] = lambda unlink, delay_ms: unlink()

    async def start(self) -> None:
        """Open everything the metadata places here, and remove what it does not know."""
        image = self._image()
        wanted = [
            (topic.name, topic.topic_id, index) for topic, index, state in image.partitions() if self._broker_id in state.replicas
        ]
        await self._open(wanted)
        known = {TopicPartition(name, index): topic_id for name, topic_id, index in wanted}
        await self._loop.run_in_executor(None, self._storage.remove_unknown, known)
        self._worker = self._scope.start("replica roles", self._apply_changes, Rule.RESTART_OR_END)

    def submit(self, change: Change) -> None:
        """Have a change of the metadata carried out, after those before it."""
        self._changes.put_nowait(change)

    async def settled(self) -> bool:
        """Wait until everything submitted so far is carried out.  False when it is not: nobody does that any more, or a disk
        takes too long."""
        if self._worker is not None and self._worker.is_over:
            return False
        try:
            async with asyncio.timeout(SETTLED_SECONDS_MAX):
                await self._changes.join()
        except TimeoutError:
            logger.warning("what the metadata says was not carried out here within %.0f s", SETTLED_SECONDS_MAX)
            return False
        return True

    async def close(self) -> None:
        self._forget_reconcile_later()
        await self._scope.close()

    async def _apply_changes(self) -> None:
        if self._in_hand is not None:
            # This task has died over it.
            self.reconcile()
        while True:
            change = await self._changes.get()
            self._in_hand = change
            try:
                await self._apply_change(change)
            except Exception as error:
                self._on_failed(f"{type(change).__name__}", error)
            finally:
                self._changes.task_done()
            self._in_hand = None

    def _on_failed(self, what: str, error: Exception) -> None:
        """Have everything made as the metadata says, a little later."""
        self._scope.supervisor.report(what, error)
        if self._reconcile_later is not None or self._reconcile_soon:
            return
        self._failures.note(error, self._loop.time())
        following = verdict(Rule.RESTART, len(self._failures.moments), self._failures.in_a_row)
        pause_s = following.pause_s if isinstance(following, Again) else PAUSE_S_MAX
        self._reconcile_later = self._loop.call_later(pause_s, self.reconcile)

    def reconcile(self) -> None:
        """Have everything compared with the metadata and made so, after what was submitted before."""
        self._forget_reconcile_later()
        if not self._reconcile_soon:
            self._reconcile_soon = True
            self._changes.put_nowait(Reconcile())

    def _forget_reconcile_later(self) -> None:
        if self._reconcile_later is not None:
            self._reconcile_later.cancel()
            self._reconcile_later = None

    async def _reconcile(self) -> None:
        # What fails from here on is for the next one.
        self._reconcile_soon = False
        image = self._image()
        wanted = {(topic.topic_id, index) for topic, index, state in image.partitions() if self._broker_id in state.replicas}
        await self._remove([p for p in self._replicas if (p.topic_id, p.identity.partition) not in wanted])
        have = {(partition.topic_id, partition.identity.partition) for partition in self._replicas}
        missing = [
            (topic.name, topic.topic_id, index)
            for topic, index, _ in image.partitions()
            if (topic.topic_id, index) in wanted - have
        ]
        await self._open(missing)
        for name in self._replicas.topics():
            self._reconfigure(name)
        for partition in list(self._without_role):
            del self._without_role[partition]
            partition.take_back()
        await self._reconsider_roles()

    async def _apply_change(self, change: Submitted) -> None:
        match change:
            case TopicCreated(name, topic_id, count):
                await self._open(self._placed_here(name, topic_id, range(count)))
            case TopicGrew(name, topic_id, old_count, new_count):
                await self._open(self._placed_here(name, topic_id, range(old_count, new_count)))
            case TopicDeleted(name, topic_id, _):
                await self._remove([p for p in self._replicas.of_topic(name) if p.topic_id == topic_id])
            case TopicConfigsChanged(name, _, _, _):
                self._reconfigure(name)
            case BrokerConfigsChanged(_):
                for name in self._replicas.topics():
                    self._reconfigure(name)
            case BrokerAdmitted(broker_id, _) if broker_id == self._broker_id:
                await self._reconsider_roles()
            case RoomToOpen(partition):
                await self._open_again(partition)
            case RightToLeadChanged():
                await self._reconsider_roles()
            case Reconcile():
                await self._reconcile()
            case PartitionChanged(name, topic_id, index, _, after):
                await self._on_partition_changed(name, topic_id, index, after)

    def _placed_here(self, name: str, topic_id: UUID, indexes: range) -> list[tuple[str, UUID, int]]:
        topic = self._image().topics_by_id.get(topic_id)
        if topic is None:
            return []
        return [(name, topic_id, index) for index in indexes if self._broker_id in topic.partitions[index].replicas]

    async def _on_partition_changed(self, name: str, topic_id: UUID, index: int, after: PartitionState) -> None:
        here = self._replicas.get(TopicPartition(name, index))
        if self._broker_id not in after.replicas:
            await self._remove([here] if here is not None else [])
        elif here is None:
            await self._open([(name, topic_id, index)])
        else:
            self._assume_role(here)

    async def _open(self, wanted: list[tuple[str, UUID, int]]) -> None:
        for start in range(0, len(wanted), OPEN_CHUNK):
            chunk = wanted[start : start + OPEN_CHUNK]
            configs = {name: self._config_of(name) for name in {name for name, _, _ in chunk}}
            portions = portions_for_threads(chunk, OPEN_THREADS)
            opening = asyncio.gather(
                *(self._loop.run_in_executor(None, self._storage.open_many, portion, configs) for portion in portions),
                return_exceptions=True,
            )
            # What the threads have opened is known here whatever happens: nothing is opened twice, and all of it is closed.
            try:
                results = await asyncio.shield(opening)
            except asyncio.CancelledError:
                self._enter(portions, await opening)
                raise
            for partition in self._enter(portions, results):
                self._assume_role(partition)
            for result in results:
                if isinstance(result, BaseException):
                    raise result

    def _enter(self, portions: Sequence[Sequence[Wanted]], results: Sequence[list[Opened] | BaseException]) -> list[Partition]:
        entered = []
        for portion, result in zip(portions, results, strict=True):
            if isinstance(result, BaseException):
                continue
            for (name, topic_id, index), (log, failure) in zip(portion, result, strict=True):
                partition = Partition(
                    TopicPartition(name, index),
                    topic_id,
                    log,
                    flusher=self._flusher,
                    loop=self._loop,
                    space=self._space,
                    figures=self._figures,
                )
                if not isinstance(log, MemoryLog):
                    partition.written_lately = WrittenLately(
                        self._page_cache, log.state.local_start, log.end_offset, log.size_bytes
                    )
                partition.restore_high_watermark(self._storage.high_watermark_checkpoint(partition.identity))
                if failure is not None:
                    before = self._replicas.get(partition.identity)
                    partition.cannot_be_opened(failure, None if before is None else before.failure)
                self._replicas.add(partition)
                entered.append(partition)
        return entered

    def try_again(self) -> None:
        """The disk may have room for what it refused: writes, and logs that could not be opened."""
        for partition in self._replicas:
            if partition.waits_for_room:
                partition.try_again()
                if isinstance(partition.failure, NoRoom):
                    self._changes.put_nowait(RoomToOpen(partition))

    async def _open_again(self, partition: Partition) -> None:
        if partition not in self._replicas:
            return
        for listener in self.on_removed:
            listener(partition)
        partition.retire()
        await self._open([(partition.identity.topic, partition.topic_id, partition.identity.partition)])

    def reconsider_roles(self) -> None:
        """Whether this broker may lead has changed: have it take up or give up what it leads, soon.

        Nothing unsafe happens until then: a leader without a lease acknowledges nothing that needs others."""
        self._changes.put_nowait(RightToLeadChanged())

    async def _reconsider_roles(self) -> None:
        for turn, partition in enumerate(self._replicas):
            if partition in self._replicas:
                self._assume_role(partition)
            if turn % ROLES_PER_TURN == ROLES_PER_TURN - 1:
                await asyncio.sleep(0)

    def reconsider(self, partition: Partition) -> None:
        """A replica that was offline is not any more."""
        self._assume_role(partition)

    def _assume_role(self, partition: Partition) -> None:
        try:
            self._lead_or_follow(partition)
        except NotYet as error:
            if partition.failure is None:
                self._without_role[partition] = None
            partition.on_role_failure(StorageError(partition.identity, str(error)))
            if self._reconcile_later is None and not self._reconcile_soon:
                self._reconcile_later = self._loop.call_later(NOT_YET_S, self.reconcile)
        except Exception as error:
            # It might be half of one and half of the other: it serves nobody, and others may lead it, until that is mended.
            if partition.failure is None:
                self._without_role[partition] = None
            partition.on_role_failure(StorageError(partition.identity, "taking up its role", error))
            self._on_failed(f"the role of {partition.identity}", error)

    def _lead_or_follow(self, partition: Partition) -> None:
        topic = self._image().topics_by_id.get(partition.topic_id)
        if topic is None:
            return
        state = topic.partitions[partition.identity.partition]
        if state.leader == self._broker_id and self.may_lead():
            if (why := self.why_not_yet(partition, state)) is not None:
                raise NotYet(why)
            partition.lead(state, self.lead(partition, state))
        else:
            partition.follow(state)
        for listener in self.on_role:
            listener(partition)

    def _reconfigure(self, name: str) -> None:
        config = self._config_of(name)
        for partition in self._replicas.of_topic(name):
            partition.reconfigure(config)

    async def _remove(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            for listener in self.on_removed:
                listener(partition)
            self._without_role.pop(partition, None)
            self._replicas.remove(partition)
            partition.retire()
            try:
                unlink = await self._loop.run_in_executor(None, self._storage.remove, partition.identity, partition.log)
                if unlink is not None:
                    self.unlink_later(unlink, partition.log.config.file_delete_delay_ms)
            except (StorageError, OSError) as error:
                logger.error("could not remove the files of %s: %s", partition.identity, error)

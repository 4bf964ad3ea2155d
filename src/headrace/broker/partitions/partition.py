"""One replica of a partition on this broker: its log, its part in the cluster, and those who wait for it.

Always: log start <= last stable offset <= high watermark <= log end; `_move_high_watermark` is the one place that moves it.
With flush mode `ack` the high watermark passes only what is flushed, so no reader sees what a crash could take back.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from headrace.broker.health.disk_space import DiskSpace
from headrace.broker.metrics.figures import Traffic, WriteFigures
from headrace.broker.partitions.flushing import Flusher
from headrace.broker.partitions.page_cache import WrittenLately
from headrace.broker.partitions.waiting import OffsetQueue, Readers
from headrace.controller.entries import PartitionState
from headrace.host.disk import Buffer
from headrace.log.interface import TRUSTED, Appended, CorruptBatch, Origin, PartitionLog, VerificationGuard
from headrace.log.log import Log
from headrace.model.errors import DiskFull, ErrorCode, NoRoom, RequestError, StorageError
from headrace.model.identity import TopicPartition
from headrace.model.names import INTERNAL_TOPICS
from headrace.model.topic_settings import LogConfig
from headrace.replication.follower import watermark_after

if TYPE_CHECKING:
    from headrace.broker.fetching.remote import RemoteReads

logger = logging.getLogger(__name__)

# How long what nobody waits for may go unflushed with flush mode `ack`; it is not visible before.
UNAWAITED_FLUSH_S = 0.05


class Leadership(Protocol):
    """What the leader of a partition knows of its followers."""

    def high_watermark(self, local: int) -> int:
        """How far every in-sync replica has got, given how far this one has."""
        ...

    def may_write(self) -> bool:
        """Whether a write with acks=all may begin."""
        ...

    def is_acknowledged(self, next_offset: int) -> bool | None:
        """Whether records below an offset may be acknowledged to acks=all: yes, not yet (None), or too few have them (False)."""
        ...

    def low_watermark(self, local: int) -> int:
        """Below it no replica whose broker is alive has anything that a restart could bring back, given where this one begins."""
        ...

    def on_fetch(self, follower: int, offset: int, start_offset: int, broker_epoch: int) -> None:
        """A follower asks for `offset` on, so it has everything below."""
        ...


class Alone:
    """The leadership of a replica without followers: the same rules, where one is always enough."""

    __slots__ = ("_reached",)

    def __init__(self) -> None:
        self._reached = -1

    def high_watermark(self, local: int) -> int:
        self._reached = local
        return local

    def may_write(self) -> bool:
        return True

    def is_acknowledged(self, next_offset: int) -> bool | None:
        return True if next_offset <= self._reached else None

    def low_watermark(self, local: int) -> int:
        return local

    def on_fetch(self, follower: int, offset: int, start_offset: int, broker_epoch: int) -> None:
        return


class Partition:
    """A replica and everything that happens to it on this broker's event loop."""

    def __init__(
        self,
        identity: TopicPartition,
        topic_id: UUID,
        log: PartitionLog,
        *,
        flusher: Flusher,
        loop: asyncio.AbstractEventLoop,
        space: DiskSpace | None = None,
        figures: WriteFigures | None = None,
    ) -> None:
        self.traffic = Traffic()
        self._figures = figures or WriteFigures()
        self.identity = identity
        self.topic_id = topic_id
        self.log = log
        self.state = PartitionState(replicas=())
        self.is_leader = False
        self.leadership: Leadership = Alone()
        self.failure: StorageError | None = None
        self.high_watermark = log.start_offset
        self.flushed = OffsetQueue()
        self.committed = OffsetQueue()
        self.readers = Readers()
        self.replica_readers = Readers()
        # Where the log begins as far as that is durable, and who waits for all replicas to have got there.
        self.durable_start = log.start_offset
        self.start_readers = Readers()
        self.on_high_watermark: list[Callable[[], None]] = []
        self._on_failure: dict[Callable[[Partition], None], None] = {}
        self.on_damage: list[Callable[[Partition], None]] = []
        self.is_set_aside = False
        self.is_retired = False
        # Something could not be written because the disk is full, and is to be tried again when there is some.
        self.waits_for_room = False
        # So much is in the broker's log, which is not for every try.
        self._is_known_to_wait = False
        # None for a log that is in memory as a whole.
        self.written_lately: WrittenLately | None = None
        # What of the log is in an object store; None where nothing ever is.
        self.remote: RemoteReads | None = None
        self._flusher = flusher
        self._loop = loop
        self._space = space or DiskSpace("memory", lambda: 0, loop.time)
        self._interval_timer: asyncio.TimerHandle | None = None
        self.appending = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<partition {self.identity}>"

    # -- role

    @property
    def leader_epoch(self) -> int:
        return self.state.leader_epoch

    def lead(self, state: PartitionState, leadership: Leadership) -> None:
        """Become, or go on as, leader under this state."""
        newly = not self.is_leader or state.leader_epoch != self.state.leader_epoch
        self._count_change(state, newly=newly)
        self.state = state
        self.leadership = leadership
        self.is_leader = True
        if newly and self.failure is None:
            self.log.epochs.assign(state.leader_epoch, self.log.end_offset)
            self._settle()
        self.advance()

    def _count_change(self, state: PartitionState, *, newly: bool) -> None:
        figures, before, after = self._figures, len(self.state.isr), len(state.isr)
        if newly and state.recovering:
            figures.elections_unclean += 1
        elif newly:
            figures.elections_clean += 1
        elif after < before:
            figures.in_sync_shrinks += 1
        elif after > before:
            figures.in_sync_expansions += 1

    def follow(self, state: PartitionState) -> None:
        """Become, or go on as, follower; whoever waits here must look for the leader."""
        self.state = state
        if self.is_leader:
            self.is_leader = False
            self.leadership = Alone()
            self._dismiss(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def require_leader(self, current_epoch: int = -1) -> None:
        """Raise what a client must hear when this replica cannot serve it as leader under the epoch it believes in."""
        self.require_epoch(current_epoch)
        if not self.is_leader:
            raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def require_epoch(self, current_epoch: int) -> None:
        """Raise when this replica is offline, or when the asker knows of another leader epoch than it does."""
        self.require_online()
        if current_epoch >= 0 and current_epoch < self.state.leader_epoch:
            raise RequestError(ErrorCode.FENCED_LEADER_EPOCH)
        if current_epoch > self.state.leader_epoch:
            raise RequestError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def require_online(self) -> None:
        if self.failure is not None:
            raise RequestError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.identity} is offline: {self.failure}")

    # -- writing

    @property
    def config(self) -> LogConfig:
        return self.log.config

    def append(
        self,
        records: Buffer,
        origin: Origin = Origin.CLIENT,
        *,
        guard: VerificationGuard | None = TRUSTED,
        transaction_version: int = 0,
        nobody_waits: bool = False,
    ) -> Appended:
        """Write batches at the end of the log, as leader.  They are not yet durable and not yet visible.

        What nobody waits for shares the flush of what is appended next, if that comes soon."""
        if self.failure is not None or not self.is_leader:
            self.require_leader()
        if self._space.left < len(records):
            self._space.require_room(len(records), for_clients=origin is Origin.CLIENT)
        try:
            appended = self.log.append(
                records, self.state.leader_epoch, origin=origin, guard=guard, transaction_version=transaction_version
            )
        except StorageError as error:
            self.on_storage_failure(error, len(records))
            self.require_online()
            raise DiskFull(f"The {self._space.why_short()}.") from error
        if appended.duplicate:
            self._figures.duplicates += 1
            return appended
        size, count = len(records), appended.last_offset - appended.base_offset + 1
        self._space.left -= size
        traffic, sizes, counts = self.traffic, self._figures.batch_bytes, self._figures.batch_records
        traffic.bytes_in += size
        traffic.records_in += count
        # Observed in line, as every batch is.
        sizes.counts[(size - 1).bit_length()] += 1
        sizes.sum += size
        counts.counts[(count - 1).bit_length()] += 1
        counts.sum += count
        self.after_append(nobody_waits=nobody_waits)
        return appended

    def after_append(self, *, nobody_waits: bool = False) -> None:
        """The log has grown: flush as the topic says, and tell who waits."""
        log = self.log
        if self.written_lately is not None:
            self.written_lately.note(log.state.end_offset, log.size_bytes)
        flush = log.state.config.flush
        if flush == "ack" and log.unflushed_messages:
            if nobody_waits:
                self._flush_within(UNAWAITED_FLUSH_S)
            else:
                self._flusher.request(self)
        else:
            if flush == "interval":
                self._flush_at_interval()
            self.advance()
        if self.replica_readers.waiting:
            self.replica_readers.wake()

    @property
    def has_room(self) -> bool:
        """Whether the disk has room for what is written here."""
        return self._has_room_for(1)

    def _has_room_for(self, size: int) -> bool:
        return self._space.has_room(size, for_clients=self.identity.topic not in INTERNAL_TOPICS)

    def require_room_for_client(self, size: int) -> None:
        """Raise DiskFull when a client's batch of so many bytes would take of what is reserved."""
        self._space.require_room(size, for_clients=True)

    def append_as_follower(self, records: Buffer) -> None:
        """Write what the leader sent.  Raises NoRoom also when there is some that is not for this."""
        if not self._has_room_for(len(records)):
            raise NoRoom(self.identity, "following")
        self.log.append_as_follower(records)
        self._space.left -= len(records)
        self.traffic.replicated_in += len(records)

    def require_replicas(self) -> None:
        """Raise when a write with acks=all may not begin."""
        if not self.leadership.may_write():
            self.require_leader()
            raise RequestError(ErrorCode.NOT_ENOUGH_REPLICAS)

    def when_durable(self, offset: int, acks: int, outcome: Callable[[ErrorCode], None]) -> bool:
        """True when what lies below `offset` is already as safe as `acks` asks; else `outcome` is called when it is.

        Raises RequestError when it is written, and will not be acknowledged as things are."""
        queue = self.queue_until_durable(offset, acks)
        if queue is not None:
            queue.wait(offset, outcome)
        return queue is None

    def queue_until_durable(self, offset: int, acks: int) -> OffsetQueue | None:
        """Where to wait for that; None when it is already so."""
        if acks == -1:
            # A duplicate of what was committed long ago asks here, too: when too few are in sync by now, it must hear so.
            acknowledged = self.leadership.is_acknowledged(offset)
            if acknowledged is False:
                raise RequestError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
            queue = self.committed
        else:
            acknowledged = True if self.log.state.config.flush != "ack" or offset <= self.log.flushed_offset else None
            queue = self.flushed
        return queue if acknowledged is None else None

    def stop_waiting(self, outcome: Callable[[ErrorCode], None]) -> None:
        """Whoever asked `when_durable` to call this no longer wants it."""
        self.committed.leave(outcome)
        self.flushed.leave(outcome)

    def reconfigure(self, config: LogConfig) -> None:
        """Go by new settings from now on; what was written before is flushed as they want it, too."""
        before = self.log.config
        self.log.reconfigure(config)
        changed = (config.flush, config.flush_ms, config.flush_messages) != (before.flush, before.flush_ms, before.flush_messages)
        if changed and config.flush != "os":
            # What is unflushed was written under other rules, perhaps long ago.
            self._cancel_interval()
            self.flush_soon()
        self.advance()

    # -- flushing, for the Flusher

    def sync(self) -> int:
        return self.log.sync()

    def on_flushed(self, offset: int) -> None:
        self.flushed.advance(offset)
        self.advance()

    def on_storage_failure(self, error: StorageError, size: int = 0) -> None:
        """The disk failed: this partition is offline until a restart; everybody else goes on.

        One that is full has only refused something, which is tried again when it has room."""
        if isinstance(error, NoRoom):
            if error.cause is not None:  # it was tried, and not only left alone
                self._space.refused(size)
                self.waits_for_room = True
                if not self._is_known_to_wait:
                    self._is_known_to_wait = True
                    logger.warning("%s: %s", self.identity, error)
            return
        if self.failure is not None or self.is_retired:
            # The files of one that goes away go, too, perhaps under a flush.
            return
        logger.error("%s is offline: %s; restart the broker when the disk is well again", self.identity, error)
        self._go_offline(error)

    def on_role_failure(self, error: StorageError) -> None:
        """Something failed while this replica took up its role: it is offline until that is tried again."""
        if self.failure is None:
            logger.error("%s is offline: %s; it is tried again", self.identity, error)
            self._go_offline(error)

    def try_again(self) -> None:
        """The disk may have room again for what it refused."""
        self.waits_for_room = False
        if self.failure is not None:
            return
        try:
            if isinstance(self.log, Log):
                self.log.write_what_waits()
        except StorageError as error:
            self.on_storage_failure(error)
        else:
            self._is_known_to_wait = self._space.is_short
        self.flush_soon()

    def cannot_be_opened(self, reason: StorageError, before: StorageError | None = None) -> None:
        """There is no log behind this replica: it is offline until it can be opened.  `before` is why it was already."""
        if isinstance(reason, NoRoom):
            self._space.refused()
            self.waits_for_room = True
        if type(before) is not type(reason):
            logger.error("%s is offline: %s", self.identity, reason)
        self._go_offline(reason)

    def when_failed(self, listener: "Callable[[Partition], None]") -> None:
        """Have somebody told when this replica goes offline: once, however often they ask, with each change of role perhaps."""
        self._on_failure[listener] = None

    def set_aside(self, reason: StorageError) -> None:
        """Parts of this replica cannot be read, and others have them: it serves nobody until it is mended."""
        if self.failure is None:
            logger.error("%s is set aside to be mended: %s", self.identity, reason)
            self.is_set_aside = True
            self._go_offline(reason)

    def take_back(self) -> None:
        """This replica is sound again, or nobody else could do its work."""
        self.failure = None
        self.is_set_aside = False

    def _go_offline(self, reason: StorageError) -> None:
        self.failure = reason
        self._dismiss(ErrorCode.KAFKA_STORAGE_ERROR)
        for listener in list(self._on_failure):
            listener(self)

    def on_failed_read(self, error: StorageError) -> ErrorCode:
        """What whoever wanted to read is told.  Damage is noted, so that it is mended."""
        logger.error("a read failed: %s", error)
        if isinstance(error, CorruptBatch):
            self._figures.corrupt["read"] += 1
            self.note_damage()
            return ErrorCode.CORRUPT_MESSAGE
        return ErrorCode.KAFKA_STORAGE_ERROR

    def note_damage(self) -> None:
        """A read found something that cannot be right."""
        for listener in self.on_damage:
            listener(self)

    def _flush_at_interval(self) -> None:
        if self.log.unflushed_messages >= self.config.flush_messages:
            self._flusher.request(self)
        else:
            self._flush_within(self.config.flush_ms / 1000)

    def _flush_within(self, seconds: float) -> None:
        if self._interval_timer is None:
            self._interval_timer = self._loop.call_later(seconds, self._flush_interval_over)

    def _cancel_interval(self) -> None:
        if self._interval_timer is not None:
            self._interval_timer.cancel()
            self._interval_timer = None

    def _flush_interval_over(self) -> None:
        self._interval_timer = None
        self.flush_soon()

    def flush_soon(self) -> None:
        """Flush what is not flushed yet."""
        if self.failure is None and self.log.unflushed_messages:
            self._flusher.request(self)

    # -- watermarks

    @property
    def safe_end(self) -> int:
        """How far this replica alone would let readers see: what survives what its topic wants it to survive."""
        state = self.log.state
        return self.log.flushed_offset if state.config.flush == "ack" else state.end_offset

    @property
    def last_stable_offset(self) -> int:
        unstable = self.log.producers.first_unstable_offset
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    @property
    def low_watermark(self) -> int:
        """As leader: where every living replica begins, whatever happens to it."""
        return self.leadership.low_watermark(self.durable_start)

    def readable_to(self, *, committed_only: bool) -> int:
        return self.last_stable_offset if committed_only else self.high_watermark

    def advance(self) -> None:
        """Let the high watermark catch up with the in-sync replicas."""
        if self.is_leader and self.failure is None:
            self._move_high_watermark(self.leadership.high_watermark(self.safe_end))

    def follow_high_watermark(self, leader_high_watermark: int) -> None:
        """As follower: learn how far the leader's high watermark is."""
        self._move_high_watermark(watermark_after(leader_high_watermark, self.log.end_offset, self.high_watermark))

    def _move_high_watermark(self, target: int) -> None:
        if target <= self.high_watermark:
            return
        log = self.log
        assert target <= log.state.end_offset, f"{self.identity}: high watermark {target} beyond the end {log.end_offset}"
        self.high_watermark = target
        log.producers.on_high_watermark(target)
        if self.committed.waiting:
            enough = self.leadership.is_acknowledged(target)
            self.committed.advance(target, ErrorCode.NONE if enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        if self.readers.waiting:
            self.readers.wake()
        for listener in self.on_high_watermark:
            listener()

    def restore_high_watermark(self, checkpoint: int) -> None:
        """After a start: what was written down, as far as the log has it."""
        self.high_watermark = max(self.log.start_offset, min(checkpoint, self.log.end_offset))

    def on_truncated(self) -> None:
        """The log was cut below what was once its end."""
        self.durable_start = min(self.durable_start, self.log.start_offset)
        self.high_watermark = max(self.log.start_offset, min(self.high_watermark, self.log.end_offset))
        # What they wait for may be gone.
        self.flushed.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _settle(self) -> None:
        # A new leader's log may hold records nobody flushed here; they count only once they are.
        if self.config.flush == "ack" and self.log.flushed_offset < self.log.end_offset:
            self._flusher.request(self)

    # -- the end

    def _dismiss(self, code: ErrorCode) -> None:
        self.flushed.fail(code)
        self.committed.fail(code)
        self.readers.wake()
        self.replica_readers.wake()
        self.start_readers.wake()

    def retire(self) -> None:
        """This replica is going away: its topic was deleted, or it moved."""
        self.is_leader = False
        self.is_retired = True
        self._cancel_interval()
        self._dismiss(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

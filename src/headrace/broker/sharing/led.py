"""One partition that this broker leads, as one share group works on it: decisions, with a log to read and a state that is kept.

Loaded from the share coordinator when the group first asks.  Word of records is written in order, one write at a time, and what
comes meanwhile goes with the next; whoever waits is told when its word is kept.  A write whose fate is not known, or that was
refused because another leads or offsets were moved by hand, ends this view of it: it is loaded again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from headrace.broker.coordinators.share_state.client import ShareStateClient
from headrace.broker.metrics.figures import ShareFigures
from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.waiting import Readers
from headrace.broker.sharing.breakers import Breakers
from headrace.broker.sharing.dead_letters import DeadLetters, Grave, Known
from headrace.broker.sharing.settings import SettingsOf, ShareSettings
from headrace.broker.supervision.supervision import Spawn
from headrace.coordination.share.delivery import RecordState, StateBatch, laid_over
from headrace.coordination.share.entries import NOT_SET, ShareKey
from headrace.coordination.share.partition import Acknowledgement, Acquired, Change, LogBatch, SharePartition, Wish
from headrace.coordination.share.state_shard import ReadState, WriteState
from headrace.model.errors import ErrorCode, RequestError

logger = logging.getLogger(__name__)

# Whose word a leader, and its clients, can do something about.
FOR_CLIENTS = {
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


NO_REASONS: Mapping[int, str] = MappingProxyType({})
OUTCOMES = {
    RecordState.ACKNOWLEDGED: "accepted",
    RecordState.AVAILABLE: "released",
    RecordState.ARCHIVED: "given_up",
}


class LedSharePartition:
    """Made by `SharePartitions`, which forgets it when it is over."""

    def __init__(
        self,
        key: ShareKey,
        partition: Partition,
        client: ShareStateClient,
        settings_of: SettingsOf,
        start_for: Callable[[Partition, ShareSettings], Awaitable[int]],
        spawn: Spawn,
        loop: asyncio.AbstractEventLoop,
        jitter: Callable[[], float],
        figures: ShareFigures,
        dead_letters: DeadLetters,
        breakers: Breakers,
        on_over: "Callable[[LedSharePartition], None]",
        on_written: "Callable[[LedSharePartition], None]",
    ) -> None:
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.readers = Readers()  # who waits for records to become free
        self.is_over = False
        self._client = client
        self._settings_of = settings_of
        self._start_for = start_for
        self._spawn = spawn
        self._loop = loop
        self._jitter = jitter
        self._figures = figures
        self._dead_letters = dead_letters
        self._breakers = breakers
        self._on_over = on_over
        self._on_written = on_written
        self._share: SharePartition | None = None
        self._state_epoch = 0
        self._loading: asyncio.Future[None] | None = None
        self._reasons: dict[int, str] = {}  # why records are rejected, until their letters are written
        self._unwritten: list[tuple[Change, asyncio.Future[None] | None]] = []
        self._is_writing = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def in_flight(self) -> int:
        """Records that are some member's now."""
        return 0 if self._share is None else self._share.acquired

    @property
    def resting(self) -> int:
        """Records that nobody gets yet, as they were delivered in vain."""
        return 0 if self._share is None else self._share.resting(self._loop.time())

    @property
    def is_paused(self) -> bool:
        """Whether the group gets no records for now."""
        return self._breakers.is_paused(self.key.group_id)

    @property
    def settings(self) -> ShareSettings:
        return self._settings_of(self.key.group_id)

    # --- loading ----------------------------------------------------------------------------------------------------------

    async def loaded(self) -> SharePartition:
        """The decisions, once the state is known.  Raises RequestError."""
        if self._share is None:
            if self._loading is None:
                self._loading = self._loop.create_future()
                self._spawn(self._load(self._loading), "load of a share-partition")
            await asyncio.shield(self._loading)
        assert self._share is not None
        self._share.limits = self.settings.limits
        self._share.on_log_start(self.partition.log.start_offset)
        return self._share

    async def _load(self, loading: "asyncio.Future[None]") -> None:
        try:
            state = await self._client.read(ReadState(key=self.key, leader_epoch=self.leader_epoch))
            self._state_epoch = state.state_epoch
            start = state.start_offset
            if start == NOT_SET:
                # Where the group begins is decided once: kept before anybody gets a record.
                start = await self._start_for(self.partition, self.settings)
                await self._client.write(self._request(Change(0, start, (), 0)))
            # A group that just begins has given up nothing yet.
            buried = () if state.start_offset == NOT_SET else await self._buried(start)
            batches = laid_over(state.batches, buried, start)
            self._share = SharePartition(start, batches, self.settings.limits, self._jitter)
            loading.set_result(None)
        except RequestError as error:
            self._end()
            loading.set_exception(_for_clients(error))
            loading.exception()
        except Exception as error:
            self._end()
            loading.set_exception(RequestError(ErrorCode.UNKNOWN_SERVER_ERROR, "The share-partition could not be loaded."))
            loading.exception()
            logger.exception("share-partition %s could not be loaded: %s", self.key, error)

    @property
    def _grave(self) -> Grave:
        return Grave(self.key, self.partition.identity, self._state_epoch)

    async def _buried(self, start: int) -> tuple[StateBatch, ...]:
        """Records of which there are letters count as done, though a broker died before it could say so."""
        burial = self.settings.burial
        if burial is None:
            return ()
        found = await self._dead_letters.found(self._grave, burial, start)
        if found:
            await self._client.write(self._request(Change(0, start, found, NOT_SET)))
        return found

    # --- what the group does ----------------------------------------------------------------------------------------------

    def now(self) -> float:
        return self._loop.time()

    def acquire(self, share: SharePartition, wish: Wish, batches: Sequence[LogBatch], now: float) -> tuple[Acquired, ...]:
        """Of what was read from where the share-partition said, at that time."""
        acquired = share.acquire(wish, batches, now)
        self._figures.deliveries += sum(each.end - each.first for each in acquired)
        self._set_timer()
        return acquired

    async def acknowledge(
        self, member_id: str, words: Iterable[Acknowledgement], reasons: Mapping[int, str] = NO_REASONS
    ) -> None:
        """Return when the word is kept.  `reasons` are by offset, of records that are rejected.  Raises RequestError."""
        share = await self.loaded()
        change = share.acknowledge(member_id, words, self._loop.time())
        self._set_timer()
        if change is not None and reasons:
            rejected = {offset for each in change.given_up for offset in range(each.first, each.end)}
            self._reasons.update((offset, text) for offset, text in reasons.items() if offset in rejected)
        if change is not None:
            await self._kept(change)

    def release(self, member_id: str, *, was_lost: bool) -> None:
        """The member has gone, or has closed its session."""
        if self._share is not None:
            self._keep(self._share.release(member_id, was_lost=was_lost))

    def _expire(self) -> None:
        self._timer = None
        if self._share is not None and not self.is_over:
            self._keep(self._share.expire(self._loop.time()))
            self.readers.wake()  # what has rested long enough is free without a change

    def _keep(self, change: Change | None) -> None:
        """Word that nobody waits for: it holds here already."""
        if change is not None:
            self._unwritten.append((change, None))
            self._write_soon()
            self.readers.wake()
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._share is None or self.is_over:
            return
        times = [at for at in (self._share.next_deadline(), self._share.next_due()) if at is not None]
        if times:
            self._timer = self._loop.call_at(min(times), self._expire)

    # --- writing ----------------------------------------------------------------------------------------------------------

    async def _kept(self, change: Change) -> None:
        kept: asyncio.Future[None] = self._loop.create_future()
        self._unwritten.append((change, kept))
        self._write_soon()
        await asyncio.shield(kept)

    def _write_soon(self) -> None:
        if not self._is_writing and self._unwritten:
            self._is_writing = True
            self._spawn(self._write(), "write of a share-partition")

    async def _write(self) -> None:
        while self._unwritten and not self.is_over:
            taken, self._unwritten = self._unwritten, []
            assert self._share is not None
            together = self._share.joined([change for change, _ in taken])
            try:
                await self._bury(together)
                await self._client.write(self._request(together))
            except RequestError as error:
                self._settle(taken, _for_clients(error))
                self._end()
            except Exception:
                logger.exception("share-partition %s could not be written", self.key)
                self._settle(taken, RequestError(ErrorCode.UNKNOWN_SERVER_ERROR))
                self._end()
            else:
                self._settle(taken, None)
        self._is_writing = False
        if not self.is_over:
            self._on_written(self)

    async def _bury(self, change: Change) -> None:
        """Whoever is given up has a letter before anybody is told."""
        burial = self.settings.burial
        given_up = [batch for batch in change.batches if batch.state is RecordState.ARCHIVED]
        if burial is not None and given_up:
            known = Known(self._reasons, change.given_up, self._loop.time())
            await self._dead_letters.write(self._grave, self.partition, burial, given_up, known)

    def _settle(self, taken: list[tuple[Change, "asyncio.Future[None] | None"]], error: RequestError | None) -> None:
        assert self._share is not None
        outcomes = self._figures.outcomes
        for change, kept in taken:
            if error is None:
                for batch in change.batches:
                    outcomes[OUTCOMES[batch.state]] += batch.end - batch.first
                    if batch.state is RecordState.ARCHIVED:
                        topic = self.partition.identity.topic
                        self._figures.on_given_up(self.key.group_id, topic, batch.end - batch.first)
                self._breakers.note(self.key.group_id, change.batches)
            if self._reasons:
                for given_up in change.given_up:
                    for offset in range(given_up.first, given_up.end):
                        self._reasons.pop(offset, None)
            self._share.settle(change, written=error is None, now=self._loop.time())
            if kept is None or kept.done():
                continue
            if error is None:
                kept.set_result(None)
            else:
                kept.set_exception(RequestError(error.code, error.message or ""))
                kept.exception()
        self._set_timer()
        self.readers.wake()

    def _request(self, change: Change) -> WriteState:
        return WriteState(
            key=self.key,
            state_epoch=self._state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=change.start,
            done=change.done,
            batches=change.batches,
        )

    def retire(self) -> None:
        """Nobody works on it here: when all is back and written it is forgotten; who comes next looks at what is kept."""
        if self._share is None or self._share.acquired:  # they were delivered, which is to be counted
            return
        if not self._is_writing and not self._unwritten and not self.is_over:
            self._end()

    # --- the end ----------------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        self.close(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self._on_over(self)

    def close(self, code: ErrorCode) -> None:
        """Somebody else leads, or what is known here is in doubt."""
        self.is_over = True
        self._set_timer()
        unwritten, self._unwritten = self._unwritten, []
        for _, kept in unwritten:
            if kept is not None and not kept.done():
                kept.set_exception(RequestError(code))
                kept.exception()
        self.readers.wake()


def _for_clients(error: RequestError) -> RequestError:
    return RequestError(FOR_CLIENTS.get(error.code, error.code), error.message or "")

"""One partition of an internal topic that this broker leads: its shard is loaded, decides, and answers.

Each decision is appended as one write and replayed at once; its replies are sent when the high watermark has passed it.  What
always holds:

- a reply is never sent before all that was written until then is committed, so no client sees what a crash could take back;
- a reply that the high watermark keeps waiting for too long is replaced by COORDINATOR_NOT_AVAILABLE.  What was decided stays
  written and replayed, and may be committed later: whoever asked asks again and finds it;
- a shard changes only between two steps of the event loop, so decisions never interleave;
- a shard knows what its log has: where it cannot replay what was written, it is loaded again.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import field
from itertools import count
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, TypeVar

from headrace.broker.coordinators.interfaces import CoordinatorLog, EntryCodec, Shard
from headrace.broker.coordinators.loading import replay_batch, replay_log
from headrace.broker.coordinators.log_errors import as_coordinator_error
from headrace.broker.coordinators.waiting import MarkersOf, ReplyTo, Waiting
from headrace.broker.coordinators.writing import in_batches
from headrace.broker.supervision.supervision import Rule, Scope, Service
from headrace.coordination.decision import Answer, Decision, Reply, Token
from headrace.coordination.moment import Moment
from headrace.coordination.transaction.markers import TransactionEnd
from headrace.declaring import dataclass
from headrace.host.clock import Clock
from headrace.model.errors import ErrorCode, RequestError, StorageError
from headrace.records.control import build_end_marker
from headrace.records.record import Record

LOGGER = logging.getLogger(__name__)

# Before a load that the machine made fail is tried again.
LOAD_PAUSE_S = 1.0
# Between two looks at a high watermark that cannot move for now, since too few replicas are in sync.
COMMIT_PAUSE_S = 0.2
# From so many writes on that wait to be committed, those that nobody waits for any more are forgotten.
HELD_MAX = 1000

# Why a write got no answer, in words for a client.
LATE = "it is written, and the replicas have not confirmed it in time"
STARTS_OVER = "the coordinator has failed and starts over"
LATE_REPLY = RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, LATE)

ShardType = TypeVar("ShardType", bound=Shard)
Request = TypeVar("Request")
Arguments = ParamSpec("Arguments")


@dataclass(slots=True, kw_only=True)
class ShardContext(Generic[ShardType]):
    """What all shards of one internal topic share."""

    topic: str
    codec: EntryCodec
    make_shard: Callable[[], ShardType]
    clock: Clock
    scope: Scope
    write_timeout_s: float
    waiting: Waiting = field(default_factory=Waiting)
    requests: "count[int]" = field(default_factory=lambda: count(1))
    # Called after a load and after each commit of entries.
    on_committed: "Callable[[LedShard[ShardType]], None]" = lambda led: None
    _began: Moment = field(init=False)

    def __post_init__(self) -> None:
        self._began = Moment(self.clock.wall_ms(), self.clock.monotonic())

    def now(self) -> Moment:
        """Wall time as it was at the start, moved on by the monotonic clock: a clock that somebody sets ages nothing."""
        return self._began.moved_to(self.clock.monotonic())


class _Held(NamedTuple):
    """Replies held back until the high watermark reaches an offset."""

    offset: int
    replies: tuple[Reply, ...]


class LedShard(Generic[ShardType]):
    """A shard with its log, from when this broker comes to lead the partition until it does no more."""

    def __init__(self, index: int, log: CoordinatorLog, context: ShardContext[ShardType]) -> None:
        self.index = index
        self.log = log
        # A new term as leader is a new coordinator: its epoch goes into markers, and others may have written in between.
        self.term = log.leader_epoch
        self.shard = context.make_shard()
        self.is_loaded = False
        self._context = context
        self._waiting = context.waiting
        self._is_closed = False
        # In rising order of offsets.
        self._held: deque[_Held] = deque()
        # Where the log ends after the last write; replies wait for the high watermark to get here.
        self._written_to = 0
        self._timer: asyncio.TimerHandle | None = None
        # Set when something about the shard fails, which has it loaded again.
        self._failing: asyncio.Future[None] | None = None
        self._serving: Service | None = None
        self._committing: Service | None = None
        # Who wants to know when it is loaded, or will not be.
        self._awaiting_load: list[asyncio.Future[None]] = []

    @property
    def name(self) -> str:
        return f"{self._context.topic}-{self.index}"

    # --- leadership -------------------------------------------------------------------------------------------------------

    def lead(self) -> None:
        """Load the shard, then serve."""
        self._serving = self._context.scope.start("shard", self._serve, Rule.RESTART, subject=self.name)

    def resign(self) -> None:
        """Tell whoever waits to look elsewhere."""
        self._is_closed = True
        if self._serving is not None:
            self._serving.cancel()
        self._dismiss(RequestError(ErrorCode.NOT_COORDINATOR, "the coordinator has moved"))
        self._tell_of_load()

    def fail(self, error: Exception) -> None:
        """Something about the shard failed that must not: what it knows is in doubt, and it is loaded again."""
        if self._failing is not None and not self._failing.done():
            self.is_loaded = False
            self._failing.set_exception(error)

    async def wait_loaded(self) -> None:
        """Return when the shard serves, or will not for now."""
        if not self.is_loaded:
            loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._awaiting_load.append(loaded)
            await loaded

    def _tell_of_load(self) -> None:
        for future in self._awaiting_load:
            if not future.done():
                future.set_result(None)
        self._awaiting_load.clear()

    def _dismiss(self, error: RequestError) -> None:
        """Nobody gets an answer from this shard as it is now."""
        if self._committing is not None:
            self._committing.cancel()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waiting.refuse_where(self._is_mine, error)
        self._held.clear()

    def _is_mine(self, key: Hashable) -> bool:
        return isinstance(key, ReplyTo | MarkersOf) and key.partition == self.index

    # --- requests ---------------------------------------------------------------------------------------------------------

    async def ask(self, decide: Callable[[ShardType, Request, Token, Moment], Decision[Answer]], request: Request) -> Answer:
        """Let the shard decide about one request and return its reply, which may come only with a later decision."""
        token = ReplyTo(self.index, next(self._context.requests))
        replied = self._waiting.enter(token)
        try:
            self._take(decide(self.shard, request, token, self._context.now()))
            answer: Answer = await replied
        finally:
            self._waiting.leave(token, replied)
        return answer

    async def look(
        self, look: Callable[Concatenate[ShardType, Arguments], Answer], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Answer:
        """What the shard has to say, once all that it knows is committed."""
        return await self.ask(_reply, look(self.shard, *args, **kwargs))

    def take_news(self, decision: Decision[None]) -> None:
        """Have written what the shard decided about news that nobody waits for.  A failed write is only logged."""
        self._take(decision, nobody_waits=True)

    async def end_transaction(self, end: TransactionEnd) -> None:
        """Write a transaction's end marker, apply it to the shard, and return when it is committed."""
        producer, now = end.producer, self._context.now()
        marker = build_end_marker(producer.producer_id, producer.epoch, end.committed, end.coordinator_epoch, now.wall_ms)
        try:
            _, last = self.log.append(marker, transaction_version=end.transaction_version)
        except (RequestError, StorageError) as error:
            if isinstance(error, RequestError) and error.code is ErrorCode.INVALID_PRODUCER_EPOCH:
                # What has ended it here may be this very marker, sent before: it counts once it is committed.
                await self._wait_for_commit(self.log.end_offset)
            raise as_coordinator_error(error) from error
        self._replay(lambda: self.shard.replay_marker(producer, end.committed))
        self._written_to = last + 1
        self._set_timer()
        await self._wait_for_commit(last + 1)
        self._committed()

    async def write_batch(self, batch: bytes) -> None:
        """Write entries that came as a batch, replay them, and return when they are committed.  A batch that is here already has
        only to be committed."""
        try:
            written = self.log.append_waiting(batch)
        except (RequestError, StorageError) as error:
            raise as_coordinator_error(error) from error
        if written is not None:
            base, last = written
            self._replay(lambda: replay_batch(self.shard, self._context.codec, batch, base))
            self._written_to = last + 1
            self._set_timer()
        await self._wait_for_commit(self.log.end_offset if written is None else last + 1)
        self._committed()

    async def _wait_for_commit(self, offset: int) -> None:
        try:
            async with asyncio.timeout(self._context.write_timeout_s):
                await self.log.wait_for_high_watermark(offset)
        except TimeoutError:
            raise RequestError(ErrorCode.REQUEST_TIMED_OUT, LATE) from None
        except (RequestError, StorageError) as error:
            raise as_coordinator_error(error) from error

    # --- decisions --------------------------------------------------------------------------------------------------------

    def _take(self, decision: Decision[Any], *, nobody_waits: bool = False) -> None:
        """Write what was decided, replay it, and send the replies when all of it is committed."""
        if decision.entries:
            try:
                base = self._append(decision, nobody_waits=nobody_waits and not decision.replies)
            except (RequestError, StorageError) as error:
                LOGGER.warning("%s: a decision could not be written: %s", self.name, error)
                self._refuse(decision.replies, as_coordinator_error(error))
                self._set_timer()
                return
            self._replay(lambda: self._replay_entries(decision, base))
        elif decision.replies and self.log.high_watermark < self._written_to:
            self.log.flush_soon()
        self._hold_back(decision.replies, wrote=bool(decision.entries))
        self._set_timer()

    def _replay_entries(self, decision: Decision[Any], base: int) -> None:
        for position, entry in enumerate(decision.entries):
            self.shard.replay(entry, base + position, decision.producer)

    def _replay(self, replay: Callable[[], None]) -> None:
        try:
            replay()
        except Exception as error:
            self.fail(error)
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, STARTS_OVER) from error

    def _append(self, decision: Decision[Any], *, nobody_waits: bool) -> int:
        timestamp, encode = self._context.clock.wall_ms(), self._context.codec.encode
        records = [Record(position, timestamp, *encode(entry), ()) for position, entry in enumerate(decision.entries)]
        base, last = self.log.append(b"".join(in_batches(records, decision.producer)), nobody_waits=nobody_waits)
        assert last - base == len(records) - 1, "a log gave a decision other offsets than one per entry"
        self._written_to = last + 1
        return base

    def _hold_back(self, replies: tuple[Reply, ...], *, wrote: bool) -> None:
        if self.log.high_watermark >= self._written_to:
            self._deliver(replies)
            if wrote:
                self._committed()
            return
        if not replies and not wrote:
            return
        if len(self._held) > HELD_MAX:
            self._forget_late()
        self._held.append(_Held(self._written_to, replies))
        for reply in replies:
            self._waiting.limit(reply.token, self._context.write_timeout_s, LATE_REPLY)
        if self._committing is None or self._committing.is_over:
            self._committing = self._context.scope.run("commit", self._deliver_committed, Rule.RESTART, subject=self.name)

    def _forget_late(self) -> None:
        """Drop what nobody waits for any more, but the last: that the log gets there must still be noticed."""
        held = self._held
        while len(held) > 1 and not any(reply.token in self._waiting for reply in held[0].replies):
            held.popleft()

    async def _deliver_committed(self) -> None:
        while self._held:
            try:
                await self.log.wait_for_high_watermark(self._held[0].offset)
            except (RequestError, StorageError) as error:
                # Whoever waits need not wait for the end of it.
                self._refuse_held(as_coordinator_error(error))
                if not isinstance(error, RequestError) or error.code is not ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
                    # Leadership went away under us; the broker will say so too.
                    self._held.clear()
                    return
                await asyncio.sleep(COMMIT_PAUSE_S)
                continue
            while self._held and self._held[0].offset <= self.log.high_watermark:
                self._deliver(self._held.popleft().replies)
            self._committed()

    def _refuse_held(self, error: RequestError) -> None:
        """Give no more hope to those who wait.  What they wait for may be committed yet, and that must be noticed."""
        last = self._held[-1].offset
        for held in self._held:
            self._refuse(held.replies, error)
        self._held = deque([_Held(last, ())])

    def _committed(self) -> None:
        if not self._is_closed:
            self._context.on_committed(self)

    def _deliver(self, replies: tuple[Reply, ...]) -> None:
        for reply in replies:
            self._waiting.answer(reply.token, reply.message)

    def _refuse(self, replies: tuple[Reply, ...], error: RequestError) -> None:
        for reply in replies:
            self._waiting.refuse(reply.token, error)

    # --- time -------------------------------------------------------------------------------------------------------------

    def look_at_clock(self) -> None:
        """The clock was set: deadlines may have passed."""
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = self.shard.next_deadline()
        if deadline is not None and not self._is_closed:
            delay = max(deadline - self._context.clock.monotonic(), 0.0)
            self._timer = asyncio.get_running_loop().call_later(delay, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self._is_closed:
            return
        # One deadline per step: a decision must have been replayed before the next one is made, and a flood of deadlines
        # must not keep the event loop from its connections.
        try:
            self._take(self.shard.tick(self._context.now()))
        except Exception as error:
            self.fail(error)

    # --- loading ----------------------------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        """Load the shard, and stay until something about it fails.  Begun again, it starts over with what the log has."""
        self._failing = asyncio.get_running_loop().create_future()
        try:
            while not self.is_loaded:
                await self._try_to_load()
            await self._failing
        except (Exception, asyncio.CancelledError):
            # The partition stays led but not served: clients keep asking, an operator reads why.
            self.is_loaded = False
            self._tell_of_load()
            self._dismiss(RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, STARTS_OVER))
            raise

    async def _try_to_load(self) -> None:
        self.shard = self._context.make_shard()
        try:
            await self._load()
        except (RequestError, StorageError) as error:
            # The machine's fault: the partition may be mended, or somebody else comes to lead it.
            self.is_loaded = False
            LOGGER.error("%s could not be loaded, and is tried again: %s", self.name, error)
            self._tell_of_load()
            await asyncio.sleep(LOAD_PAUSE_S)

    async def _load(self) -> None:
        started = self._context.clock.monotonic()
        entries = await replay_log(self.log, self._context.codec, self.shard)
        self._written_to = self.log.end_offset
        self.is_loaded = True
        self._take(self.shard.on_loaded(self._context.now()))
        self._tell_of_load()
        elapsed_ms = (self._context.clock.monotonic() - started) * 1000
        level = logging.INFO if entries else logging.DEBUG
        LOGGER.log(level, "%s: %d entries loaded in %.0f ms", self.name, entries, elapsed_ms)
        self._committed()


def _reply(shard: Shard, answer: Answer, token: Token, now: Moment) -> Decision[Answer]:
    return Decision((), (Reply(token, answer),))

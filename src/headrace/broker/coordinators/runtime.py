"""Runs pure coordinators over the partitions of an internal topic.

One shard per partition that this broker leads.  A shard is loaded by replaying the partition's log; then each decision of it is
appended as one write, replayed at once, and its replies are sent when the high watermark has passed it.  What always holds:

- a reply is never sent before all that was written until then is committed, so no client sees what a crash could take back;
- a reply that the high watermark keeps waiting for too long is replaced by COORDINATOR_NOT_AVAILABLE.  What was decided stays
  written and replayed, and may be committed later: whoever asked asks again and finds it;
- a shard that is not led answers nobody: whoever waits is told NOT_COORDINATOR;
- a shard changes only between two steps of the event loop, so decisions never interleave.

The kind of shard, the encoding of its entries and the topic are parameters; groups and transactions share all of this.
"""

import asyncio
import gc
import logging
import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from headrace.broker.supervision.supervision import Rule, Scope, Service
from headrace.coordination.decision import Decision, Reply, Token
from headrace.coordination.moment import Moment
from headrace.host.clock import Clock
from headrace.model.errors import DiskFull, ErrorCode, NoRoom, RequestError, StorageError
from headrace.model.identity import ProducerIdentity
from headrace.records.batch import build_batch, iterate_batches
from headrace.records.control import build_end_marker, read_marker
from headrace.records.record import Record, read_pairs

LOGGER = logging.getLogger(__name__)

LOAD_CHUNK_BYTES = 1024 * 1024
# While a shard is loaded, everybody else gets a turn after this many entries.
ENTRIES_PER_STEP = 1000
# Before a load that the machine made fail is tried again.
LOAD_PAUSE_S = 1.0
# Between two looks at a high watermark that cannot move for now, since too few replicas are in sync.
COMMIT_PAUSE_S = 0.2
# Entries of one decision go into batches of about this size; a topic's max.message.bytes is 1 MiB unless set otherwise.
BATCH_BYTES = 512 * 1024
# What an entry costs beside its key and value, at most.
ENTRY_OVERHEAD_BYTES = 32

# Why a write got no answer, in words for a client.
LATE = "it is written, and the replicas have not confirmed it in time"

Entry = Any


class CoordinatorLog(Protocol):
    """What the runtime needs of a partition that this broker leads."""

    @property
    def leader_epoch(self) -> int: ...
    @property
    def start_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...

    def append(self, batches: bytes, *, transaction_version: int = 0, nobody_waits: bool = False) -> tuple[int, int]:
        """Write the batches; return the first and the last offset.  When it raises, it wrote nothing.

        From transaction version 2 on, a marker counts only with an epoch above its producer's (KIP-890).
        What nobody waits for need not be flushed by itself: it goes with what is written next, or a little later.
        """
        ...

    def hurry(self) -> None:
        """Somebody waits now for what nobody waited for."""
        ...

    async def wait_for_high_watermark(self, offset: int) -> None:
        """Return when the high watermark is at least `offset`; raise RequestError when the partition is not led any more."""
        ...

    async def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from the one that holds `offset` on, up to the end of the log; empty at the end."""
        ...


class EntryCodec(Protocol):
    """Entries as the keys and values of records."""

    def encode(self, entry: Entry) -> tuple[bytes, bytes | None]: ...
    def decode(self, key: bytes, value: bytes | None) -> Entry | None:
        """None for a kind of entry that a newer broker wrote and we do not know."""
        ...


class Shard(Protocol):
    """A pure coordinator of everything whose key falls on one partition."""

    def replay(self, entry: Entry, offset: int, producer: ProducerIdentity | None) -> None: ...
    def replay_marker(self, producer: ProducerIdentity, committed: bool) -> None: ...
    def on_loaded(self, now: Moment) -> Decision:
        """The log has been replayed and the shard starts to serve: set deadlines for what was found."""
        ...

    def next_deadline(self) -> float | None:
        """The monotonic time at which `tick` has something to do."""
        ...

    def tick(self, now: Moment) -> Decision:
        """Act on the earliest deadline that has passed.  Called again until none has."""
        ...


ShardType = TypeVar("ShardType", bound=Shard)


class _Held(NamedTuple):
    """Replies held back until the high watermark reaches an offset, or until a deadline."""

    offset: int
    replies: tuple[Reply, ...]
    deadline: float


@dataclass(slots=True)
class _Led(Generic[ShardType]):
    """One partition that we lead: its shard, once loaded, and who waits for what."""

    index: int
    log: CoordinatorLog
    shard: ShardType
    loaded: bool = False
    closed: bool = False
    waiting: dict[Token, asyncio.Future[Any]] = field(default_factory=dict)
    # Offsets and deadlines only grow.
    uncommitted: deque[_Held] = field(default_factory=deque)
    overdue_timer: asyncio.TimerHandle | None = None
    # Where the log ends after the last write; replies wait for the high watermark to get here.
    written_to: int = 0
    timer: asyncio.TimerHandle | None = None
    # Loads the shard and goes on until something about it fails, which has it loaded again.
    serving: Service | None = None
    failing: asyncio.Future[None] | None = None
    committing: Service | None = None
    # Who wants to know when it is loaded, or will not be.
    awaiting_load: list[asyncio.Future[None]] = field(default_factory=list)

    def tell_of_load(self) -> None:
        for future in self.awaiting_load:
            if not future.done():
                future.set_result(None)
        self.awaiting_load.clear()


class CoordinatorRuntime(Generic[ShardType]):
    """All shards of one internal topic on this broker."""

    def __init__(
        self,
        *,
        topic: str,
        codec: EntryCodec,
        make_shard: Callable[[int], ShardType],
        clock: Clock,
        scope: Scope,
        write_timeout_s: float,
        on_committed: Callable[[int, ShardType], None] | None = None,
    ) -> None:
        """`on_committed` is called with the partition and its shard after a load and after each commit of entries."""
        self.topic = topic
        self._codec = codec
        self._make_shard = make_shard
        self._clock = clock
        self._scope = scope
        self._write_timeout_s = write_timeout_s
        self._began = Moment(clock.wall_ms(), clock.monotonic())
        self._on_committed = on_committed
        self._led: dict[int, _Led[ShardType]] = {}
        self._tokens = count(1)

    # --- leadership -------------------------------------------------------------------------------------------------------

    def lead(self, index: int, log: CoordinatorLog) -> None:
        """This broker now leads the partition: load its shard and serve.  A second call replaces the first."""
        self.resign(index)
        led = _Led(index=index, log=log, shard=self._make_shard(index))
        self._led[index] = led
        led.serving = self._scope.start("shard", lambda: self._serve(led), Rule.RESTART, subject=f"{self.topic}-{index}")

    def resign(self, index: int) -> None:
        """This broker does not lead the partition any more: forget its shard, tell whoever waits to look elsewhere."""
        led = self._led.pop(index, None)
        if led is None:
            return
        led.closed = True
        if led.serving is not None:
            led.serving.cancel()
        self._dismiss(led, RequestError(ErrorCode.NOT_COORDINATOR, "the coordinator has moved"))
        led.tell_of_load()

    def _dismiss(self, led: _Led[ShardType], error: RequestError) -> None:
        """Nobody gets an answer from this shard as it is now."""
        if led.committing is not None:
            led.committing.cancel()
        if led.timer is not None:
            led.timer.cancel()
            led.timer = None
        if led.overdue_timer is not None:
            led.overdue_timer.cancel()
            led.overdue_timer = None
        for future in led.waiting.values():
            if not future.done():
                future.set_exception(RequestError(error.code, error.message or ""))
        led.waiting.clear()
        led.uncommitted.clear()

    def close(self) -> None:
        for index in list(self._led):
            self.resign(index)

    def leads(self, index: int) -> bool:
        return index in self._led

    def led_partitions(self) -> list[int]:
        """Every partition led, loaded or not."""
        return list(self._led)

    def is_loaded(self, index: int) -> bool:
        led = self._led.get(index)
        return led is not None and led.loaded

    def shards(self) -> Iterator[tuple[int, ShardType]]:
        """Every loaded shard with its partition."""
        for index, led in list(self._led.items()):
            if led.loaded:
                yield index, led.shard

    async def wait_loaded(self, index: int) -> None:
        """Return when the shard serves; raise what a request would be told when it does not come to that."""
        led = self._led.get(index)
        if led is not None and not led.loaded:
            loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            led.awaiting_load.append(loaded)
            await loaded
        self._serving(index)

    # --- requests ---------------------------------------------------------------------------------------------------------

    async def ask(self, index: int, decide: Callable[[ShardType, Token, Moment], Decision]) -> Any:
        """Let a shard decide about one request and return its reply, which may come only with a later decision.

        Raises RequestError: what `decide` raised, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, or that the write failed.
        """
        led = self._serving(index)
        token = next(self._tokens)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        led.waiting[token] = future
        try:
            self._carry_out(led, decide(led.shard, token, self.now()))
            return await future
        finally:
            led.waiting.pop(token, None)

    def tell(self, index: int, decide: Callable[[ShardType, Moment], Decision]) -> None:
        """Let a shard decide about news that nobody waits for.  A failed write is only logged."""
        led = self._serving(index)
        self._carry_out(led, decide(led.shard, self.now()), nobody_waits=True)

    async def end_transaction(
        self,
        index: int,
        producer: ProducerIdentity,
        *,
        committed: bool,
        coordinator_epoch: int,
        transaction_version: int = 0,
    ) -> None:
        """Write a transaction's end marker, apply it to the shard, and return when it is committed."""
        led = self._serving(index)
        now = self.now()
        marker = build_end_marker(producer.producer_id, producer.epoch, committed, coordinator_epoch, now.wall_ms)
        try:
            _, last = led.log.append(marker, transaction_version=transaction_version)
        except (RequestError, StorageError) as error:
            if isinstance(error, RequestError) and error.code is ErrorCode.INVALID_PRODUCER_EPOCH:
                # What has ended it here may be this very marker, sent before: it counts once it is committed.
                await self._wait_for_commit(led, led.log.end_offset)
            raise as_coordinator_error(error) from error
        led.shard.replay_marker(producer, committed)
        led.written_to = last + 1
        self._set_timer(led)
        await self._wait_for_commit(led, last + 1)
        self._committed(led)

    async def _wait_for_commit(self, led: _Led[ShardType], offset: int) -> None:
        try:
            async with asyncio.timeout(self._write_timeout_s):
                await led.log.wait_for_high_watermark(offset)
        except TimeoutError:
            raise RequestError(ErrorCode.REQUEST_TIMED_OUT, LATE) from None
        except (RequestError, StorageError) as error:
            raise as_coordinator_error(error) from error

    def now(self) -> Moment:
        """Wall time as it was at the start, moved on by the monotonic clock: a clock that somebody sets ages nothing."""
        return self._began.moved_to(self._clock.monotonic())

    def _serving(self, index: int) -> _Led[ShardType]:
        led = self._led.get(index)
        if led is None:
            raise RequestError(ErrorCode.NOT_COORDINATOR, f"this broker does not lead {self.topic}-{index}")
        if not led.loaded:
            raise RequestError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{self.topic}-{index} is being loaded")
        return led

    # --- decisions --------------------------------------------------------------------------------------------------------

    def _carry_out(self, led: _Led[ShardType], decision: Decision, *, nobody_waits: bool = False) -> None:
        if decision.entries:
            try:
                base, led.written_to = self._append(led, decision, nobody_waits=nobody_waits and not decision.replies)
            except (RequestError, StorageError) as error:
                LOGGER.warning("%s-%d: a decision could not be written: %s", self.topic, led.index, error)
                self._refuse(led, decision.replies, as_coordinator_error(error))
                self._set_timer(led)
                return
            for position, entry in enumerate(decision.entries):
                led.shard.replay(entry, base + position, decision.producer)
        elif decision.replies and led.log.high_watermark < led.written_to:
            led.log.hurry()
        self._hold_back(led, decision.replies, wrote=bool(decision.entries))
        self._set_timer(led)

    def _append(self, led: _Led[ShardType], decision: Decision, *, nobody_waits: bool) -> tuple[int, int]:
        timestamp = self._clock.wall_ms()
        records = [Record(position, timestamp, *self._codec.encode(entry), ()) for position, entry in enumerate(decision.entries)]
        base, last = led.log.append(b"".join(_batches(records, decision.producer)), nobody_waits=nobody_waits)
        assert last - base == len(records) - 1, "a log gave a decision other offsets than one per entry"
        return base, last + 1

    def _hold_back(self, led: _Led[ShardType], replies: tuple[Reply, ...], *, wrote: bool) -> None:
        if led.log.high_watermark >= led.written_to:
            _deliver(led, replies)
            if wrote:
                self._committed(led)
            return
        if not replies and not wrote:
            return
        led.uncommitted.append(_Held(led.written_to, replies, asyncio.get_running_loop().time() + self._write_timeout_s))
        if led.overdue_timer is None:
            led.overdue_timer = asyncio.get_running_loop().call_later(self._write_timeout_s, self._refuse_overdue, led)
        if led.committing is None or led.committing.is_over:
            subject = f"{self.topic}-{led.index}"
            led.committing = self._scope.run("commit", lambda: self._deliver_committed(led), Rule.RESTART, subject=subject)

    async def _deliver_committed(self, led: _Led[ShardType]) -> None:
        while led.uncommitted:
            try:
                await led.log.wait_for_high_watermark(led.uncommitted[0].offset)
            except (RequestError, StorageError) as error:
                # Whoever waits need not wait for the end of it.
                self._refuse_held(led, len(led.uncommitted), as_coordinator_error(error))
                if not isinstance(error, RequestError) or error.code is not ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
                    # Leadership went away under us; the broker will say so too.
                    led.uncommitted.clear()
                    return
                await asyncio.sleep(COMMIT_PAUSE_S)
                continue
            while led.uncommitted and led.uncommitted[0].offset <= led.log.high_watermark:
                _deliver(led, led.uncommitted.popleft().replies)
            self._committed(led)

    def _refuse_overdue(self, led: _Led[ShardType]) -> None:
        led.overdue_timer = None
        now = asyncio.get_running_loop().time()
        overdue = 0
        for held in led.uncommitted:
            if held.deadline > now:
                led.overdue_timer = asyncio.get_running_loop().call_later(held.deadline - now, self._refuse_overdue, led)
                break
            overdue += 1
        self._refuse_held(led, overdue, RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, LATE))

    def _refuse_held(self, led: _Led[ShardType], count: int, error: RequestError) -> None:
        """Give no more hope to the first few.  What they wait for may be committed yet, and that must be noticed."""
        last = 0
        for _ in range(count):
            held = led.uncommitted.popleft()
            last = held.offset
            self._refuse(led, held.replies, error)
        if count:
            led.uncommitted.appendleft(_Held(last, (), -math.inf))

    def _committed(self, led: _Led[ShardType]) -> None:
        if self._on_committed is not None and not led.closed:
            self._on_committed(led.index, led.shard)

    def _refuse(self, led: _Led[ShardType], replies: tuple[Reply, ...], error: RequestError) -> None:
        for reply in replies:
            future = led.waiting.pop(reply.token, None)
            if future is not None and not future.done():
                future.set_exception(RequestError(error.code, error.message or ""))

    # --- timers -----------------------------------------------------------------------------------------------------------

    def _set_timer(self, led: _Led[ShardType]) -> None:
        if led.timer is not None:
            led.timer.cancel()
            led.timer = None
        deadline = led.shard.next_deadline()
        if deadline is not None and not led.closed:
            delay = max(deadline - self._clock.monotonic(), 0.0)
            led.timer = asyncio.get_running_loop().call_later(delay, self._tick, led)

    def _tick(self, led: _Led[ShardType]) -> None:
        led.timer = None
        if led.closed:
            return
        # One deadline per step: a decision must have been replayed before the next one is made, and a flood of deadlines
        # must not keep the event loop from its connections.
        try:
            self._carry_out(led, led.shard.tick(self.now()))
        except Exception as error:
            self.fail(led.index, error)

    # --- loading ----------------------------------------------------------------------------------------------------------

    async def _serve(self, led: _Led[ShardType]) -> None:
        """Load a shard, and stay until something about it fails.  Begun again, it starts over with what the log has."""
        led.failing = asyncio.get_running_loop().create_future()
        try:
            while not led.loaded:
                await self._try_to_load(led)
            await led.failing
        except (Exception, asyncio.CancelledError):
            # The partition stays led but not served: clients keep asking, an operator reads why.
            led.loaded = False
            led.tell_of_load()
            self._dismiss(led, RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator has failed and starts over"))
            raise

    async def _try_to_load(self, led: _Led[ShardType]) -> None:
        led.shard = self._make_shard(led.index)
        try:
            await self._load(led)
        except (RequestError, StorageError) as error:
            # The machine's fault: the partition may be mended, or somebody else comes to lead it.
            led.loaded = False
            LOGGER.error("%s-%d could not be loaded, and is tried again: %s", self.topic, led.index, error)
            led.tell_of_load()
            await asyncio.sleep(LOAD_PAUSE_S)

    def fail(self, index: int, error: Exception) -> None:
        """Something about a shard failed that must not: what it knows is in doubt, and it is loaded again."""
        led = self._led.get(index)
        if led is not None and led.failing is not None and not led.failing.done():
            led.loaded = False
            led.failing.set_exception(error)

    async def _load(self, led: _Led[ShardType]) -> None:
        started = self._clock.monotonic()
        entries = await self._replay_log(led)
        led.loaded = True
        self._carry_out(led, led.shard.on_loaded(self.now()))
        led.tell_of_load()
        elapsed_ms = (self._clock.monotonic() - started) * 1000
        level = logging.INFO if entries else logging.DEBUG
        LOGGER.log(level, "%s-%d: %d entries loaded in %.0f ms", self.topic, led.index, entries, elapsed_ms)
        self._committed(led)

    async def _replay_log(self, led: _Led[ShardType]) -> int:
        offset = led.log.start_offset
        # Nobody else writes here while we load: appends by this broker come from the shard, which does not serve yet.
        entries = 0
        while offset < led.log.end_offset:
            chunk = await led.log.read(offset, LOAD_CHUNK_BYTES)
            if not chunk:
                break
            for header, batch in iterate_batches(chunk):
                if header.next_offset > offset:
                    replayed = self._replay_batch(led.shard, header, batch, offset)
                    offset = header.next_offset
                    if (entries + replayed) // ENTRIES_PER_STEP > entries // ENTRIES_PER_STEP:
                        await asyncio.sleep(0)
                    entries += replayed
        led.written_to = led.log.end_offset
        return entries

    def _replay_batch(self, shard: ShardType, header: Any, batch: memoryview, from_offset: int) -> int:
        producer = ProducerIdentity(header.producer_id, header.producer_epoch) if header.is_transactional else None
        if header.is_control:
            marker = read_marker(batch)
            if producer is not None and marker is not None:
                shard.replay_marker(producer, marker.committed)
            return 0
        entries = 0
        decode, replay = self._codec.decode, shard.replay
        with _nothing_collected():
            for offset, key, value in read_pairs(batch):
                if offset < from_offset or key is None:
                    continue
                entry = decode(key, value)
                if entry is not None:
                    replay(entry, offset, producer)
                    entries += 1
        return entries


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """What a load makes it keeps: to look through it for garbage at every few hundred entries takes a quarter of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _deliver(led: _Led[Any], replies: tuple[Reply, ...]) -> None:
    for reply in replies:
        future = led.waiting.pop(reply.token, None)
        # Whoever asked may have gone away meanwhile: a reply that cannot be sent is dropped.
        if future is not None and not future.done():
            future.set_result(reply.message)


def _batches(records: list[Record], producer: ProducerIdentity | None) -> Iterator[bytes]:
    """The records in as few batches as their size allows, all for one write."""
    start = 0
    size = 0
    for position, record in enumerate(records):
        record_bytes = len(record.key or b"") + len(record.value or b"") + ENTRY_OVERHEAD_BYTES
        if size and size + record_bytes > BATCH_BYTES:
            yield _batch(records[start:position], producer)
            start, size = position, 0
        size += record_bytes
    yield _batch(records[start:], producer)


def _batch(records: list[Record], producer: ProducerIdentity | None) -> bytes:
    if producer is None:
        return build_batch(records)
    return build_batch(records, producer_id=producer.producer_id, producer_epoch=producer.epoch, transactional=True)


def as_coordinator_error(error: RequestError | StorageError) -> RequestError:
    """What a client of a coordinator is told when its log fails: words about coordinators, not about partitions."""
    if isinstance(error, DiskFull | NoRoom):
        # Kafka knows broken disks only, whose partitions move.  This one stays: nobody need look for another coordinator.
        return RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error))
    if isinstance(error, StorageError):
        return RequestError(ErrorCode.NOT_COORDINATOR, str(error))
    return RequestError(COORDINATOR_ERRORS.get(error.code, error.code), error.message or "")


COORDINATOR_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}

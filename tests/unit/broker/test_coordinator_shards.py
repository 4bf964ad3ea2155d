"""Shards of coordinators: they load from the log, writes before it replays, replies only when the write is committed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headrace.broker.coordinators.led_shard import ShardContext
from headrace.broker.coordinators.shards import Shards
from headrace.broker.coordinators.waiting import Waiting
from headrace.broker.coordinators.writing import BATCH_BYTES
from headrace.broker.supervision.supervision import Supervisor
from headrace.coordination.decision import Decision, Reply, Token
from headrace.coordination.moment import Moment
from headrace.coordination.transaction.markers import TransactionEnd
from headrace.host.clock import SystemClock
from headrace.model.errors import ErrorCode, RequestError, StorageError
from headrace.model.identity import ProducerIdentity
from headrace.records.batch import iterate_batches, stamp
from tests.support.waiting import stays_async, until_async

PRODUCER = ProducerIdentity(7, 1)
END = TransactionEnd(producer=PRODUCER, committed=True, coordinator_epoch=3)


class ListLog:
    """A led partition in memory whose high watermark moves when the test says so."""

    leader_epoch = 0
    start_offset = 0

    def __init__(self, *, commits_at_once: bool = True) -> None:
        self.data = b""
        self.end_offset = 0
        self.high_watermark = 0
        self.commits_at_once = commits_at_once
        self.failure: Exception | None = None
        self.reading = asyncio.Event()
        self.reading.set()
        self._moved = asyncio.Event()
        self.awaited: list[bool] = []
        self.hurried = 0

    def flush_soon(self) -> None:
        self.hurried += 1

    def append(self, batches: bytes, *, transaction_version: int = 0, nobody_waits: bool = False) -> tuple[int, int]:
        if self.failure is not None:
            raise self.failure
        self.awaited.append(not nobody_waits)
        base = self.end_offset
        for header, batch in iterate_batches(batches):
            stamped = bytearray(batch)
            stamp(stamped, self.end_offset, 0)
            self.data += bytes(stamped)
            self.end_offset += header.last_offset_delta + 1
        if self.commits_at_once:
            self.commit()
        return base, self.end_offset - 1

    def append_waiting(self, batch: bytes) -> tuple[int, int] | None:
        return self.append(batch)

    def commit(self) -> None:
        self.high_watermark = self.end_offset
        self._moved.set()

    def lose(self, error: Exception) -> None:
        self.failure = error
        self._moved.set()

    async def wait_for_high_watermark(self, offset: int) -> None:
        while self.high_watermark < offset:
            if self.failure is not None:
                raise self.failure
            self._moved.clear()
            await self._moved.wait()

    async def read(self, offset: int, max_bytes: int) -> bytes:
        await self.reading.wait()
        return b"".join(bytes(batch) for header, batch in iterate_batches(self.data) if header.next_offset > offset)


class Ledger:
    """The smallest coordinator: it keeps what it is told, and parks who asks it to."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, int, ProducerIdentity | None]] = []
        self.markers: list[tuple[ProducerIdentity, bool]] = []
        self.parked: list[Token] = []
        self.deadlines: list[float] = []
        self.ticks = 0
        self.loaded = False

    def replay(self, entry: str, offset: int, producer: ProducerIdentity | None) -> None:
        self.kept.append((entry, offset, producer))

    def replay_marker(self, producer: ProducerIdentity, committed: bool) -> None:
        self.markers.append((producer, committed))

    def on_loaded(self, now: Moment) -> Decision[None]:
        self.loaded = True
        return Decision()

    def next_deadline(self) -> float | None:
        return min(self.deadlines, default=None)

    def tick(self, now: Moment) -> Decision[None]:
        self.ticks += 1
        self.deadlines.remove(min(self.deadlines))
        replies = tuple(Reply(token, "woken") for token in self.parked)
        self.parked.clear()
        return Decision((f"tick {self.ticks}",), replies)

    def keep(self, entries: tuple[str, ...], token: Token, now: Moment) -> Decision[str]:
        return Decision(entries, (Reply(token, f"kept {len(entries)}"),))

    def keep_for_producer(self, entries: tuple[str, ...], token: Token, now: Moment) -> Decision[str]:
        return Decision(entries, (Reply(token, f"kept {len(entries)}"),), PRODUCER)

    def park(self, ms: int | None, token: Token, now: Moment) -> Decision[str]:
        """Wait for the next deadline, which is so many milliseconds away if there is none yet."""
        self.parked.append(token)
        if ms is not None:
            self.deadlines.append(now.after_ms(ms))
        return Decision()

    def refuse(self, code: ErrorCode, token: Token, now: Moment) -> Decision[str]:
        raise RequestError(code)


class TextCodec:
    def encode(self, entry: str) -> tuple[bytes, bytes | None]:
        return entry.encode(), None

    def decode(self, key: bytes, value: bytes | None) -> str | None:
        return None if key.startswith(b"?") else key.decode()


def make_shards(
    on_committed: Callable[[Ledger], None] = lambda shard: None,
    write_timeout_s: float = 5.0,
    clock: SystemClock | None = None,
    waiting: Waiting | None = None,
) -> Shards[Ledger]:
    context = ShardContext(
        topic="ledger",
        codec=TextCodec(),
        make_shard=Ledger,
        clock=clock or SystemClock(),
        scope=Supervisor(SystemClock()),
        write_timeout_s=write_timeout_s,
        waiting=waiting or Waiting(),
        on_committed=lambda led: on_committed(led.shard),
    )
    return Shards(context, partition_of=int)


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(5):
            await story()

    asyncio.run(bounded())


async def serving(log: ListLog) -> tuple[Shards[Ledger], Ledger]:
    shards = make_shards()
    shards.lead(0, log)
    await shards.wait_loaded(0)
    return shards, shards.serving(0).shard


async def code_of(asking: Awaitable[Any]) -> ErrorCode:
    try:
        await asking
    except RequestError as error:
        return error.code
    return ErrorCode.NONE


def keep(shards: Shards[Ledger], *entries: str) -> Awaitable[str]:
    return shards.ask("0", Ledger.keep, entries)


def keep_for_producer(shards: Shards[Ledger], *entries: str) -> Awaitable[str]:
    return shards.ask("0", Ledger.keep_for_producer, entries)


def park(shards: Shards[Ledger], ms: int | None = None) -> Awaitable[str]:
    return shards.ask("0", Ledger.park, ms)


@pytest.mark.parametrize("by_marker", [False, True])
def test_a_shard_that_cannot_replay_what_was_written_is_loaded_again(monkeypatch: pytest.MonkeyPatch, by_marker: bool) -> None:
    def stumble(*of_anything: object) -> None:
        raise KeyError("a bug")

    async def story() -> None:
        log = ListLog()
        shards, before = await serving(log)
        parked = asyncio.ensure_future(code_of(park(shards)))
        await asyncio.sleep(0)
        with monkeypatch.context() as patched:
            patched.setattr(Ledger, "replay_marker" if by_marker else "replay", stumble)
            asking = shards.serving(0).end_transaction(END) if by_marker else keep(shards, "a", "b")
            assert await code_of(asking) is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert not shards.is_loaded(0)

        await until_async(lambda: shards.is_loaded(0))
        after = shards.serving(0).shard
        assert after is not before
        assert after.markers == ([(PRODUCER, True)] if by_marker else [])
        assert after.kept == ([] if by_marker else [("a", 0, None), ("b", 1, None)])
        assert await parked is ErrorCode.COORDINATOR_NOT_AVAILABLE

    run(story)


def test_what_is_decided_is_written_and_replayed_with_its_offsets() -> None:
    async def story() -> None:
        shards, shard = await serving(ListLog())

        assert await keep(shards, "a", "b") == "kept 2"
        assert await keep_for_producer(shards, "c") == "kept 1"

        assert shard.kept == [("a", 0, None), ("b", 1, None), ("c", 2, PRODUCER)]

    run(story)


def test_a_shard_is_its_log_replayed() -> None:
    async def story() -> None:
        log = ListLog()
        shards, shard = await serving(log)
        await keep(shards, "a", "?from a newer broker", "b")
        await keep_for_producer(shards, "c")
        await shards.serving(0).end_transaction(END)
        shards.resign(0)

        _, again = await serving(log)

        assert again.kept == [each for each in shard.kept if not each[0].startswith("?")]
        assert again.markers == shard.markers == [(PRODUCER, True)]
        assert again.loaded

    run(story)


def test_news_that_nobody_waits_for_is_flushed_with_what_comes_next_and_at_once_when_somebody_asks() -> None:
    async def story() -> None:
        log = ListLog(commits_at_once=False)
        shards, shard = await serving(log)
        shards.serving(0).take_news(Decision(("news",)))

        assert log.awaited == [False]
        assert shard.kept == [("news", 0, None)]
        assert not log.hurried

        reader = asyncio.ensure_future(keep(shards))
        await asyncio.sleep(0)
        assert log.hurried == 1
        log.commit()
        assert await reader == "kept 0"

    run(story)


def test_a_reply_waits_until_all_that_was_written_is_committed() -> None:
    async def story() -> None:
        log = ListLog(commits_at_once=False)
        shards, _ = await serving(log)
        first = asyncio.ensure_future(keep(shards, "a"))
        reader = asyncio.ensure_future(keep(shards))
        await stays_async(lambda: not first.done() and not reader.done(), 0.01)

        log.commit()

        assert await first == "kept 1"
        assert await reader == "kept 0"

    run(story)


def test_a_shard_that_is_being_loaded_asks_for_patience() -> None:
    async def story() -> None:
        log = ListLog()
        shards, _ = await serving(log)
        await keep(shards, "a")
        log.reading.clear()
        shards.lead(0, log)

        assert await code_of(keep(shards)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        log.reading.set()
        await shards.wait_loaded(0)

        assert await keep(shards) == "kept 0"

    run(story)


def test_whoever_waits_is_told_when_leadership_goes() -> None:
    async def story() -> None:
        log = ListLog(commits_at_once=False)
        shards, _ = await serving(log)
        writing = asyncio.ensure_future(keep(shards, "a"))
        parked = asyncio.ensure_future(park(shards))
        await asyncio.sleep(0)

        shards.resign(0)

        assert await code_of(writing) is ErrorCode.NOT_COORDINATOR
        assert await code_of(parked) is ErrorCode.NOT_COORDINATOR
        assert await code_of(keep(shards)) is ErrorCode.NOT_COORDINATOR

    run(story)


def test_whoever_waits_is_told_when_the_partition_fails_under_the_write() -> None:
    async def story() -> None:
        log = ListLog(commits_at_once=False)
        shards, _ = await serving(log)
        writing = asyncio.ensure_future(keep(shards, "a"))
        await asyncio.sleep(0)

        log.lose(RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER))

        assert await code_of(writing) is ErrorCode.NOT_COORDINATOR

    run(story)


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (RequestError(ErrorCode.NOT_ENOUGH_REPLICAS), ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER), ErrorCode.NOT_COORDINATOR),
        (RequestError(ErrorCode.MESSAGE_TOO_LARGE), ErrorCode.UNKNOWN_SERVER_ERROR),
        (RequestError(ErrorCode.INVALID_PRODUCER_EPOCH), ErrorCode.INVALID_PRODUCER_EPOCH),
        (StorageError("disk", "append"), ErrorCode.NOT_COORDINATOR),
    ],
)
def test_a_write_that_fails_changes_nothing_and_is_told_in_words_about_coordinators(failure: Exception, code: ErrorCode) -> None:
    async def story() -> None:
        log = ListLog()
        shards, shard = await serving(log)
        log.failure = failure

        assert await code_of(keep(shards, "a")) is code
        assert shard.kept == []
        log.failure = None
        assert await keep(shards, "b") == "kept 1"

    run(story)


def test_a_refusal_reaches_who_asked_and_leaves_nothing_behind() -> None:
    async def story() -> None:
        waiting = Waiting()
        shards = make_shards(waiting=waiting)
        shards.lead(0, ListLog())
        await shards.wait_loaded(0)
        asking = shards.ask("0", Ledger.refuse, ErrorCode.UNKNOWN_MEMBER_ID)

        assert await code_of(asking) is ErrorCode.UNKNOWN_MEMBER_ID
        assert len(waiting) == 0

    run(story)


def test_a_parked_request_is_answered_by_a_later_deadline_and_dropped_when_its_client_is_gone() -> None:
    async def story() -> None:
        shards, shard = await serving(ListLog())

        gone = asyncio.ensure_future(park(shards, 5))
        await asyncio.sleep(0)
        gone.cancel()
        assert await park(shards, 5) == "woken"
        await until_async(lambda: shard.ticks >= 2)

        assert [entry for entry, _, _ in shard.kept] == ["tick 1", "tick 2"]

    run(story)


def test_deadlines_of_a_shard_that_is_gone_do_not_fire() -> None:
    async def story() -> None:
        shards, shard = await serving(ListLog())
        shard.deadlines.append(shards.now().after_ms(1))
        shards.serving(0).take_news(Decision())
        shards.resign(0)

        await stays_async(lambda: shard.ticks == 0, 0.01)

    run(story)


def test_a_wall_clock_that_jumps_does_not_move_the_time_by_which_a_coordinator_goes() -> None:
    class JumpingClock(SystemClock):
        ahead_ms = 0

        def wall_ms(self) -> int:
            return super().wall_ms() + self.ahead_ms

    clock = JumpingClock()
    shards = make_shards(clock=clock)
    before = shards.now()
    clock.ahead_ms = 365 * 86_400_000
    after = shards.now()

    assert 0 <= after.wall_ms - before.wall_ms <= 60_000
    assert after.monotonic >= before.monotonic


def test_a_large_decision_is_one_write_of_several_batches() -> None:
    async def story() -> None:
        log = ListLog()
        shards, shard = await serving(log)
        entries = [f"{number} " + "x" * 1000 for number in range(1200)]

        await keep(shards, *entries)

        sizes = [header.size for header, _ in iterate_batches(log.data)]
        assert len(sizes) == 3
        assert max(sizes) <= BATCH_BYTES + 100
        assert [offset for _, offset, _ in shard.kept] == list(range(1200))

    run(story)


def test_news_of_commits_reaches_the_shell() -> None:
    async def story() -> None:
        committed: list[int] = []
        log = ListLog(commits_at_once=False)
        shards = make_shards(lambda shard: committed.append(len(shard.kept)))
        shards.lead(0, log)
        await shards.wait_loaded(0)
        assert committed == [0]
        writing = asyncio.ensure_future(keep(shards, "a"))
        await stays_async(lambda: committed == [0], 0.01)

        log.commit()
        await writing
        await asyncio.sleep(0)

        assert committed == [0, 1]

    run(story)


def test_a_log_that_cannot_be_read_leaves_its_shard_unserved_but_others_alone() -> None:
    async def story() -> None:
        broken = ListLog()
        broken.data, broken.end_offset = b"\0" * 100, 3
        shards, _ = await serving(ListLog())
        shards.lead(1, broken)

        async def is_unserved() -> bool:
            return await code_of(shards.ask("1", Ledger.keep, ())) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

        await stays_async(is_unserved, 0.01)
        assert await keep(shards) == "kept 0"

    run(story)


def test_a_reply_that_waits_too_long_for_the_replicas_is_refused_and_the_state_follows_the_log() -> None:
    async def story() -> None:
        committed: list[int] = []
        shards = make_shards(lambda shard: committed.append(len(shard.kept)), write_timeout_s=0.02)
        log = ListLog(commits_at_once=False)
        shards.lead(0, log)
        await shards.wait_loaded(0)
        committed.clear()

        assert await code_of(keep(shards, "a")) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await code_of(keep(shards, "b")) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        # Both are written and known; once the replicas have them, that is noticed, and the next one is answered.
        log.commits_at_once = True
        assert await keep(shards, "c") == "kept 1"
        while not committed:
            await asyncio.sleep(0)
        assert committed[-1] == 3

    run(story)


def test_what_only_looks_is_refused_too_when_what_it_saw_is_not_confirmed_in_time() -> None:
    async def story() -> None:
        shards = make_shards(write_timeout_s=0.02)
        log = ListLog(commits_at_once=False)
        shards.lead(0, log)
        await shards.wait_loaded(0)
        shards.serving(0).take_news(Decision(("a",)))

        assert await code_of(keep(shards)) is ErrorCode.COORDINATOR_NOT_AVAILABLE

    run(story)


def test_a_marker_that_the_replicas_do_not_confirm_is_answered_in_time() -> None:
    async def story() -> None:
        shards = make_shards(write_timeout_s=0.02)
        shards.lead(0, ListLog(commits_at_once=False))
        await shards.wait_loaded(0)
        ending = shards.serving(0).end_transaction(END)

        assert await code_of(ending) is ErrorCode.REQUEST_TIMED_OUT

    run(story)


def test_writes_that_cannot_be_confirmed_for_want_of_replicas_are_noticed_when_they_are_after_all() -> None:
    async def story() -> None:
        committed: list[int] = []
        shards = make_shards(lambda shard: committed.append(1))
        log = ListLog(commits_at_once=False)
        shards.lead(0, log)
        await shards.wait_loaded(0)
        committed.clear()
        asked = asyncio.ensure_future(code_of(keep(shards, "a")))
        await asyncio.sleep(0)
        log.lose(RequestError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))

        assert await asked is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert not committed
        log.failure = None
        log.commit()
        await until_async(lambda: committed)

    run(story)


def test_a_shard_that_fails_over_a_deadline_is_loaded_again() -> None:
    async def story() -> None:
        shards, shard = await serving(ListLog())
        await keep(shards, "a")
        failing = asyncio.ensure_future(code_of(park(shards)))
        await asyncio.sleep(0)
        shards.serving(0).fail(ValueError("oh"))

        assert await failing is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await shards.wait_loaded(0)
        assert shards.serving(0).shard is not shard
        assert shards.serving(0).shard.kept == shard.kept

    run(story)

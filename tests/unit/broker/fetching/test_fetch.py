"""One fetch under way, in a world that is made of stubs: whatever happens in whatever order, it ends answered or let go, once."""

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.fetching.answering import Answers
from headrace.broker.fetching.fetch import Fetch, Surroundings
from headrace.broker.fetching.interest import Interest
from headrace.broker.fetching.lookup import FoundTopic
from headrace.broker.fetching.reading import Reading, Readout
from headrace.broker.fetching.states import ENDED, State
from headrace.broker.network.dispatch import RequestContext
from headrace.broker.network.pending_reply import PendingReply
from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.waiting import Deadlines, Patience, Reader
from headrace.host.disk import Disk
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.fetch import FetchableTopicResponse, FetchPartition, FetchRequest, FetchTopic, PartitionData

MAX_BYTES, MIN_BYTES, MAX_WAIT_MS = 1000, 100, 500


class Timer:
    def __init__(self, seconds: float, waiting: Patience) -> None:
        self.seconds = seconds
        self.waiting: Patience | None = waiting


class World:
    """A connection, its loop, the memory, a partition and a disk: what they do is up to the test."""

    def __init__(self, *, max_wait_ms: int = MAX_WAIT_MS) -> None:
        self.is_open = True
        self.room = MAX_BYTES
        self.readable = 0
        self.is_urgent = False
        self.is_cold = False
        self.is_worth = True
        self.soon: list[Callable[[], None]] = []
        self.timers: list[Timer] = []
        self.line: list[Callable[[], None]] = []
        self.tasks: list[Coroutine[Any, Any, None]] = []
        self.readers: list[Reader] = []
        self.answers: list[Readout] = []
        self.let_go_count = 0
        # Whose memory, whose loop, whose partition.
        self.reply = cast(PendingReply, _Reply(self))
        self.fetch = Fetch(
            FetchRequest(max_wait_ms=max_wait_ms, min_bytes=MIN_BYTES, max_bytes=MAX_BYTES, topics=()),
            cast(Interest, _Interest(self)),
            cast(Reading, _Reading(self)),
            cast(RequestContext, None),
            self.reply,
            Surroundings(
                cast(asyncio.AbstractEventLoop, None),
                cast(Disk, None),
                lambda work, reply: self.tasks.append(work),
                cast(Answers, SimpleNamespace(send=self._on_answer)),
                MAX_BYTES,
                cast(Deadlines, _Deadlines(self)),
            ),
        )

    def _on_answer(self, readout: Readout, *_: Any, **__: Any) -> None:
        self.answers.append(readout)

    def become(self, **situation: Any) -> None:
        for name, value in situation.items():
            setattr(self, name, value)

    @property
    def left_behind(self) -> list[object]:
        """What could still wake it."""
        return [*self.live_timers, *self.readers, *self.line]

    @property
    def live_timers(self) -> list[Timer]:
        return [timer for timer in self.timers if timer.waiting is not None]

    # -- what can happen

    def turn(self) -> None:
        actions, self.soon = self.soon, []
        for action in actions:
            action()

    def wake(self) -> None:
        for reader in list(self.readers):
            reader.wake()

    def warm(self) -> None:
        if self.tasks:
            with pytest.raises(StopIteration):
                self.tasks.pop().send(None)

    def make_room(self) -> None:
        self.room = MAX_BYTES
        if self.line:
            self.line.pop()()

    def pass_time(self) -> None:
        for timer in self.live_timers:
            waiting, timer.waiting = timer.waiting, None
            assert waiting is not None
            waiting.on_time_over()

    def close(self) -> None:
        self.is_open = False

    def lose(self) -> None:
        """As the loop tells it, after it was closed."""
        self.is_open = False
        self.fetch.close()


class _Reply:
    def __init__(self, world: World) -> None:
        self._world = world
        self.figures = None
        self.share = SimpleNamespace(
            room_for_reply=lambda wanted: min(wanted, world.room),
            wait_to_reply=lambda wanted, on_room, first: world.line.append(on_room),
            stop_waiting_to_reply=world.line.clear,
        )

    @property
    def is_wanted(self) -> bool:
        return self._world.is_open

    def run(self, action: Callable[..., None], *arguments: Any) -> None:
        action(*arguments)

    def soon(self, action: Callable[[], None]) -> None:
        self._world.soon.append(action)

    def let_go(self) -> None:
        self._world.let_go_count += 1


class _Deadlines:
    def __init__(self, world: World) -> None:
        self._world = world

    def join(self, seconds: float, waiting: Patience) -> None:
        self._world.timers.append(Timer(seconds, waiting))

    def leave(self, seconds: float, waiting: Patience) -> None:
        for timer in self._world.live_timers:
            if (timer.seconds, timer.waiting) == (seconds, waiting):
                timer.waiting = None


class _Reading:
    is_replica = False

    def __init__(self, world: World) -> None:
        self._world = world
        self.served: list[tuple[Partition, int, int]] = []
        self.to_bring: list[tuple[Partition, FetchPartition]] = []

    def readable_to(self, partition: Partition) -> int:
        return self._world.readable

    def read(self, partition: Partition, wanted: FetchPartition, left: int, *, at_least_one: bool) -> PartitionData:
        if self._world.is_urgent:
            raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return PartitionData(partition_index=0, error_code=0, records=bytes(min(self._world.readable, left)))


class _Interest:
    session_id = 0
    is_empty = False

    def __init__(self, world: World) -> None:
        self._world = world

    def look(self) -> list[FoundTopic]:
        """One partition, of which each record is a byte."""
        world = self._world
        log = SimpleNamespace(
            start_offset=0, end_offset=world.readable, size_bytes=world.readable, ahead_of_read=lambda offset, size: None
        )
        partition = SimpleNamespace(log=log, written_lately=SimpleNamespace(is_warm=lambda offset: not world.is_cold))
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=MAX_BYTES)
        return [(FetchTopic(partitions=(wanted,)), [(wanted, cast(Partition, partition), ErrorCode.NONE)])]

    look_again = look

    def wait(self, found: list[FoundTopic], reader: Reader, missing: int) -> bool:
        if reader not in self._world.readers:
            self._world.readers.append(reader)
        return False

    def is_worth_reading(self) -> bool:
        return self._world.is_worth

    def leave(self) -> None:
        self._world.readers.clear()

    def news(self, topics: list[FetchableTopicResponse]) -> list[FetchableTopicResponse]:
        return topics


def begun(*, max_wait_ms: int = MAX_WAIT_MS, **situation: Any) -> World:
    world = World(max_wait_ms=max_wait_ms)
    world.become(**situation)
    world.fetch.begin()
    return world


def test_what_is_there_is_answered_at_once_without_a_timer_or_a_reader() -> None:
    world = begun(readable=500)

    assert [readout.size for readout in world.answers] == [500]
    assert [*world.timers, *world.soon, *world.tasks, *world.readers] == []


def test_one_that_finds_too_little_is_answered_once_there_is_enough() -> None:
    world = begun(readable=10)
    assert not world.answers
    world.readable = 200
    world.wake()
    world.wake()
    assert len(world.soon) == 1
    world.turn()

    assert [readout.size for readout in world.answers] == [200]
    assert world.left_behind == []


def test_one_that_is_woken_for_too_little_is_not_read_for() -> None:
    world = begun(readable=10)
    world.readable, world.is_worth = 200, False
    world.wake()
    world.turn()
    assert (world.answers, world.fetch.state) == ([], State.WAITING_FOR_RECORDS)
    world.is_worth = True
    world.wake()
    world.turn()

    assert len(world.answers) == 1


def test_what_is_urgent_does_not_wait_for_records() -> None:
    world = begun(is_urgent=True)

    assert len(world.answers) == 1


def test_whoever_does_not_want_to_wait_is_answered_with_what_there_is() -> None:
    world = begun(readable=10, max_wait_ms=0)

    assert [readout.size for readout in world.answers] == [10]


def test_whoever_does_not_want_to_wait_has_one_turn_to_be_given_room() -> None:
    world = begun(readable=500, room=0, max_wait_ms=0)
    assert [timer.seconds for timer in world.live_timers] == [0.0]
    world.make_room()

    assert [readout.size for readout in world.answers] == [500]


def test_one_that_was_given_no_room_in_time_is_answered_without_records() -> None:
    world = begun(readable=500, room=0)
    assert not world.answers
    world.pass_time()

    assert [readout.size for readout in world.answers] == [0]
    assert not world.line


def test_one_whose_time_is_over_while_it_warms_up_is_answered_when_it_is_warm() -> None:
    world = begun(readable=10)
    world.is_cold = True
    world.wake()
    world.turn()
    world.pass_time()
    assert (world.answers, world.fetch.state) == ([], State.LAST_WARMING)
    world.warm()

    assert [readout.size for readout in world.answers] == [10]


def test_one_whose_connection_is_closed_reads_no_more() -> None:
    world = begun(readable=10)
    world.readable = 500
    world.wake()
    world.close()
    world.turn()

    assert (world.answers, world.let_go_count, world.fetch.state) == ([], 1, State.GONE)
    assert world.left_behind == []
    world.lose()
    assert world.let_go_count == 1


HAPPENINGS = ["turn", "wake", "warm", "make_room", "pass_time", "close", "lose"]
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "readable": st.sampled_from([0, 10, 200]),
        "room": st.sampled_from([0, MAX_BYTES]),
        "is_cold": st.booleans(),
        "is_worth": st.booleans(),
        "is_urgent": st.booleans(),
    },
)


@pytest.mark.slow
@given(
    st.sampled_from([0, MAX_WAIT_MS]),
    CHANGES,
    st.lists(st.tuples(CHANGES, st.sampled_from(HAPPENINGS)), max_size=15),
)
def test_whatever_happens_it_ends_once_and_leaves_nothing_behind(
    max_wait_ms: int, first: dict[str, Any], happenings: list[tuple[dict[str, Any], str]]
) -> None:
    world = begun(max_wait_ms=max_wait_ms, **first)
    for changes, happening in happenings:
        world.become(**changes)
        getattr(world, happening)()
        assert len(world.live_timers) <= 1
        assert len(world.tasks) <= 1
    # Nobody writes, no memory is given back: time passes, and the disk answers.
    for _ in range(3):
        world.pass_time()
        world.warm()

    assert world.fetch.state in ENDED
    assert len(world.answers) + world.let_go_count == 1
    assert world.left_behind == []

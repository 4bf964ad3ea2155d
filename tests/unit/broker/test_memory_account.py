"""The memory that connections share: nobody takes all, nobody is left out, and half-received requests never block each other."""

import random
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.broker.network.memory_account import ENOUGH_BYTES, MemoryAccount, Share

MIB = 1024 * 1024
LIMIT = 96 * MIB
FOR_LARGE = 90 * MIB  # the rest is kept for the small


class Loop:
    """Runs what is to be called soon when the test says so."""

    def __init__(self) -> None:
        self._soon: deque[Callable[[], None]] = deque()

    def call_soon(self, action: Callable[[], None]) -> None:
        self._soon.append(action)

    def run(self) -> None:
        while self._soon:
            self._soon.popleft()()


def account(limit: int = LIMIT, requests_limit: int | None = None) -> tuple[MemoryAccount, Loop]:
    loop = Loop()
    return MemoryAccount(limit, loop.call_soon, requests_limit=requests_limit), loop


def never() -> None:
    raise AssertionError("nobody waits here")


def test_one_reader_alone_gets_half_and_every_further_one_half_of_the_rest() -> None:
    memory, _ = account()
    given = []
    for _ in range(5):
        share = memory.open()
        given.append(share.room_for_reply(LIMIT))
        share.settle(0, given[-1])

    assert given[0] == FOR_LARGE // 2
    assert given[1] == FOR_LARGE // 4
    assert all(room >= ENOUGH_BYTES for room in given)


def test_whoever_holds_a_reply_gets_less_than_whoever_holds_none() -> None:
    memory, _ = account()
    greedy, modest = memory.open(), memory.open()
    greedy.settle(0, 40 * MIB)

    assert greedy.room_for_reply(LIMIT) == 5 * MIB
    assert modest.room_for_reply(LIMIT) == 25 * MIB


def test_a_reply_that_cannot_have_enough_waits_until_memory_is_given_back() -> None:
    memory, loop = account()
    holder, reader = memory.open(), memory.open()
    holder.settle(0, LIMIT - MIB)
    told: list[int] = []

    assert reader.room_for_reply(40 * MIB) == 0
    reader.wait_to_reply(40 * MIB, lambda: told.append(reader.room_for_reply(40 * MIB)))
    assert memory.is_short
    holder.settle(0, 0)
    loop.run()

    assert told == [40 * MIB]
    assert not memory.is_short


def test_a_small_reply_does_not_wait_behind_large_ones() -> None:
    memory, _ = account()
    holder, large, small = memory.open(), memory.open(), memory.open()
    holder.settle(0, LIMIT - MIB)
    large.wait_to_reply(50 * MIB, never)

    assert small.room_for_reply(10_000) == 10_000
    assert small.room_for_reply(50 * MIB) == 0


def test_all_who_wait_share_what_is_given_back() -> None:
    memory, loop = account()
    holder = memory.open()
    holder.settle(0, LIMIT)
    rooms: list[int] = []

    def reads(share: Share) -> Callable[[], None]:
        def on_room() -> None:
            rooms.append(share.room_for_reply(LIMIT))
            share.settle(0, rooms[-1])

        return on_room

    for _ in range(20):
        share = memory.open()
        share.wait_to_reply(LIMIT, reads(share))
    holder.settle(0, 0)
    loop.run()

    assert len(rooms) == 20
    assert min(rooms) >= 2 * MIB
    assert memory.held <= LIMIT


def test_readers_that_take_nothing_do_not_starve_one_that_takes_its_replies() -> None:
    memory, loop = account()
    holder, honest = memory.open(), memory.open()
    honest.settle(0, MIB)
    honest.settle(0, 0)
    holder.settle(0, FOR_LARGE)
    idle = [memory.open() for _ in range(10)]
    for share in idle:
        share.wait_to_reply(50 * MIB, lambda share=share: share.settle(0, share.room_for_reply(50 * MIB)))  # type: ignore[misc]
    loop.run()
    assert [share.held for share in idle] == [ENOUGH_BYTES] + [0] * 9
    rooms: list[int] = []

    def take() -> None:
        rooms.append(honest.room_for_reply(50 * MIB))
        honest.settle(0, rooms[-1])

    for _ in range(20):
        honest.wait_to_reply(50 * MIB, take)
        loop.run()
        honest.settle(0, 0)

    assert rooms == [ENOUGH_BYTES] * 20
    for _ in range(20):
        memory.pass_reply_turns_on()
        loop.run()
    assert sum(share.held for share in idle) < 6 * MIB
    honest.wait_to_reply(50 * MIB, take)
    loop.run()

    assert rooms == [ENOUGH_BYTES] * 21
    honest.settle(0, 40 * MIB)  # its one batch was as large as that
    assert not memory.is_flooded
    honest.settle(0, 0)
    assert memory.made_by_turn == sum(share.held for share in idle)
    assert memory.replies <= LIMIT


def test_a_follower_waits_before_all_others() -> None:
    memory, loop = account()
    holder, reader, follower = memory.open(), memory.open(), memory.open()
    holder.settle(0, LIMIT)
    order: list[str] = []
    reader.wait_to_reply(MIB, lambda: order.append("reader"))
    follower.wait_to_reply(MIB, lambda: order.append("follower"), first=True)
    holder.settle(0, 0)
    loop.run()

    assert order == ["follower", "reader"]


@pytest.mark.parametrize(("greedy_count", "needs_turn"), [(3, False), (20, False), (500, True)])
def test_who_holds_half_a_request_and_sends_no_more_does_not_lock_out_an_honest_one(greedy_count: int, needs_turn: bool) -> None:
    memory, _ = account()
    for _ in range(greedy_count):
        greedy = memory.open()
        wanted = 16_384
        while greedy.may_receive(wanted, lambda: None) and not greedy.has_turn:
            greedy.settle(wanted, 0)
            wanted *= 2
        greedy.stop_receiving()
    honest = memory.open()

    assert honest.may_receive(150_000, never)
    assert honest.has_turn == needs_turn


def test_the_turn_lets_one_request_at_a_time_go_beyond_the_bound() -> None:
    memory, loop = account()
    holder, first, second = memory.open(), memory.open(), memory.open()
    holder.settle(LIMIT, 0)
    told: list[str] = []

    assert first.may_receive(80 * MIB, never)
    first.settle(80 * MIB, 0)
    assert not second.may_receive(MIB, lambda: told.append("second"))
    first.stop_receiving()
    loop.run()

    assert told == ["second"]
    assert second.has_turn


def test_small_requests_have_their_part_whatever_the_one_with_the_turn_holds() -> None:
    memory, _ = account()
    holder, large, waiting = memory.open(), memory.open(), memory.open()
    holder.settle(60 * MIB, 0)
    assert large.may_receive(80 * MIB, never)
    large.settle(80 * MIB, 0)
    assert not waiting.may_receive(MIB, lambda: None)
    admitted = 0
    while (small := memory.open()).may_receive(150_000, lambda: None):
        small.settle(150_000, 0)
        assert small.room_for_reply(100) in (0, 100)
        admitted += 1

    assert admitted == 6 * MIB // 150_000
    assert memory.held <= LIMIT + large.held


def test_a_small_request_does_not_wait_behind_large_ones() -> None:
    memory, loop = account()
    holder, large, waiting = memory.open(), memory.open(), memory.open()
    others = [memory.open() for _ in range(24)]
    for other in others:
        other.settle(256 * 1024, 0)
    holder.settle(70 * MIB, 0)
    assert large.may_receive(80 * MIB, never)
    large.settle(80 * MIB, 0)
    told: list[str] = []
    assert not waiting.may_receive(50 * MIB, lambda: told.append("large"))
    assert not memory.open().may_receive(150_000, lambda: told.append("small"))
    others[0].close()
    loop.run()

    assert told == ["small"]


def test_requests_leave_room_for_replies() -> None:
    memory, _ = account()
    for _ in range(1000):
        share = memory.open()
        wanted = 16_384
        while memory.may_receive(share, wanted - share.requests):
            share.settle(wanted, 0)
            wanted *= 2

    assert memory.requests <= LIMIT * 3 // 4 + LIMIT // 16
    assert memory.open().room_for_reply(LIMIT) >= 5 * MIB


def test_replies_that_nobody_could_foresee_hold_up_new_requests_until_they_have_left() -> None:
    memory, loop = account()
    flooding, waiting = memory.open(), memory.open()
    flooding.settle(0, LIMIT + 1)
    started: list[bool] = []
    assert memory.is_flooded
    waiting.wait_to_start(lambda: started.append(True))
    flooding.settle(0, LIMIT)
    loop.run()

    assert started == [True]


def test_a_connection_that_goes_leaves_every_line_and_gives_everything_back() -> None:
    memory, loop = account()
    holder, gone, next_one = memory.open(), memory.open(), memory.open()
    holder.settle(LIMIT // 2, LIMIT // 2)
    gone.wait_to_reply(MIB, never)
    gone.wait_to_start(never)
    assert gone.may_receive(MIB, never)
    told: list[bool] = []
    assert not next_one.may_receive(MIB, lambda: told.append(True))
    gone.close()
    loop.run()
    assert told == [True]
    holder.close()
    next_one.close()
    loop.run()

    assert (memory.held, memory.is_short) == (0, False)


def test_a_request_under_way_keeps_its_bytes_when_its_connection_goes() -> None:
    memory, _ = account()
    share = memory.open()
    share.settle(5 * MIB, 10 * MIB)
    share.close(requests=3 * MIB)

    assert memory.held == 3 * MIB


class Sender:
    """Receives a request as a connection does: its buffer doubles as bytes come, and each time the account is asked."""

    def __init__(self, memory: MemoryAccount, size: int) -> None:
        self.share = memory.open()
        self.size = size
        self.held = 0
        self.is_waiting = False
        self.is_done = False

    def step(self) -> None:
        if self.is_waiting or self.is_done:
            return
        if self.held == self.size:
            self.share.stop_receiving()
            self.share.settle(0, 0)
            self.is_done = True
            return
        wanted = min(self.size, max(2 * self.held, 16))
        if self.share.may_receive(wanted, self.on_room):
            self.held = wanted
            self.share.settle(wanted, 0)
        else:
            self.is_waiting = True

    def on_room(self) -> None:
        self.is_waiting = False
        self.step()


class Reader:
    """Asks for a reply, waits for room where it must, and takes the reply some time later."""

    def __init__(self, memory: MemoryAccount, size: int) -> None:
        self.share = memory.open()
        self.size = size
        self.is_waiting = False
        self.is_done = False

    def step(self) -> None:
        if self.is_waiting or self.is_done:
            return
        if self.share.replies:
            self.share.settle(0, 0)
            self.is_done = True
        elif room := self.share.room_for_reply(self.size):
            assert room <= self.size
            self.share.settle(0, room)
        else:
            self.is_waiting = True
            self.share.wait_to_reply(self.size, self.on_room)

    def on_room(self) -> None:
        self.is_waiting = False
        self.step()
        assert self.share.replies, "who was told of room has it"


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    requests=st.lists(st.integers(1, 1500), max_size=30),
    replies=st.lists(st.integers(1, 1500), max_size=30),
    seed=st.integers(0, 2**32),
)
def test_whatever_is_sent_and_asked_for_stays_within_the_bound_and_comes_to_an_end(
    requests: list[int], replies: list[int], seed: int
) -> None:
    limit, chance = 1000, random.Random(seed)
    memory, loop = account(limit)
    everyone: list[Any] = [*(Sender(memory, size) for size in requests), *(Reader(memory, size) for size in replies)]
    steps = 0
    while under_way := [each for each in everyone if not each.is_done]:
        chance.choice(under_way).step()
        if chance.random() < 0.5:
            loop.run()
        steps += 1

        assert memory.held == sum(each.share.held for each in everyone)
        beyond = sum(each.share.held for each in everyone if each.share.has_turn or each.share.has_reply_turn)
        assert memory.held <= limit + beyond
        assert memory.replies <= limit + sum(each.share.replies for each in everyone if each.share.has_reply_turn)
        if all(each.is_waiting for each in under_way):
            loop.run()
            assert not all(each.is_waiting for each in under_way), "everybody waits, and nobody can go on"
        assert steps < 20_000

    assert (memory.held, memory.is_short) == (0, False)

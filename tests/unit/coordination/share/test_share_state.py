"""What a share coordinator keeps, in its memory and in its log."""

import itertools
from time import process_time
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.broker.coordinators.share_state.entries import ShareEntryCodec
from headrace.coordination.decision import Decision
from headrace.coordination.moment import Moment
from headrace.coordination.share.delivery import RecordState, StateBatch, laid_over
from headrace.coordination.share.entries import ShareKey, ShareState, SnapshotEntry, UpdateEntry
from headrace.coordination.share.state_shard import (
    ENTRIES_BEHIND_MAX,
    InitializeState,
    ReadState,
    ShareStateShard,
    WriteState,
)
from headrace.model.errors import ErrorCode, RequestError

KEY = ShareKey("workers", UUID(int=7), 0)
OTHER = KEY._replace(partition=1)
NOW = Moment(1_000, 1.0)
ACKNOWLEDGED, AVAILABLE, ARCHIVED = RecordState.ACKNOWLEDGED, RecordState.AVAILABLE, RecordState.ARCHIVED


class Desk:
    """A shard and its log: what is decided is written as bytes and replayed, as the shell does."""

    def __init__(self, updates_per_snapshot: int = 500) -> None:
        self.updates_per_snapshot = updates_per_snapshot
        self.shard = ShareStateShard(updates_per_snapshot)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.log_start = 0

    def take(self, decision: Decision[Any]) -> Any:
        codec = ShareEntryCodec()
        for entry in decision.entries:
            self.log.append(codec.encode(entry))
            self.shard.replay(entry, len(self.log) - 1)
        return decision.replies[0].message

    def begin(self, key: ShareKey = KEY, start: int = 0, state_epoch: int = 0) -> None:
        request = InitializeState(key=key, state_epoch=state_epoch, start_offset=start)
        self.take(self.shard.initialize(request, "token", NOW))

    def read(self, leader_epoch: int = 0, key: ShareKey = KEY) -> ShareState:
        state: ShareState = self.take(self.shard.read(ReadState(key=key, leader_epoch=leader_epoch), "token", NOW))
        return state

    def write(self, *batches: StateBatch, key: ShareKey = KEY, start: int = -1, leader: int = 0, epoch: int = 0) -> None:
        request = WriteState(key=key, state_epoch=epoch, leader_epoch=leader, start_offset=start, done=0, batches=batches)
        self.take(self.shard.write(request, "token", NOW))

    def prune(self) -> None:
        self.log_start = self.shard.needed_from()

    def reloaded(self) -> ShareStateShard:
        shard, codec = ShareStateShard(self.updates_per_snapshot), ShareEntryCodec()
        for offset, (key, value) in enumerate(self.log):
            if offset >= self.log_start:
                entry = codec.decode(key, value)
                assert entry is not None
                shard.replay(entry, offset)
        return shard

    def kinds(self) -> list[str]:
        codec = ShareEntryCodec()
        return ["snapshot" if isinstance(codec.decode(*each), SnapshotEntry) else "update" for each in self.log]


def refusal(call: Any, *args: Any, **kwargs: Any) -> ErrorCode:
    with pytest.raises(RequestError) as raised:
        call(*args, **kwargs)
    code: ErrorCode = raised.value.code
    return code


def test_what_was_written_is_read_by_the_next_leader() -> None:
    desk = Desk()
    desk.begin(start=5)
    desk.write(StateBatch(5, 9, ACKNOWLEDGED, 1), StateBatch(9, 10, AVAILABLE, 2))

    state = desk.read(leader_epoch=1)

    assert (state.start_offset, state.batches) == (5, (StateBatch(5, 9, ACKNOWLEDGED, 1), StateBatch(9, 10, AVAILABLE, 2)))
    assert desk.reloaded().summary(KEY) == desk.shard.summary(KEY)


def test_a_state_that_has_not_begun_is_neither_read_nor_written() -> None:
    desk = Desk()

    assert refusal(desk.read) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refusal(desk.write) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_leader_that_was_followed_by_another_is_not_heard() -> None:
    desk = Desk()
    desk.begin()
    desk.read(leader_epoch=3)

    assert refusal(desk.write, leader=2) is ErrorCode.FENCED_LEADER_EPOCH
    assert refusal(desk.read, leader_epoch=2) is ErrorCode.FENCED_LEADER_EPOCH
    assert desk.reloaded().summary(KEY) == desk.shard.summary(KEY)


def test_offsets_that_were_moved_fence_whoever_works_on_the_old_ones() -> None:
    desk = Desk()
    desk.begin(start=0, state_epoch=1)
    desk.write(StateBatch(0, 50, ACKNOWLEDGED, 1), start=50, epoch=1)

    desk.begin(start=10, state_epoch=2)

    assert refusal(desk.write, epoch=1) is ErrorCode.FENCED_STATE_EPOCH
    assert refusal(desk.begin, state_epoch=1) is ErrorCode.FENCED_STATE_EPOCH
    assert (desk.read().start_offset, desk.read().batches) == (10, ())


def test_after_so_many_updates_comes_a_snapshot() -> None:
    desk = Desk(updates_per_snapshot=2)
    desk.begin()
    for offset in range(6):
        desk.write(StateBatch(offset, offset + 1, ACKNOWLEDGED, 1))

    assert desk.kinds() == ["snapshot", "update", "update", "snapshot", "update", "update", "snapshot"]
    assert desk.shard.needed_from() == 6
    desk.prune()
    assert desk.reloaded().summary(KEY) == desk.shard.summary(KEY)


def test_nothing_is_pruned_that_the_slowest_group_still_needs() -> None:
    desk = Desk(updates_per_snapshot=1)
    desk.begin(OTHER, start=3)
    desk.begin(KEY)
    for offset in range(10):
        desk.write(StateBatch(offset, offset + 1, ACKNOWLEDGED, 1))

    assert desk.shard.needed_from() == 0
    desk.prune()
    assert desk.reloaded().summary(OTHER) == desk.shard.summary(OTHER)


def test_a_group_that_rests_does_not_keep_the_log_for_ever() -> None:
    desk = Desk()
    desk.begin(OTHER, start=3)
    desk.begin(KEY)
    for offset in range(ENTRIES_BEHIND_MAX + 10):
        desk.write(StateBatch(offset, offset + 1, ACKNOWLEDGED, 1), start=offset)

    assert desk.shard.needed_from() > ENTRIES_BEHIND_MAX - 1000
    before = desk.shard.summary(OTHER)
    desk.prune()
    assert before is not None
    assert desk.reloaded().summary(OTHER) == before
    assert before.start_offset == 3


def test_a_deleted_state_is_gone_and_late_word_of_it_does_not_bring_it_back() -> None:
    desk = Desk()
    desk.begin()
    desk.take(desk.shard.delete(KEY, "token", NOW))

    assert refusal(desk.write) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert desk.reloaded().summary(KEY) is None
    assert desk.shard.needed_from() == len(desk.log)


def test_states_of_a_deleted_topic_go_with_it() -> None:
    desk = Desk()
    desk.begin()

    (gone,) = desk.shard.forget_topics(lambda topic_id: topic_id == KEY.topic_id).entries

    assert gone == SnapshotEntry(KEY, None)


BATCHES = st.lists(
    st.builds(
        lambda first, size, state, count: StateBatch(first, first + size, state, count),
        st.integers(0, 30),
        st.integers(1, 6),
        st.sampled_from([AVAILABLE, ACKNOWLEDGED, ARCHIVED]),
        st.integers(0, 2),
    ),
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(BATCHES, BATCHES, st.integers(0, 20))
def test_newer_word_counts_record_by_record(older: list[StateBatch], newer: list[StateBatch], start: int) -> None:
    by_record: dict[int, tuple[RecordState, int]] = {}
    for batch in [*older, *newer]:
        for offset in range(batch.first, batch.end):
            # What is done stays done.
            if batch.state is not AVAILABLE or by_record.get(offset, (AVAILABLE, 0))[0] is AVAILABLE:
                by_record[offset] = (batch.state, batch.delivery_count)

    laid = laid_over(laid_over((), older, 0), newer, start)

    seen = {offset: (batch.state, batch.delivery_count) for batch in laid for offset in range(batch.first, batch.end)}
    assert seen == {offset: word for offset, word in by_record.items() if offset >= start}
    assert all(one.end <= two.first and (one.end < two.first or one[2:] != two[2:]) for one, two in itertools.pairwise(laid))


def test_a_word_for_each_of_thousands_of_records_is_laid_over_others_within_a_moment() -> None:
    accepted = tuple(StateBatch(offset, offset + 1, ACKNOWLEDGED, 1) for offset in range(0, 8_000, 2))
    released = tuple(StateBatch(offset, offset + 1, AVAILABLE, 1) for offset in range(1, 8_000, 2))
    begun = process_time()

    laid = laid_over(accepted, released, 0)

    assert laid == tuple(sorted(accepted + released))
    assert process_time() - begun < 1.0  # each with each would be ten times as long


def test_an_update_without_its_snapshot_says_nothing() -> None:
    desk = Desk()
    desk.begin()
    desk.write(StateBatch(0, 1, ACKNOWLEDGED, 1))
    update = ShareEntryCodec().decode(*desk.log[-1])
    assert isinstance(update, UpdateEntry)

    shard = ShareStateShard(500)
    shard.replay(update, 0)

    assert shard.summary(KEY) is None


def test_word_that_comes_late_undoes_nothing_that_is_done() -> None:
    desk = Desk()
    desk.begin()
    desk.write(StateBatch(0, 4, ACKNOWLEDGED, 2), StateBatch(6, 8, ARCHIVED, 5))

    desk.write(StateBatch(2, 7, AVAILABLE, 1))

    assert desk.read().batches == (
        StateBatch(0, 4, ACKNOWLEDGED, 2),
        StateBatch(4, 6, AVAILABLE, 1),
        StateBatch(6, 8, ARCHIVED, 5),
    )

"""What may be committed: never past a record that is not finished."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.client.consumer.offsets import Offsets
from headrace.client.push.committable import Committable
from headrace.model.identity import TopicPartition

ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 0)


def test_nothing_is_committable_before_something_has_finished() -> None:
    progress = Committable()
    progress.start(7)

    assert progress.next_offset is None
    assert progress.first_unfinished == 7


def test_a_later_record_that_finishes_first_waits_for_the_earlier() -> None:
    progress = Committable()
    for offset in (10, 11, 15):
        progress.start(offset)

    assert not progress.finish(15)
    assert not progress.finish(11)
    assert progress.finish(10)
    assert progress.next_offset == 16
    assert len(progress) == 0


@given(st.lists(st.integers(0, 1000), unique=True, min_size=1, max_size=60), st.data())
def test_the_committable_offset_is_always_the_first_unfinished(offsets: list[int], data: st.DataObject) -> None:
    started = sorted(offsets)
    progress = Committable()
    for offset in started:
        progress.start(offset)
    unfinished = list(started)
    for offset in data.draw(st.permutations(started)):
        progress.finish(offset)
        unfinished.remove(offset)
        done = [each for each in started if not unfinished or each < unfinished[0]]

        assert progress.next_offset == (done[-1] + 1 if done else None)
        assert progress.first_unfinished == (unfinished[0] if unfinished else None)


def test_what_is_handed_out_is_committed_only_when_more_is_asked_for() -> None:
    offsets = Offsets()
    offsets.hand_out({ORDERS: 5})

    assert offsets.to_commit() == {}
    offsets.finish_handed_out()
    assert offsets.to_commit() == {ORDERS: 5}


def test_what_was_committed_is_not_committed_again() -> None:
    offsets = Offsets()
    offsets.finish({ORDERS: 5, BILLS: 2})
    offsets.committed({ORDERS: 5})

    assert offsets.to_commit() == {BILLS: 2}
    assert offsets.to_commit([ORDERS]) == {}


def test_a_partition_taken_away_leaves_nothing_to_commit_even_when_its_record_ends_late() -> None:
    offsets = Offsets()
    offsets.hand_out({ORDERS: 5, BILLS: 2})
    offsets.forget([ORDERS])
    offsets.finish_handed_out()
    offsets.committed({ORDERS: 4})

    assert offsets.to_commit() == {BILLS: 2}
    assert offsets.positions() == {BILLS: 2}


def test_a_seek_is_what_is_committed_next() -> None:
    offsets = Offsets()
    offsets.hand_out({ORDERS: 50})
    offsets.move(ORDERS, 3)
    offsets.finish_handed_out()

    assert offsets.to_commit() == {ORDERS: 3}
    assert offsets.positions() == {ORDERS: 3}

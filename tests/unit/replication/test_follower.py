"""Where two logs part, found by leader epochs alone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log.epochs import EpochCache, EpochStart
from headrace.model.errors import ErrorCode, RequestError
from headrace.replication.follower import (
    EpochEnd,
    FetchAnswer,
    Next,
    Step,
    after_out_of_range,
    divergence,
    next_step,
    truncation_point,
    watermark_after,
)

EPOCHS = EpochCache(lambda: 20, [EpochStart(1, 0), EpochStart(3, 10), EpochStart(4, 12)])


def epochs_of(log: list[int]) -> EpochCache:
    epochs = EpochCache(lambda: len(log))
    for offset, epoch in enumerate(log):
        epochs.assign(epoch, offset)
    return epochs


def test_a_reader_that_knows_of_a_newer_epoch_has_come_to_the_wrong_one() -> None:
    with pytest.raises(RequestError) as refused:
        divergence(EPOCHS, 20, 5)

    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert divergence(EPOCHS, 20, 4) is None
    assert divergence(EPOCHS, 21, 4) == EpochEnd(4, 20)
    assert divergence(EPOCHS, 0, -1) is None


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Two logs, as lists of epochs, that share a prefix and then never share an epoch: an epoch has one leader."""
    shared = sorted(draw(st.lists(st.integers(0, 6), max_size=12)))
    last = shared[-1] if shared else 0
    own = sorted(draw(st.lists(st.sampled_from([last + 1, last + 3, last + 5]), max_size=8)))
    other = sorted(draw(st.lists(st.sampled_from([last + 2, last + 4, last + 6]), max_size=8)))
    # One of the two may go on in the shared epoch: only its leader did.
    if draw(st.booleans()):
        own = [last] * draw(st.integers(0, 3)) + own
    return shared + own, shared + other


@pytest.mark.slow
@settings(max_examples=500)
@given(histories())
def test_a_follower_gives_up_what_its_leader_lacks_and_nothing_else(logs: tuple[list[int], list[int]]) -> None:
    follower, leader = logs
    leader_epochs = epochs_of(leader)
    leader_epochs.assign(100, len(leader))
    common = 0
    while common < min(len(follower), len(leader)) and follower[common] == leader[common]:
        common += 1
    for _ in range(30):
        parted = divergence(leader_epochs, len(follower), follower[-1] if follower else -1)
        if parted is None:
            break
        cut = truncation_point(epochs_of(follower), len(follower), parted)
        assert cut < len(follower), "every answer leads on"
        assert cut >= common, "nothing shared is given up"
        follower = follower[:cut]

    assert follower == leader[: len(follower)]
    assert len(follower) >= common


@pytest.mark.parametrize(
    ("error", "then"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, Next.WAIT_FOR_METADATA),
        (ErrorCode.FENCED_LEADER_EPOCH, Next.WAIT_FOR_METADATA),
        (ErrorCode.UNKNOWN_TOPIC_ID, Next.WAIT_FOR_METADATA),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, Next.BACK_OFF),
        (ErrorCode.KAFKA_STORAGE_ERROR, Next.BACK_OFF),
        (ErrorCode.UNKNOWN_SERVER_ERROR, Next.BACK_OFF),
        (ErrorCode.OFFSET_OUT_OF_RANGE, Next.START_OVER),
        (ErrorCode.NONE, Next.APPEND),
    ],
)
def test_every_answer_has_its_next_step(error: ErrorCode, then: Next) -> None:
    assert next_step(FetchAnswer(error=error), EPOCHS, 0, 20).next is then


def test_a_cut_never_goes_below_the_start_of_the_log() -> None:
    answer = FetchAnswer(diverging=EpochEnd(1, 5))

    assert next_step(answer, EPOCHS, 8, 20) == Step(Next.TRUNCATE, 8)


def test_out_of_range_is_either_too_much_or_too_late() -> None:
    assert after_out_of_range(20, 0, 15) == Step(Next.TRUNCATE, 15)
    assert after_out_of_range(20, 50, 90) == Step(Next.START_OVER, 50)


def test_a_follower_knows_the_watermark_as_far_as_it_has_got() -> None:
    assert watermark_after(10, 7, 3) == 7
    assert watermark_after(5, 7, 3) == 5
    assert watermark_after(2, 7, 3) == 3

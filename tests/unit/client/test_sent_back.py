"""What a redrive notes beside its offset: nothing is sent twice, nothing that stayed is forgotten."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.client.deadletter.sent_back import SentBack


@given(st.integers(0, 30), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 8))))
def test_a_note_says_exactly_which_offsets_were_settled(first: int, runs: list[tuple[int, int]]) -> None:
    progress = SentBack(first)
    settled = set(range(first))
    for start, length in runs:
        progress.settle(start, start + length)
        settled |= set(range(start, start + length))

    again = SentBack.of(progress.first, progress.note, 0)

    for each in (progress, again):
        assert {offset for offset in range(100) if each.is_settled(offset)} == settled
        assert each.waiting(100) == 100 - len(settled)
        assert not each.is_settled(each.first)


def test_what_retention_took_does_not_wait() -> None:
    progress = SentBack.of(2, "sent:3+2", 6)

    assert (progress.first, progress.note) == (7, "")


def test_a_note_of_somebody_else_says_nothing() -> None:
    assert SentBack.of(5, "sent:later", 0).waiting(10) == 5


def test_a_note_never_outgrows_what_a_broker_keeps() -> None:
    progress = SentBack(0)
    offset = 1
    while progress.has_room:
        progress.settle(offset, offset + 1)
        offset += 1_000_003

    progress.settle(2**62, 2**63 - 1)
    assert len(progress.note) <= 4096
    assert len(progress.runs) > 300

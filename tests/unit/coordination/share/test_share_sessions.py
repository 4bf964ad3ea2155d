"""Share sessions: which partitions a member fetches, and which request is expected of it next."""

from uuid import UUID

import pytest

from headrace.coordination.share.sessions import EPOCH_MAX, ShareSessions
from headrace.model.errors import ErrorCode, RequestError

ANN, BOB = ("workers", "ann"), ("workers", "bob")
PARTITIONS = [(UUID(int=1), index) for index in range(3)]


def test_each_partition_has_its_turn_to_be_the_first() -> None:
    session = ShareSessions(1).open(ANN, PARTITIONS)

    assert [session.turn()[0] for _ in range(4)] == [*PARTITIONS, PARTITIONS[0]]


def test_epochs_begin_anew_after_the_last_and_never_with_the_one_that_opens() -> None:
    sessions = ShareSessions(1)
    sessions.open(ANN, PARTITIONS).epoch = EPOCH_MAX

    assert sessions.go_on(ANN, EPOCH_MAX).epoch == 1


def test_a_member_has_one_session_and_the_newer_counts() -> None:
    sessions = ShareSessions(1)
    old = sessions.open(ANN, PARTITIONS)
    new = sessions.open(ANN, [])

    assert (sessions.is_open(old), sessions.is_open(new), len(sessions)) == (False, True, 1)
    with pytest.raises(RequestError) as raised:
        sessions.open(BOB, [])
    assert raised.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    sessions.close(ANN)
    assert not sessions.is_at_work("workers")


def test_a_session_remembers_no_more_partitions_than_anybody_works_on() -> None:
    sessions = ShareSessions(1)
    many = [(UUID(int=1), index) for index in range(10_001)]

    with pytest.raises(RequestError, match="10000 partitions at most"):
        sessions.open(("workers", "ann"), many)
    session = sessions.open(("workers", "ann"), many[:10_000])
    with pytest.raises(RequestError, match="10000 partitions at most"):
        session.add(many[10_000:])
    assert len(session.partitions) == 10_000

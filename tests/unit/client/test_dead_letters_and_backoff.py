"""When to try again, and when to park."""

from headrace import Backoff, DeadLetters, DecodeFailed, Record, Reject
from headrace.client.deadletter.backoff import backoff
from headrace.client.deadletter.deadletter import PREFIX, Failure, parking_of


def test_waits_double_up_to_the_longest_and_jitter_only_shortens_them() -> None:
    exact = Backoff(first=1, longest=10, jitter=0)
    jittered = Backoff(first=1, longest=10, jitter=0.5)

    assert [exact(attempt) for attempt in (1, 2, 3, 4, 5, 500)] == [1, 2, 4, 8, 10, 10]
    assert all(2 <= jittered(3) <= 4 for _ in range(100))
    assert len({jittered(3) for _ in range(20)}) > 1


def test_waits_may_be_a_number_a_list_or_a_callable() -> None:
    assert [backoff("b", 3)(n) for n in (1, 2)] == [3, 3]
    assert [backoff("b", [1, 5])(n) for n in (1, 2, 3)] == [1, 5, 5]
    assert backoff("b", lambda attempt: attempt * 7)(2) == 14


def test_a_record_is_tried_as_often_as_asked_and_then_parked() -> None:
    letters = DeadLetters(attempts=3, backoff=[1, 2])
    failure, waits = None, []
    for _ in range(3):
        failure = Failure.again(RuntimeError("no"), failure)
        waits.append(parking_of(letters).wait_after(failure))

    assert waits == [1, 2, None]
    assert failure is not None
    assert failure.attempts == 3


def test_a_rejected_record_is_parked_at_once() -> None:
    assert parking_of(DeadLetters()).wait_after(Failure.again(Reject("never"), None)) is None


def test_a_record_that_does_not_decode_is_parked_at_once() -> None:
    assert parking_of(DeadLetters()).wait_after(Failure.again(DecodeFailed("bad", Record.of("t", b"")), None)) is None


def test_the_user_may_say_which_errors_are_worth_another_attempt() -> None:
    letters = DeadLetters(retry=lambda error: isinstance(error, OSError))

    assert parking_of(letters).wait_after(Failure.again(ValueError(), None)) is None
    assert parking_of(letters).wait_after(Failure.again(OSError(), None)) is not None


def test_the_dead_letter_topic_may_be_named_after_topic_and_group() -> None:
    assert DeadLetters().topic_for("orders", "g") == "orders.dead-letter"
    assert DeadLetters("dead.{group}.{topic}").topic_for("orders", "g") == "dead.g.orders"


def test_a_parked_record_says_where_it_came_from_and_why() -> None:
    letters = DeadLetters()
    record = Record.of("orders", b"v", partition=2, offset=7, timestamp=99)
    try:
        raise ValueError("unknown currency")
    except ValueError as error:
        failure = Failure.again(error, None)

    facts = {
        name.removeprefix(PREFIX): (value or b"").decode()
        for name, value in parking_of(letters)._explanation(record, failure, "billing", False)
    }

    assert facts["topic"] == "orders"
    assert (facts["partition"], facts["offset"], facts["timestamp"]) == ("2", "7", "99")
    assert (facts["group"], facts["cause"], facts["attempts"]) == ("billing", "attempts", "1")
    assert facts["reason"] == "ValueError: unknown currency"
    assert "test_dead_letters_and_backoff.py" in facts["stack"]
    assert facts["first-failed-at"] == facts["last-failed-at"]

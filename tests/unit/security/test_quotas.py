"""Quotas: shares, bursts, debts, and who is meant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.security.quotas import THROTTLE_S_MAX, Bucket, Quotas


def quotas(limits: dict[str, dict[str, str]], brokers: int = 1) -> Quotas:
    return Quotas(lambda: limits, lambda: brokers)


def test_without_limits_nothing_is_counted_and_nobody_waits() -> None:
    free = quotas({})

    assert not free.active
    assert free.on_produced("ann", "app", {"t": 10**12}, 0.0) == 0


def test_a_burst_of_a_second_is_free_and_the_rest_is_waited_for() -> None:
    limited = quotas({"user=ann": {"producer_byte_rate": "100.0"}})

    assert limited.on_produced("ann", "app", {"t": 100}, 0.0) == 0
    assert limited.on_produced("ann", "app", {"t": 50}, 0.0) == 0.5
    assert limited.on_produced("ann", "app", {"t": 0}, 0.5) == 0
    assert limited.on_fetched("ann", "app", {"t": 10**6}, 0.5) == 0
    assert limited.on_produced("bob", "app", {"t": 10**6}, 0.5) == 0


def test_each_broker_enforces_its_share() -> None:
    limited = quotas({"client-id=app": {"consumer_byte_rate": "300.0"}}, brokers=3)

    assert limited.on_fetched("ann", "app", {"t": 200}, 0.0) == 1.0


def test_what_a_topic_may_keep_is_not_divided_among_the_brokers() -> None:
    limited = quotas({"topic=t": {"storage_bytes": "1000.0"}}, brokers=3)

    assert limited.storage_limit("t") == 1000


def test_an_address_that_connects_too_often_is_turned_away_and_uses_nothing_up_by_it() -> None:
    limited = quotas({"ip=10.0.0.1": {"connection_creation_rate": "2.0"}}, brokers=3)

    assert [limited.on_connected("10.0.0.1", 0.0) for _ in range(20)] == [0.0] * 20
    assert [limited.on_connected("10.0.0.1", 0.0) for _ in range(100)] == [0.5] * 100
    assert limited.on_connected("10.0.0.1", 0.5) == 0
    assert limited.on_connected("10.0.0.1", 0.5) == 0.5
    assert limited.on_connected("10.0.0.2", 0.5) == 0


def test_nobody_is_left_waiting_for_more_than_a_second_before_being_turned_away() -> None:
    limited = quotas({"ip=<default>": {"connection_creation_rate": "0.01"}})

    assert [limited.on_connected("::1", 0.0) for _ in range(2)] == [1.0, 1.0]


def test_changes_of_the_cluster_may_overdraw_once_and_are_paid_back() -> None:
    limited = quotas({"user=ann": {"controller_mutation_rate": "2.0"}}, brokers=3)
    bucket = limited.mutations("ann", "app", 0.0)
    assert bucket is not None

    assert bucket.take(42, 0.0) == 10.0
    assert limited.mutations("ann", "other", 4.0) is bucket
    assert bucket.wait_for(0.0, 4.0) == 6.0
    assert bucket.wait_for(0.0, 10.0) == 0
    assert limited.mutations("bob", "app", 0.0) is None


def test_who_owes_goes_on_owing_when_another_broker_comes() -> None:
    limited = quotas({"user=ann": {"controller_mutation_rate": "1.0"}})
    bucket = limited.mutations("ann", "app", 0.0)
    limited.on_change()

    assert limited.mutations("ann", "app", 0.0) is bucket


def test_a_topic_has_limits_of_its_own() -> None:
    limited = quotas({"topic=t": {"producer_byte_rate": "10.0", "storage_bytes": "1000.0"}})

    assert limited.on_produced("ann", "app", {"t": 20, "u": 1000}, 0.0) == 1.0
    assert limited.on_produced("bob", "app", {"u": 1000}, 0.0) == 0
    assert limited.storage_limit("t") == 1000
    assert limited.storage_limit("u") is None


def test_time_spent_counts_in_percent_of_a_processor() -> None:
    limited = quotas({"user=<default>": {"request_percentage": "50.0"}})

    assert limited.on_worked("ann", "app", 0.5, 0.0) == 0
    assert limited.on_worked("ann", "app", 0.5, 0.0) == 1.0


def test_a_change_of_limits_takes_effect_at_once() -> None:
    limits = {"user=ann": {"producer_byte_rate": "1.0"}}
    limited = quotas(limits)
    assert limited.on_produced("ann", "app", {"t": 100}, 0.0) == THROTTLE_S_MAX
    limits.clear()
    limited.on_change()

    assert not limited.active
    assert limited.on_produced("ann", "app", {"t": 100}, 0.0) == 0


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(0, 50)), max_size=50))
def test_who_always_waits_as_told_never_exceeds_the_rate_by_more_than_a_burst_and_one_request(
    steps: list[tuple[float, int]],
) -> None:
    bucket, now, used = Bucket(10.0, 0.0), 0.0, 0
    for pause, amount in steps:
        now += pause
        used += amount
        now += bucket.take(amount, now)

    assert used <= 10 * now + 10 + 1e-6


def test_whoever_comes_under_ever_new_names_does_not_forgive_everybody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.security.quotas.BUCKETS_MAX", 10)
    limited = quotas(
        {"user=ann": {"producer_byte_rate": "100.0"}, **{f"client-id={n}": {"producer_byte_rate": "1.0"} for n in range(18)}}
    )
    for number in range(9):
        limited.on_produced("eve", str(number), {"t": 1}, 0.0)
    owed = limited.on_produced("ann", "app", {"t": 150}, 0.0)
    for number in range(9, 18):
        limited.on_produced("eve", str(number), {"t": 1}, 0.0)

    assert owed == 0.5
    assert limited.on_produced("ann", "app", {"t": 0}, 0.0) == owed

"""Clients that tell their metrics: who is asked what, when they may speak, and how much of it is kept."""

from uuid import UUID

import pytest

from headrace.broker.telemetry import instances as module
from headrace.broker.telemetry.instances import Instance, Instances
from headrace.broker.telemetry.otlp import Point
from headrace.broker.telemetry.subscriptions import ALL, INTERVAL_MS_DEFAULT, Subscription
from headrace.model.errors import ErrorCode

ID = UUID(int=7)
SHOP = {"client_id": "shop-1", "client_software_name": "librdkafka"}


def subscription(metrics: str, interval_ms: int = 1000, match: str = "") -> Subscription:
    return Subscription.of({"metrics": metrics, "interval.ms": str(interval_ms), "match": match})


def known(*subscriptions: Subscription, instances: Instances | None = None, number: int = 7) -> Instance:
    return (instances if instances is not None else Instances()).add(UUID(int=number), SHOP, subscriptions, 0)


def test_a_client_is_asked_for_what_all_together_want_as_often_as_the_most_impatient() -> None:
    instance = known(subscription("b,a", 5000), subscription("a,c", 2000), subscription("d", 100, "client_id=other"))

    assert (instance.metrics, instance.interval_ms) == (("a", "b", "c"), 2000)


def test_whoever_wants_all_wants_nothing_else() -> None:
    assert known(subscription("a"), subscription(ALL)).metrics == (ALL,)


def test_nobody_wants_anything_of_it() -> None:
    instance = known(subscription("a", match="client_id=other"))

    assert (instance.metrics, instance.interval_ms) == ((), INTERVAL_MS_DEFAULT)


def test_what_is_asked_has_a_number_that_changes_with_it_and_is_the_same_elsewhere() -> None:
    number = known(subscription("a")).subscription_id

    assert number == known(subscription("a")).subscription_id
    assert -(2**31) <= number < 2**31
    others = known(subscription("b")), known(subscription("a", 2000)), known(subscription("a"), number=8)
    assert number not in [other.subscription_id for other in others]


def test_it_may_ask_once_in_an_interval_and_at_once_when_it_was_told_that_it_is_wrong() -> None:
    instance = known(subscription("a"))
    assert instance.may_ask(0)
    instance.asked_at_ms = 0

    assert not instance.may_ask(999)
    assert instance.may_ask(1000)
    instance.pushed_at_ms = 500
    assert not instance.may_ask(1000)
    for error in (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE):
        instance.last_error = error
        assert instance.may_ask(600)


def test_it_may_push_once_in_an_interval_and_once_at_any_time_after_it_asked() -> None:
    instance = known(subscription("a"))
    instance.asked_at_ms = 100
    assert instance.may_push(150)
    instance.pushed_at_ms = 150

    assert not instance.may_push(1149)
    assert instance.may_push(1150)


def told(metric: str, value: float, *labels: tuple[str, str], grows: bool = False, delta: bool = False) -> Point:
    return Point(metric, labels, value, grows, delta)


def test_the_last_value_is_kept_and_what_is_added_adds_up() -> None:
    instances = Instances()
    instance = known(instances=instances)
    for _ in range(2):
        instances.take(instance, [told("org.apache.kafka.a", 3), told("b", 2, grows=True, delta=True)])

    assert {name: series.value for (name, _), series in instance.series.items()} == {"a": 3, "b": 4}


def test_only_labels_that_tell_series_apart_are_kept() -> None:
    instances = Instances()
    instance = known(instances=instances)
    instances.take(instance, [told("a", 1, ("node.id", "1"), ("client_secret", "x")), told("a", 2, ("topic", "t"))])

    assert list(instance.series) == [("a", (("node_id", "1"),)), ("a", (("topic", "t"),))]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_is_not_kept(value: float) -> None:
    instances = Instances()
    instance = known(instances=instances)
    instances.take(instance, [told("a", value)])

    assert instance.series == {}


def test_a_client_and_all_clients_together_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SERIES_PER_INSTANCE_MAX", 3)
    monkeypatch.setattr(module, "SERIES_MAX", 4)
    monkeypatch.setattr(module, "INSTANCES_MAX", 2)
    instances = Instances()
    first, second = known(instances=instances, number=1), known(instances=instances, number=2)
    instances.take(first, [told(str(n), n) for n in range(5)])
    instances.take(second, [told(str(n), n) for n in range(5)])
    assert (len(first.series), len(second.series), instances.series_count, instances.dropped) == (3, 1, 4, 6)

    instances.find(first.instance_id, 1)
    known(instances=instances, number=3)
    assert [instance.instance_id.int for instance in instances] == [1, 3]
    assert instances.series_count == 3


def test_who_is_silent_for_three_intervals_or_a_minute_is_forgotten() -> None:
    instances = Instances()
    quick, slow = (
        known(subscription("a", 100), instances=instances, number=1),
        known(subscription("a", 40_000), instances=instances),
    )
    instances.take(quick, [told("a", 1)])
    instances.forget_silent(60_000)
    assert len(instances) == 2
    instances.forget_silent(60_001)

    assert list(instances) == [slow]
    assert instances.series_count == 0
    instances.take(quick, [told("b", 1)])
    assert instances.series_count == 0
    instances.forget_silent(120_001)
    assert len(instances) == 0

"""Quotas are those of whom a connection belongs to."""

from types import SimpleNamespace
from typing import Any

from headrace.broker.network.throttling import BrokersAre, Throttling
from headrace.model.access.principals import ANONYMOUS, Principal, user
from headrace.security.authorization.authorizer import Authorizer
from headrace.security.authorization.guard import Guard
from headrace.security.authorization.index import AclIndex
from headrace.security.quotas import Quotas
from headrace.wire.messages.metadata import MetadataRequest
from tests.unit.broker.handlers.requests import FakeConnection, context_of

NO_IMAGE: Any = None


def wait_ms(throttling: Throttling, principal: Principal, seconds: float) -> int:
    context = context_of(MetadataRequest, 12, FakeConnection(principal))
    context.client_id = None
    return throttling.after_work(seconds, context)


def test_who_calls_itself_a_broker_is_free_of_quotas_only_where_it_may_act_as_one() -> None:
    limits = {f"user={name}": {"request_percentage": "100.0"} for name in ("ann", "broker")}
    image: Any = SimpleNamespace(brokers={1: None})
    throttling = Throttling(Quotas(lambda: limits, lambda: 1), lambda: image, lambda: 0.0, lambda topic: 0)
    guard = Guard(Authorizer(AclIndex(), [user("broker")]))

    def waits(name: str) -> bool:
        context = context_of(MetadataRequest, 12, FakeConnection(user(name)))
        context.client_id, context.guard = "broker-1", guard
        return throttling.after_work(3.0, context) > 0

    assert waits("ann")
    assert not waits("broker")


def test_without_rules_a_broker_is_known_by_its_listener_and_its_name() -> None:
    limits = {f"user={name}": {"request_percentage": "100.0"} for name in ("ann", "broker")}
    image: Any = SimpleNamespace(brokers={1: None})
    quotas = Quotas(lambda: limits, lambda: 1)
    brokers = BrokersAre("INSIDE", user("broker"))
    throttling = Throttling(quotas, lambda: image, lambda: 0.0, lambda topic: 0, brokers=brokers)

    def waits(name: str, listener: str) -> bool:
        connection = FakeConnection(user(name))
        connection.listener = listener
        context = context_of(MetadataRequest, 12, connection)
        context.client_id = "broker-1"
        return throttling.after_work(3.0, context) > 0

    assert waits("ann", "INSIDE")
    assert waits("broker", "OUTSIDE")
    assert not waits("broker", "INSIDE")


def test_a_users_quota_holds_for_its_connections_and_for_nobody_elses() -> None:
    limits = {"user=ann": {"request_percentage": "100.0"}}
    throttling = Throttling(Quotas(lambda: limits, lambda: 1), NO_IMAGE, lambda: 0.0, lambda topic: 0)

    assert wait_ms(throttling, user("ann"), 3.0) == 2000
    assert wait_ms(throttling, user("bob"), 3.0) == 0
    assert wait_ms(throttling, ANONYMOUS, 3.0) == 0

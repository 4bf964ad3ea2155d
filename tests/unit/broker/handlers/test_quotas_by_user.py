"""Quotas are those of whom a connection belongs to."""

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.broker.network.known_brokers import KnownBrokers
from headrace.broker.network.throttling import Throttling
from headrace.controller.entries import BrokerRegistration
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


class Asking:
    """Broker 1 is asked, where broker 2 is registered, too."""

    open_listeners = frozenset({"PLAINTEXT"})
    rules: Authorizer | None = None

    def __init__(self, inter_broker: str, registered: BrokerRegistration) -> None:
        limits = {f"user={name}": {"request_percentage": "100.0"} for name in ("ann", "broker", "ANONYMOUS")}
        image: Any = SimpleNamespace(brokers={1: registered, 2: registered})
        brokers = KnownBrokers(1, inter_broker, self.open_listeners, lambda: image)
        quotas = Quotas(lambda: limits, lambda: 1)
        self._throttling = Throttling(quotas, lambda: image, lambda: 0.0, lambda topic: 0, is_broker=brokers.have)

    def waits(self, principal: Principal, listener: str, client_id: str = "broker-2") -> bool:
        connection = FakeConnection(principal)
        connection.listener = listener
        context = context_of(MetadataRequest, 12, connection)
        context.client_id, context.guard = client_id, Guard(self.rules)
        return self._throttling.after_work(3.0, context) > 0


class AskingByRules(Asking):
    rules = Authorizer(AclIndex(), [user("broker"), user("ann"), ANONYMOUS])


BY_SASL = BrokerRegistration(broker_id=2, inter_broker_listener="SASL_SSL", principal=user("broker"))
BY_CERTIFICATE = BrokerRegistration(broker_id=2, inter_broker_listener="SSL", principal=user("broker"))
BY_PLAINTEXT = BrokerRegistration(broker_id=2, inter_broker_listener="PLAINTEXT")
OLD = BrokerRegistration(broker_id=2)


@pytest.mark.parametrize("asking", [Asking, AskingByRules])
@pytest.mark.parametrize("inter_broker", ["SASL_SSL", "PLAINTEXT"])
def test_who_calls_itself_a_broker_is_free_of_quotas_only_as_the_user_that_the_broker_is(
    asking: type[Asking], inter_broker: str
) -> None:
    asked = asking(inter_broker, BY_SASL)

    assert not asked.waits(user("broker"), "SASL_SSL")
    assert asked.waits(user("broker"), "OTHER")
    assert asked.waits(user("ann"), "SASL_SSL")
    assert asked.waits(ANONYMOUS, "PLAINTEXT")
    assert asked.waits(user("broker"), "SASL_SSL", "broker-3"), "there is none"
    assert asked.waits(user("broker"), "SASL_SSL", "broker-1"), "it asks nothing of itself"
    assert asked.waits(user("broker"), "SASL_SSL", "another")
    assert asked.waits(user("broker"), "SASL_SSL", f"broker-{'9' * 5000}"), "longer than Python reads a number"


@pytest.mark.parametrize("asking", [Asking, AskingByRules])
@pytest.mark.parametrize("inter_broker", ["SASL_SSL", "PLAINTEXT"])
def test_a_broker_without_a_name_is_known_by_its_listener(asking: type[Asking], inter_broker: str) -> None:
    asked = asking(inter_broker, BY_PLAINTEXT)

    assert not asked.waits(ANONYMOUS, "PLAINTEXT")
    assert asked.waits(ANONYMOUS, "SASL_SSL")
    assert asked.waits(user("ann"), "SASL_SSL")


def test_a_broker_that_did_not_tell_its_listener_uses_the_same_one() -> None:
    assert not Asking("PLAINTEXT", OLD).waits(ANONYMOUS, "PLAINTEXT")
    assert Asking("SASL_SSL", OLD).waits(ANONYMOUS, "PLAINTEXT")
    assert Asking("SASL_SSL", OLD).waits(ANONYMOUS, "SASL_SSL")


def test_a_certificate_counts_where_it_is_asked_for_and_the_listener_where_it_is_not() -> None:
    class NotYet(Asking):
        open_listeners = frozenset({"SSL"})

    assert not Asking("SSL", BY_CERTIFICATE).waits(user("broker"), "SSL")
    assert Asking("SSL", BY_CERTIFICATE).waits(ANONYMOUS, "SSL")
    assert not NotYet("SSL", BY_CERTIFICATE).waits(ANONYMOUS, "SSL")


def test_where_there_are_rules_a_broker_also_needs_the_right_of_brokers() -> None:
    class WithoutTheRight(Asking):
        rules = Authorizer(AclIndex(), [user("ann")])

    assert WithoutTheRight("SASL_SSL", BY_SASL).waits(user("broker"), "SASL_SSL")


def test_a_users_quota_holds_for_its_connections_and_for_nobody_elses() -> None:
    limits = {"user=ann": {"request_percentage": "100.0"}}
    throttling = Throttling(Quotas(lambda: limits, lambda: 1), NO_IMAGE, lambda: 0.0, lambda topic: 0)

    assert wait_ms(throttling, user("ann"), 3.0) == 2000
    assert wait_ms(throttling, user("bob"), 3.0) == 0
    assert wait_ms(throttling, ANONYMOUS, 3.0) == 0

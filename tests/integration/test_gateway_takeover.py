"""Gateways that die: what they had is taken over, and nothing is lost."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import Producer
from headrace.testing import Broker
from tests.support.endpoint import Endpoint
from tests.support.gateway import GatewayProcess
from tests.support.waiting import until

LOOPBACK = ("--webhook-network", "127.0.0.0/8", "--webhook-http")
TAKEN_OVER_S_MAX = 60.0  # it takes eight seconds where a machine is not busy


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(settings={"num.partitions": 2}) as running:
        yield running


def send(broker: Broker, *values: int) -> None:
    with Producer(broker.bootstrap) as producer:
        for value in values:
            producer.send("orders", b"%d" % value, key=b"k%d" % (value % 4)).result()


def test_a_killed_gateways_webhooks_go_on_at_another_in_order(broker: Broker, tmp_path: Path) -> None:
    send(broker, *range(20))
    with (
        Endpoint() as endpoint,
        GatewayProcess(broker.bootstrap, tmp_path / "one", *LOOPBACK) as one,
        GatewayProcess(broker.bootstrap, tmp_path / "two", *LOOPBACK) as two,
    ):
        gateways = {"one": one, "two": two}
        for each in gateways.values():
            until(lambda each=each: each.client.get("/live").json()["coordinated"], "it has its lease")
        wanted = {"topic": "orders", "group": "g", "callback_url": endpoint.url, "begin": "earliest"}
        made = one.client.post("/subscriptions", json=wanted).json()
        until(lambda: len(endpoint.values()) == 20, lambda: endpoint.values())
        # Any gateway knows it, and passes on what only the owner can tell.
        shown = [each.client.get(f"/subscriptions/{made['id']}").json()["owner"] for each in gateways.values()]
        told = [each.client.get(f"/subscriptions/{made['id']}/deliveries").json()["deliveries"] for each in gateways.values()]
        owner = next(each for each in gateways.values() if _delivers(each, made["id"]))
        owner.kill()
        send(broker, *range(20, 40))
        until(lambda: set(endpoint.values()) == set(range(40)), lambda: endpoint.values(), TAKEN_OVER_S_MAX)

    assert shown[0] == shown[1]
    assert told[0] == told[1]
    for key in range(4):
        first_seen = list(dict.fromkeys(value for value in endpoint.values() if value % 4 == key))
        assert first_seen == sorted(first_seen)


def test_a_gateway_that_was_stopped_for_longer_than_its_lease_delivers_nothing_after_the_hand_over(
    broker: Broker, tmp_path: Path
) -> None:
    send(broker, *range(30))
    with (
        Endpoint() as endpoint,
        GatewayProcess(broker.bootstrap, tmp_path / "one", *LOOPBACK) as one,
        GatewayProcess(broker.bootstrap, tmp_path / "two", *LOOPBACK) as two,
    ):
        for each in (one, two):
            until(lambda each=each: each.client.get("/live").json()["coordinated"], "it has its lease")
        wanted = {"topic": "orders", "group": "g", "callback_url": endpoint.url, "begin": "earliest"}
        made = one.client.post("/subscriptions", json=wanted).json()
        # In the middle of it, with one request under way and others to follow.
        until(lambda: len(endpoint.values()) >= 10, lambda: endpoint.values())
        owner, other = (one, two) if _delivers(one, made["id"]) else (two, one)
        os.kill(owner.pid, signal.SIGSTOP)
        try:
            send(broker, *range(30, 40))
            until(lambda: set(endpoint.values()) == set(range(40)), lambda: endpoint.values(), TAKEN_OVER_S_MAX)
            until(lambda: other.client.get("/groups/g/lag").json().get("total") == 0, "all is committed")
            before = len(endpoint.values())
        finally:
            os.kill(owner.pid, signal.SIGCONT)
        until(lambda: owner.client.get("/live").json()["coordinated"], "it has its lease again")
        send(broker, 40)
        until(lambda: 40 in endpoint.values(), lambda: endpoint.values())

    assert endpoint.values()[before:] == [40]


def _delivers(gateway: GatewayProcess, name: str) -> bool:
    """A request that was passed on already is answered by the owner alone."""
    answer = gateway.client.get(f"/subscriptions/{name}/deliveries", headers={"Headrace-Forwarded": "1"})
    return answer.status_code == 200


def test_a_gateway_that_starts_again_goes_on_where_it_was(broker: Broker, tmp_path: Path) -> None:
    send(broker, 0, 1)
    with Endpoint() as endpoint:
        with GatewayProcess(broker.bootstrap, tmp_path / "log", *LOOPBACK) as first:
            until(lambda: first.client.get("/live").json()["coordinated"], "it has its lease")
            wanted: dict[str, Any] = {"topic": "orders", "group": "g", "callback_url": endpoint.url, "begin": "earliest"}
            first.client.post("/subscriptions", json=wanted)
            until(lambda: len(endpoint.values()) == 2)
            assert first.stop() == 0
        send(broker, 2, 3)
        with GatewayProcess(broker.bootstrap, tmp_path / "log", *LOOPBACK):
            until(lambda: len(endpoint.values()) == 4, lambda: endpoint.values(), TAKEN_OVER_S_MAX)

    assert sorted(endpoint.values()) == [0, 1, 2, 3]

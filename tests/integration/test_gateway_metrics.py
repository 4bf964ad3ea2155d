"""What a gateway tells of itself: each metric moves when what it counts happens, at its own address and on the broker's page."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from headrace import Producer
from headrace.gateway.metrics import FAMILIES
from headrace.testing import Broker
from tests.support.endpoint import Endpoint
from tests.support.gateway import GatewayThread
from tests.support.metrics import Samples, ask, samples_in
from tests.support.waiting import until

SETTINGS: dict[str, Any] = {
    "webhook_networks": ("127.0.0.0/8",),
    "webhook_http": True,
    "metrics": "127.0.0.1:0",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"num.partitions": 1}) as running:
        yield running


@pytest.fixture(scope="module")
def gateway(broker: Broker) -> Iterator[GatewayThread]:
    with GatewayThread(broker.bootstrap, **SETTINGS) as running:
        until(lambda: running.client.get("/live").json()["coordinated"], "it has its lease")
        yield running


def told(gateway: GatewayThread) -> Samples:
    return samples_in(ask(gateway.gateway.metrics.port).text)


def of(samples: Samples, name: str, **labels: object) -> float:
    wanted = {(label, str(value)) for label, value in labels.items()}
    return sum(value for (each, found), value in samples.items() if each == name and wanted <= set(found))


def test_requests_by_route_and_those_that_stay_open(gateway: GatewayThread, broker: Broker) -> None:
    before = told(gateway)
    with Producer(broker.bootstrap) as producer:
        producer.send("counted", b"one").result(20)
    assert gateway.client.get("/topics/counted").status_code == 200
    assert gateway.client.get("/topics/none-of-that-name").status_code == 404
    assert gateway.client.get("/nowhere").status_code == 404
    with gateway.client.stream("GET", "/topics/counted/events", params={"from": "earliest"}) as events:
        assert events.status_code == 200
        lines = events.iter_lines()  # kept: the stream ends with it
        assert any('"offset"' in line for line in lines)
        now = told(gateway)
        assert sum(value for (name, _), value in now.items() if name == "headrace_gateway_requests_in_flight") >= 1
        assert of(now, "headrace_gateway_connections") >= 1
        assert of(now, "headrace_gateway_callers") >= 1

    now, one = told(gateway), {"method": "GET", "route": "/topics/{topic}"}
    for status in (200, 404):
        counted = of(now, "headrace_gateway_requests_total", status=status, **one)
        assert counted - of(before, "headrace_gateway_requests_total", status=status, **one) == 1
    assert of(now, "headrace_gateway_requests_total", route="unknown", status=404) == 1
    assert of(now, "headrace_gateway_request_seconds_count", route="/topics/{topic}") == 2


def test_members_of_groups(gateway: GatewayThread) -> None:
    made = gateway.client.post("/groups/counted/members", json={"topics": ["counted"]})
    assert made.status_code == 201, made.text

    assert of(told(gateway), "headrace_gateway_members") == 1


def test_deliveries_of_webhooks(gateway: GatewayThread, broker: Broker) -> None:
    with Endpoint() as endpoint, Producer(broker.bootstrap, values="json") as producer:
        producer.send("hooked", 1).result(20)
        wanted = {"topic": "hooked", "callback_url": endpoint.url, "begin": "earliest", "attempts": 1, "group": "hooked"}
        assert gateway.client.post("/subscriptions", json=wanted).status_code == 201
        until(lambda: of(told(gateway), "headrace_webhook_delivered_records_total") == 1)
        endpoint.answer = lambda posted: (422, {})
        producer.send("hooked", 2).result(20)
        until(lambda: of(told(gateway), "headrace_webhook_dead_records_total") == 1)
        now = told(gateway)

    assert of(now, "headrace_webhook_subscriptions", state="delivering") == 1
    assert [of(now, "headrace_webhook_attempts_total", outcome=each) for each in ("delivered", "refused", "failed")] == [1, 1, 0]
    assert of(now, "headrace_webhook_attempt_seconds_count") == 2


def test_what_the_schema_registry_holds(gateway: GatewayThread) -> None:
    assert of(told(gateway), "headrace_registry_subjects") == 0
    for subject, schema in (("a", "int"), ("b", "int"), ("b", "long")):
        answer = gateway.client.put("/config/b", json={"compatibility": "NONE"})
        assert answer.status_code == 200
        answer = gateway.client.post(f"/subjects/{subject}/versions", json={"schema": json.dumps(schema)})
        assert answer.status_code == 200, answer.text

    now = told(gateway)
    names = ("headrace_registry_subjects", "headrace_registry_versions", "headrace_registry_schemas")
    assert [of(now, name) for name in names] == [2, 3, 2]
    assert of(now, "headrace_gateway_requests_total", route="/subjects/{subject}/versions", method="POST") == 3


def test_every_metric_of_a_gateway_was_seen_to_move(gateway: GatewayThread) -> None:
    """By the tests before this one, which share the gateway."""
    now = told(gateway)
    silent = [each.name for each in FAMILIES if not any(name.startswith(each.name) for name, _ in now)]

    assert silent == []


def test_the_metrics_port_has_nothing_else(gateway: GatewayThread) -> None:
    assert httpx.get(f"http://127.0.0.1:{gateway.gateway.metrics.port}/topics").status_code == 404

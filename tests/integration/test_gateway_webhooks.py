"""Webhooks: posted in order, signed, tried again, given up, replayed; and never to where they may not go."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from headrace import Consumer, Producer
from headrace.testing import Broker
from tests.support.endpoint import Endpoint
from tests.support.gateway import GatewayThread
from tests.support.waiting import until

LOOPBACK = {"webhook_networks": ("127.0.0.0/8",), "webhook_http": True}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"num.partitions": 1}) as running:
        yield running


@pytest.fixture(scope="module")
def gateway(broker: Broker) -> Iterator[GatewayThread]:
    with GatewayThread(broker.bootstrap, **LOOPBACK) as running:
        until(lambda: running.client.get("/live").json()["coordinated"], "it has its lease")
        yield running


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as running:
        yield running


def send(broker: Broker, topic: str, *values: Any, **more: Any) -> None:
    with Producer(broker.bootstrap, values="json") as producer:
        for value in values:
            producer.send(topic, value, **more).result()


def subscribe(gateway: GatewayThread, endpoint: Endpoint, topic: str, **more: Any) -> dict[str, Any]:
    wanted = {"topic": topic, "group": f"of-{topic}", "callback_url": endpoint.url, "begin": "earliest", **more}
    answer = gateway.client.post("/subscriptions", json=wanted)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_records_are_posted_in_order_and_signed(gateway: GatewayThread, broker: Broker, endpoint: Endpoint) -> None:
    send(broker, "hooked", 1, 2, key=b"k")
    made = subscribe(gateway, endpoint, "hooked")
    send(broker, "hooked", 3)
    until(lambda: endpoint.values() == [1, 2, 3], lambda: endpoint.values())

    posted = endpoint.posted[0]
    assert (endpoint.challenged, posted.json["key"], posted.headers["content-type"]) == (1, "k", "application/json")
    assert verified(posted.headers, posted.body, made["secret"])
    assert not verified(posted.headers, posted.body + b" ", made["secret"])
    shown = gateway.client.get(f"/subscriptions/{made['id']}").json()
    assert (shown["secret"], shown["status"], "whsec" in gateway.client.get("/subscriptions").text) == (None, "active", False)
    until(lambda: gateway.client.get("/groups/of-hooked/lag").json()["total"] == 0, "the offset has moved")
    deliveries = gateway.client.get(f"/subscriptions/{made['id']}/deliveries").json()["deliveries"]
    assert [(each["offset"], each["status"], each["attempt"]) for each in deliveries] == [(2, 200, 1), (1, 200, 1), (0, 200, 1)]


def verified(headers: dict[str, str], body: bytes, secret: str) -> bool:
    """By the verifier that the authors of Standard Webhooks publish, which also refuses what is not of these minutes."""
    try:
        Webhook(secret).verify(body, headers)
    except WebhookVerificationError:
        return False
    return True


def test_a_new_secret_signs_beside_the_old_one(gateway: GatewayThread, broker: Broker, endpoint: Endpoint) -> None:
    send(broker, "rotated", 0)
    made = subscribe(gateway, endpoint, "rotated", begin="latest")
    second = gateway.client.post(f"/subscriptions/{made['id']}/secrets").json()["secret"]
    send(broker, "rotated", 1)
    until(lambda: endpoint.values() == [1], lambda: endpoint.values())

    (posted,) = endpoint.posted
    assert verified(posted.headers, posted.body, made["secret"])
    assert verified(posted.headers, posted.body, second)


def test_batches_filters_and_cloud_events(gateway: GatewayThread, broker: Broker, endpoint: Endpoint) -> None:
    send(broker, "filtered", *({"total": number} for number in range(10)), key=b"ann", headers={"kind": "sale"})
    send(broker, "filtered", {"total": 100}, key=b"bob", headers={"kind": "sale"})
    send(broker, "filtered", {"total": 200}, key=b"ann")
    wanted = {"key": {"equals": "ann"}, "headers": {"kind": {"one_of": ["sale"]}}, "fields": {"/total": {"above": 3, "below": 8}}}
    subscribe(gateway, endpoint, "filtered", filter=wanted, batch=10, format="cloudevents")
    until(lambda: endpoint.posted, "a batch came")

    events = endpoint.posted[0].json
    assert endpoint.posted[0].headers["content-type"] == "application/cloudevents-batch+json"
    assert [event["data"]["total"] for event in events] == [4, 5, 6, 7]
    assert {key: events[0][key] for key in ("specversion", "id", "source", "type", "subject", "datacontenttype")} == {
        "specversion": "1.0",
        "id": "filtered/0/4",
        "source": "/topics/filtered",
        "type": "headrace.record",
        "subject": "ann",
        "datacontenttype": "application/json",
    }


def test_a_failed_delivery_is_tried_again_with_the_same_id_and_in_its_place(
    gateway: GatewayThread, broker: Broker, endpoint: Endpoint
) -> None:
    statuses = iter([(500, {}), (503, {"Retry-After": "1"})])
    endpoint.answer = lambda posted: next(statuses, (200, {}))
    send(broker, "retried", 1, 2)
    subscribe(gateway, endpoint, "retried")
    until(lambda: endpoint.values() == [1, 1, 1, 2], lambda: endpoint.values())

    first, second, third, _ = endpoint.posted
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == third.headers["webhook-id"]
    assert third.at - second.at >= 0.95


def test_what_cannot_be_delivered_becomes_a_dead_letter_and_the_next_comes(
    gateway: GatewayThread, broker: Broker, endpoint: Endpoint
) -> None:
    endpoint.answer = lambda posted: (400, {}) if posted.json["value"] == "bad" else (200, {})
    send(broker, "lettered", "bad", "good")
    subscribe(gateway, endpoint, "lettered", attempts=2)
    until(lambda: endpoint.values() == ["bad", "bad", "good"], lambda: endpoint.values())

    (letter,) = gateway.client.get("/dead-letters/lettered.dead-letter").json()["letters"]
    assert (letter["origin_topic"], letter["origin_offset"], letter["attempts"]) == ("lettered", 0, 2)
    assert letter["reason"] == "the endpoint answered 400"


def test_an_endpoint_that_is_gone_ends_its_subscription(gateway: GatewayThread, broker: Broker, endpoint: Endpoint) -> None:
    endpoint.answer = lambda posted: (410, {})
    send(broker, "ended", 1, 2)
    made = subscribe(gateway, endpoint, "ended")
    until(lambda: gateway.client.get(f"/subscriptions/{made['id']}").json()["status"] == "gone", "it has ended")

    assert endpoint.values() == [1]


def test_a_subscription_is_paused_resumed_replayed_and_deleted(
    gateway: GatewayThread, broker: Broker, endpoint: Endpoint
) -> None:
    send(broker, "steered", 1, 2)
    path = f"/subscriptions/{subscribe(gateway, endpoint, 'steered')['id']}"
    until(lambda: endpoint.values() == [1, 2])
    gateway.client.patch(path, json={"status": "paused"})
    until(lambda: gateway.ask(lambda running: path.rpartition("/")[2] not in running.engine.delivering), "it rests")
    send(broker, "steered", 3)
    gateway.client.patch(path, json={"status": "active"})
    until(lambda: endpoint.values() == [1, 2, 3], lambda: endpoint.values())
    gateway.client.post(f"{path}/replays", json={"begin": "earliest"})
    until(lambda: endpoint.values() == [1, 2, 3, 1, 2, 3], lambda: endpoint.values())

    assert gateway.client.delete(path).status_code == 204
    assert gateway.client.get(path).json()["code"] == "subscription_not_found"


def test_an_endpoint_that_is_down_delays_nobody_else(gateway: GatewayThread, broker: Broker, endpoint: Endpoint) -> None:
    send(broker, "shared", 1)
    with Endpoint() as down:
        subscribe(gateway, down, "shared", group="of-down")
        until(lambda: down.values() == [1])
    subscribe(gateway, endpoint, "shared", group="of-up")
    send(broker, "shared", *range(2, 30))

    until(lambda: endpoint.values() == list(range(1, 30)), lambda: endpoint.values(), 20)


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("ftp://example.com/", "callback_refused"),
        ("not a url", "callback_refused"),
        ("http://user:word@127.0.0.1/", "callback_refused"),
        ("http://10.0.0.1/", "callback_refused"),
        ("http://169.254.169.254/latest/meta-data/", "callback_refused"),
        ("http://[::1]/", "callback_refused"),
        ("http://[::ffff:10.0.0.1]/", "callback_refused"),
        ("http://0.0.0.0:80/", "callback_refused"),
        ("http://127.0.0.1:1/", "endpoint_not_verified"),
    ],
)
def test_an_address_that_is_not_public_is_refused(gateway: GatewayThread, broker: Broker, url: str, code: str) -> None:
    send(broker, "guarded", 1)
    answer = gateway.client.post("/subscriptions", json={"topic": "guarded", "group": "g", "callback_url": url})

    assert (answer.status_code, answer.json()["code"]) == (422, code)


def test_names_and_redirects_are_looked_at_when_the_connection_is_made(
    gateway: GatewayThread, broker: Broker, endpoint: Endpoint
) -> None:
    send(broker, "rebound", 1)
    wanted = {"topic": "rebound", "group": "g"}
    elsewhere = Endpoint()
    elsewhere.take = lambda posted: (307, {"Location": "http://169.254.169.254/"}, b"")  # type: ignore[method-assign]
    with GatewayThread(broker.bootstrap, webhook_http=True) as strict, elsewhere:
        until(lambda: strict.client.get("/live").json()["coordinated"], "it has its lease")
        inside = endpoint.url.replace("127.0.0.1", "localhost")
        by_name = strict.client.post("/subscriptions", json={**wanted, "callback_url": inside})
        by_redirect = gateway.client.post("/subscriptions", json={**wanted, "callback_url": elsewhere.url})

    assert by_name.json()["code"] == by_redirect.json()["code"] == "endpoint_not_verified"
    assert endpoint.challenged == 0


def test_secrets_are_sealed_in_the_topic_of_gateways(endpoint: Endpoint, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"k" * 32)
    key.chmod(0o600)
    # A cluster of its own: the module's gateway has not the key.
    with Broker(settings={"num.partitions": 1}) as broker:
        made, written = sealed_subscription(broker, endpoint, key)

    assert written
    assert made["secret"].encode() not in written


def sealed_subscription(broker: Broker, endpoint: Endpoint, key: Path) -> tuple[Any, bytes]:
    """What its maker was told, and what is in the topic."""
    send(broker, "sealed", 0)
    with GatewayThread(broker.bootstrap, secret_key_file=key, **LOOPBACK) as sealing:
        until(lambda: sealing.client.get("/live").json()["coordinated"], "it has its lease")
        made = subscribe(sealing, endpoint, "sealed")
        until(lambda: endpoint.values() == [0], lambda: endpoint.values())
        sealing.client.delete(f"/subscriptions/{made['id']}")
    with Consumer("__headrace_gateway", bootstrap=broker.bootstrap) as consumer:
        written = b"".join(
            record.raw_value or b"" for record in consumer.to_end() if made["id"].encode() in (record.raw_key or b"")
        )
    return made, written


def test_without_order_one_that_fails_holds_up_none(gateway: GatewayThread, broker: Broker, endpoint: Endpoint) -> None:
    endpoint.answer = lambda posted: (500 if posted.json["value"] == 0 else 200, {})
    send(broker, "unordered", *range(5), key=b"one")
    made = subscribe(gateway, endpoint, "unordered", ordered=False, attempts=2)
    until(lambda: sorted(endpoint.values()) == [0, 0, 1, 2, 3, 4], lambda: endpoint.values(), 60)
    queue = gateway.client.get("/queues/of-unordered").json()
    replayed = gateway.client.post(f"/subscriptions/{made['id']}/replays", json={"begin": "earliest"})

    def letters() -> list[Any]:
        return gateway.client.get("/dead-letters/unordered.dead-letter").json().get("letters", [])  # type: ignore[no-any-return]

    until(letters, "the one that failed is kept", 60)
    until(lambda: gateway.client.get("/queues/of-unordered").json()["partitions"][0]["undone"] == 0, "all are done", 60)
    until(lambda: len(gateway.client.get(f"/subscriptions/{made['id']}/deliveries").json()["deliveries"]) == 6, "all are noted")
    send(broker, "unordered", 5)
    until(lambda: 5 in endpoint.values(), lambda: endpoint.values(), 60)
    gateway.client.delete(f"/subscriptions/{made['id']}")
    until(lambda: gateway.client.get("/queues/of-unordered").json()["members"] == [], "its member has left", 60)

    assert (made["ordered"], len(queue["members"])) == (False, 1)
    assert [(each["origin_offset"], each["attempts"]) for each in letters()] == [(0, 2)]
    assert replayed.json()["code"] == "not_replayed"


def test_without_the_challenge_nothing_is_subscribed(gateway: GatewayThread, broker: Broker) -> None:
    send(broker, "unwanted", 1)
    silent = Endpoint()
    silent.take = lambda posted: (200, {}, b"hello")  # type: ignore[method-assign]
    with silent:
        answer = gateway.client.post("/subscriptions", json={"topic": "unwanted", "group": "g", "callback_url": silent.url})

    assert answer.json()["code"] == "endpoint_not_verified"
    assert "hello" not in answer.text

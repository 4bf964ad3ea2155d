"""The gateway's nouns, asked over HTTP, beside a real broker."""

import json
from collections.abc import Iterator

import httpx
import pytest

from headrace import Admin, Producer
from headrace.client.deadletter.deadletter import PREFIX
from headrace.client.deadletter.redrive import SUFFIX
from headrace.testing import Broker
from tests.support.gateway import GatewayThread


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"authorizer": "acl", "super.users": "User:ANONYMOUS"}) as running:
        yield running


@pytest.fixture(scope="module")
def http(broker: Broker) -> Iterator[httpx.Client]:
    with GatewayThread(broker.bootstrap) as gateway:
        yield gateway.client


def test_a_topic_is_made_shown_changed_and_deleted(http: httpx.Client, broker: Broker) -> None:
    made = http.post("/topics", json={"name": "a-topic", "partitions": 2, "settings": {"retention.ms": 1000}})
    shown = http.get("/topics/a-topic")
    grown = http.patch("/topics/a-topic", json={"partitions": 3})
    settings = http.patch("/topics/a-topic/settings", json={"settings": {"retention.ms": None, "max.message.bytes": 5000}}).json()
    partitions = http.get("/topics/a-topic/partitions").json()["partitions"]
    deleted = http.delete("/topics/a-topic")

    assert (made.status_code, made.headers["Location"], shown.json()["partitions"]) == (201, "/topics/a-topic", 2)
    assert grown.json()["partitions"] == 3
    assert settings["settings"]["retention.ms"]["source"] == "default"
    assert settings["settings"]["max.message.bytes"]["value"] == "5000"
    assert [(each["partition"], each["first_offset"], each["next_offset"]) for each in partitions] == [
        (n, 0, 0) for n in range(3)
    ]
    assert deleted.status_code == 204
    assert http.get("/topics/a-topic").json()["code"] == "topic_not_found"
    with Admin(broker.bootstrap) as admin:
        assert "a-topic" not in admin.topic_names()


def test_lists_come_in_pages(http: httpx.Client) -> None:
    for number in range(5):
        http.post("/topics", json={"name": f"paged-{number}"})

    names, after = [], None
    while True:
        query = {"limit": "2", "prefix": "paged-", **({"after": after} if after else {})}
        page = http.get("/topics", params=query).json()
        names.append([topic["name"] for topic in page["topics"]])
        if (after := page["next"]) is None:
            break

    assert names == [["paged-0", "paged-1"], ["paged-2", "paged-3"], ["paged-4"]]


def test_a_groups_offsets_and_lag_are_shown_and_moved(http: httpx.Client, broker: Broker) -> None:
    http.post("/topics", json={"name": "read-by-group", "partitions": 1})
    with Producer(broker.bootstrap) as producer:
        producer.send_many("read-by-group", [b"x"] * 10).result()

    moved = http.patch("/groups/readers/offsets", json={"topic": "read-by-group", "to": "earliest"})
    before = http.get("/groups/readers/lag").json()
    http.patch("/groups/readers/offsets", json={"offsets": [{"topic": "read-by-group", "partition": 0, "offset": 7}]})
    after = http.get("/groups/readers/lag").json()

    assert moved.json() == {"offsets": [{"topic": "read-by-group", "partition": 0, "offset": 0}]}
    assert (before["total"], after["total"], after["partitions"][0]["offset"]) == (10, 3, 7)
    assert http.get("/groups/readers").json()["state"] == "empty"
    assert "readers" in [group["name"] for group in http.get("/groups").json()["groups"]]
    assert http.delete("/groups/readers").status_code == 204
    assert http.get("/groups/readers").json()["code"] == "group_not_found"


def test_old_records_are_deleted_and_offsets_found_by_time(http: httpx.Client, broker: Broker) -> None:
    http.post("/topics", json={"name": "aging", "partitions": 1})
    with Producer(broker.bootstrap) as producer:
        for second in range(1, 6):
            producer.send("aging", b"x", timestamp=second * 1000).result()

    found = http.get("/topics/aging/offsets", params={"at": "1970-01-01T00:00:03Z"}).json()
    first = http.delete("/topics/aging/partitions/0/records", params={"before": 2}).json()

    assert found == {"topic": "aging", "offsets": {"0": 2}}
    assert first == {"first_offset": 2}


def test_rules_users_and_limits_are_kept(http: httpx.Client) -> None:
    rule = {"permission": "allow", "principal": "User:ann", "operation": "read", "resource_type": "topic", "resource_name": "x"}
    made = http.post("/acls", json={"acls": [rule]})
    listed = http.get("/acls", params={"principal": "User:ann"}).json()["acls"]
    removed = http.delete("/acls", params={"principal": "User:ann"}).json()["acls"]
    http.put("/users/ann", json={"password": "secret"})
    users = http.get("/users").json()["users"]
    http.delete("/users/ann")
    limits = http.patch("/quotas", json={"entity": {"client-id": "loader"}, "limits": {"producer_byte_rate": 1000}}).json()
    gone = http.patch("/quotas", json={"entity": {"client-id": "loader"}, "limits": {"producer_byte_rate": None}}).json()

    assert made.status_code == 201
    assert listed == removed == [{**rule, "pattern": "literal", "host": "*"}]
    assert http.get("/acls", params={"principal": "User:ann"}).json()["acls"] == []
    assert http.delete("/acls").status_code == 400
    assert [user["name"] for user in users] == ["ann"]
    assert "secret" not in json.dumps(users)
    assert http.get("/users/ann").status_code == 404
    assert limits["quotas"] == [{"entity": {"client-id": "loader"}, "limits": {"producer_byte_rate": 1000.0}}]
    assert gone["quotas"] == []


def test_brokers_and_moves_are_shown(http: httpx.Client) -> None:
    (broker,) = http.get("/brokers").json()["brokers"]
    settings = http.get(f"/brokers/{broker['id']}/settings").json()["settings"]

    assert broker["is_controller"]
    assert settings["log.dirs"]["read_only"]
    assert http.get("/brokers/99").status_code == 404
    assert http.get("/moves").json() == {"moves": [], "next": None}
    refused = http.post("/moves", json={"topic": "nowhere", "partition": 0, "replicas": [1]})
    assert refused.json()["code"] == "unknown_topic_or_partition"


def test_dead_letters_are_shown_and_sent_back(http: httpx.Client, broker: Broker) -> None:
    facts = {"topic": "worked-on", "partition": "0", "offset": "4", "cause": "rejected", "reason": "no", "attempts": "1"}
    http.post("/topics", json={"name": "worked-on", "partitions": 1})
    with Producer(broker.bootstrap) as producer:
        producer.send(f"worked-on{SUFFIX}", b"bad", key=b"k", headers={f"{PREFIX}{name}": text for name, text in facts.items()})

    topics = http.get("/dead-letters").json()["topics"]
    (letter,) = http.get(f"/dead-letters/worked-on{SUFFIX}").json()["letters"]
    sent = http.post(f"/dead-letters/worked-on{SUFFIX}/redrives", json={}).json()

    assert topics == [{"topic": f"worked-on{SUFFIX}", "waiting": 1}]
    assert (letter["origin_topic"], letter["origin_offset"], letter["reason"], letter["value"]) == ("worked-on", 4, "no", "YmFk")
    assert sent == {"sent": 1, "skipped": 0}
    assert http.get(f"/dead-letters/worked-on{SUFFIX}").json()["letters"] == []


def test_a_change_can_be_tied_to_what_was_seen_and_repeated_safely(http: httpx.Client) -> None:
    http.post("/topics", json={"name": "tied", "partitions": 1})
    seen = http.get("/topics/tied").headers["ETag"]
    first = http.patch("/topics/tied", json={"partitions": 2}, headers={"If-Match": seen})
    second = http.patch("/topics/tied", json={"partitions": 3}, headers={"If-Match": seen})
    key = {"Idempotency-Key": "a key of my own"}
    made = http.post("/topics", json={"name": "once"}, headers=key)
    again = http.post("/topics", json={"name": "once"}, headers=key)
    other = http.post("/topics", json={"name": "twice"}, headers=key)
    unchanged = http.get("/topics/tied", headers={"If-None-Match": http.get("/topics/tied").headers["ETag"]})

    assert (first.status_code, second.status_code, second.json()["code"]) == (200, 412, "changed_meanwhile")
    assert (made.status_code, again.status_code, again.json()) == (201, 201, made.json())
    assert again.headers["Idempotency-Replayed"] == "true"
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    assert unchanged.status_code == 304


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "says"),
    [
        ("POST", "/topics", b"{", 400, "line 1"),
        ("POST", "/topics", b"[]", 400, "The body must be an object."),
        ("POST", "/topics", b"{}", 400, "name is missing."),
        ("POST", "/topics", b'{"name": "x", "partition": 1}', 400, "known: name, partitions"),
        ("POST", "/topics", b'{"name": "x", "partitions": 0}', 400, "partitions must be at least 1."),
        ("POST", "/topics", b'{"name": "<script>"}', 400, "is not a topic name"),
        ("GET", "/topics?limit=0", None, 400, "limit must be from 1 to 1000."),
        ("GET", "/topics?limits=1", None, 400, "known: after, internal, limit, prefix"),
        ("GET", "/topics/x/partitions/y/records", None, 405, "does not take this method"),
        ("GET", "/brokers/first", None, 400, "must be a whole number"),
        ("GET", "/nowhere", None, 404, "nothing at this path"),
    ],
)
def test_what_is_wrong_with_a_request_is_said(
    http: httpx.Client, method: str, path: str, body: bytes | None, status: int, says: str
) -> None:
    headers = {"Content-Type": "application/json"} if body is not None else {}
    answer = http.request(method, path, content=body, headers=headers)

    assert (answer.status_code, answer.headers["Content-Type"]) == (status, "application/problem+json")
    problem = answer.json()
    assert says in problem["detail"], problem
    assert problem["status"] == status
    assert problem["advice"]


def test_a_body_of_another_kind_is_refused(http: httpx.Client) -> None:
    answer = http.post("/topics", content=b"name=x", headers={"Content-Type": "application/x-www-form-urlencoded"})

    assert (answer.status_code, answer.json()["code"]) == (415, "media_type_not_taken")

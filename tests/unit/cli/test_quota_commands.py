"""Quotas from the command line: set, shown, removed, and refused in a sentence."""

import json
from collections.abc import Callable
from typing import Any

Command = Callable[..., Any]


def limits(client: Command, entity: str) -> dict[str, float]:
    rows = json.loads(client("quota", "list", "--json").output)
    return {row["limit"]: row["value"] for row in rows if row["entity"] == entity}


def test_a_limit_is_set_shown_and_removed(client: Command, topic: str) -> None:
    entity = f"client-id={topic}"
    assert client("quota", "set", entity, "producer_byte_rate=5000", "request_percentage=50").code == 0
    table = client("quota", "list").output
    found = limits(client, entity)
    client("quota", "set", entity, "producer_byte_rate=none", "request_percentage=none")

    assert entity in table
    assert found == {"producer_byte_rate": 5000.0, "request_percentage": 50.0}
    assert limits(client, entity) == {}


def test_those_who_have_none_of_their_own_are_named_by_a_star(client: Command) -> None:
    client("quota", "set", "user=nobody,client-id=*", "consumer_byte_rate=7000")
    found = limits(client, "client-id=*,user=nobody") or limits(client, "user=nobody,client-id=*")
    client("quota", "set", "user=nobody,client-id=*", "consumer_byte_rate=none")

    assert found == {"consumer_byte_rate": 7000.0}


def test_what_makes_no_sense_is_refused_in_a_sentence(client: Command) -> None:
    unknown = client("quota", "set", "client-id=app", "colour=7")
    wrong = client("quota", "set", "client-id=app", "producer_byte_rate=much")
    nobody = client("quota", "set", "planet=mars", "producer_byte_rate=7")

    assert unknown.code == 1
    assert "Unknown quota colour" in unknown.remarks
    assert wrong.code == 2
    assert nobody.code == 1
    assert "There are no quotas for planet" in nobody.remarks
    assert "quotas are for user, client-id, user and client-id, ip, or topic" in nobody.remarks


def test_a_limit_for_a_topic_that_does_not_exist_is_set_with_a_warning(client: Command, topic: str) -> None:
    early = client("quota", "set", f"topic={topic}", "storage_bytes=10")
    client("topic", "create", topic)
    late = client("quota", "set", f"topic={topic}", "storage_bytes=none")

    assert early.code == late.code == 0
    assert f"Topic {topic} does not exist: the limit counts once it does." in early.remarks
    assert "does not exist" not in late.remarks

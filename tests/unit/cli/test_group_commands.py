"""Groups from the command line: members read on where they stopped, lag is seen, offsets are moved."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer

Command = Callable[..., Any]


@pytest.fixture
def read_topic(client: Command, topic: str) -> str:
    """A topic with five records in partition 0 that the group of the same name has read."""
    client("topic", "create", topic, "--partitions", "2")
    client("produce", topic, "--partition", "0", given=b"0\n1\n2\n3\n4\n")
    outcome = client("consume", topic, "--group", topic)
    assert outcome.output.split() == ["0", "1", "2", "3", "4"]
    return topic


def total_lag(client: Command, group: str) -> int:
    return int(json.loads(client("group", "lag", group, "--json").output)["total_lag"])


def test_a_group_reads_on_where_it_stopped(client: Command, read_topic: str) -> None:
    client("produce", read_topic, "--partition", "0", given=b"5\n")

    before = total_lag(client, read_topic)
    more = client("consume", read_topic, "--group", read_topic, "--format", "received", "--consumer-id", "c1")

    assert before == 1
    assert more.output == "c1 received 5\n"
    assert total_lag(client, read_topic) == 0


def test_a_group_is_listed_described_and_deleted(client: Command, read_topic: str) -> None:
    listed = json.loads(client("group", "list", "--json").output)
    described = json.loads(client("group", "describe", read_topic, "--json").output)
    deleted = client("group", "delete", read_topic, "--yes")
    gone = client("group", "describe", read_topic)

    assert {row["group"]: row["state"] for row in listed}[read_topic] == "empty"
    assert (described["state"], described["members"]) == ("empty", [])
    assert (deleted.code, gone.code) == (0, 1)
    assert f"there is no group {read_topic}" in gone.remarks


@pytest.mark.parametrize(
    ("words", "offset"),
    [
        (("--to", "earliest"), 0),
        (("--to", "latest"), 5),
        (("--to", "3"), 3),
        (("--to", "99"), 5),
        (("--to", "2000-01-01"), 0),
        (("--by", "-2"), 3),
        (("--by", "-99"), 0),
    ],
)
def test_a_reset_shows_its_plan_and_moves_nothing_before_it_is_told_to(
    client: Command, read_topic: str, words: tuple[str, ...], offset: int
) -> None:
    planned = json.loads(client("group", "reset", read_topic, "--topic", f"{read_topic}:0", *words, "--json").output)
    untouched = total_lag(client, read_topic)
    done = json.loads(client("group", "reset", read_topic, "--topic", f"{read_topic}:0", *words, "--execute", "--json").output)

    assert planned["partitions"] == [{"topic": read_topic, "partition": 0, "from": 5, "to": offset}]
    assert (planned["executed"], done["executed"]) == (False, True)
    assert untouched == 0
    assert total_lag(client, read_topic) == 5 - offset


def test_a_reset_says_who_stands_in_its_way(client: Command, bootstrap: str, read_topic: str) -> None:
    member = Consumer({"bootstrap.servers": bootstrap, "group.id": read_topic})
    member.subscribe([read_topic])
    try:
        deadline = time.monotonic() + 30
        while not member.assignment() and time.monotonic() < deadline:
            member.poll(0.1)
        reset = client("group", "reset", read_topic, "--to", "earliest", "--execute")
        deleted = client("group", "delete", read_topic, "nobody", "--yes")
    finally:
        member.close()

    assert (reset.code, deleted.code) == (1, 1)
    assert f"group {read_topic} has 1 member: stop them, then reset." in reset.remarks
    assert "NON_EMPTY_GROUP" in deleted.remarks
    assert "GROUP_ID_NOT_FOUND" in deleted.remarks
    assert total_lag(client, read_topic) == 0


def test_a_reset_of_what_was_never_read_needs_a_place(client: Command, topic: str) -> None:
    client("topic", "create", topic)
    client("produce", topic, given=b"0\n1\n")

    nothing = client("group", "reset", f"new-{topic}", "--to", "earliest")
    shifted = client("group", "reset", f"new-{topic}", "--topic", topic, "--by", "1")
    placed = client("group", "reset", f"new-{topic}", "--topic", topic, "--to", "1", "--execute")

    assert (nothing.code, shifted.code, placed.code) == (1, 1, 0)
    assert total_lag(client, f"new-{topic}") == 1
    assert client("consume", topic, "--group", f"new-{topic}").output == "1\n"

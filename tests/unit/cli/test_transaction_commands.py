"""Transactions from the command line: seen, described, and ended by force."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

Command = Callable[..., Any]

WAIT_S = 20.0


@pytest.fixture
def open_transaction(client: Command, bootstrap: str, topic: str) -> Producer:
    """A producer with an open transaction in partition 1; its transactional id is the topic's name."""
    client("topic", "create", topic, "--partitions", "2")
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=1)
    producer.flush(WAIT_S)
    return producer


def rows(outcome: Any) -> list[dict[str, Any]]:
    assert outcome.code == 0, outcome.remarks
    found: list[dict[str, Any]] = json.loads(outcome.output)
    return found


def test_an_open_transaction_is_listed_and_described(client: Command, open_transaction: Producer, topic: str) -> None:
    listed = rows(client("transaction", "list", "--state", "Ongoing", "--pattern", topic, "--json"))
    (described,) = rows(client("transaction", "describe", topic, "--json"))
    table = client("transaction", "list", "--pattern", topic)

    assert [(row["transactional_id"], row["state"]) for row in listed] == [(topic, "Ongoing")]
    assert described["partitions"] == [f"{topic}-1"]
    assert (described["state"], described["timeout_ms"]) == ("Ongoing", 60_000)
    assert described["producer_id"] == listed[0]["producer_id"]
    assert topic in table.output


def test_filters_leave_out_what_does_not_match(client: Command, open_transaction: Producer, topic: str) -> None:
    assert rows(client("transaction", "list", "--pattern", topic, "--longer-than", "3600", "--json")) == []
    assert rows(client("transaction", "list", "--pattern", topic, "--state", "PrepareCommit", "--json")) == []
    assert rows(client("transaction", "list", "--pattern", topic, "--producer-id", "999999999", "--json")) == []


def test_wrong_filters_are_told_in_a_sentence(client: Command, open_transaction: Producer) -> None:
    state = client("transaction", "list", "--state", "Sleeping")
    pattern = client("transaction", "list", "--pattern", "(")

    assert state.code == 2
    assert "there is no state Sleeping" in state.remarks
    assert pattern.code == 1
    assert "INVALID_REGULAR_EXPRESSION" in pattern.remarks


def test_an_unknown_transactional_id_is_told_in_a_sentence(client: Command, topic: str) -> None:
    outcome = client("transaction", "describe", f"nobody-{topic}")

    assert outcome.code == 1
    assert f"there is no transactional id nobody-{topic}" in outcome.remarks


def test_aborting_by_id_ends_the_transaction_and_fences_its_producer(
    client: Command, open_transaction: Producer, topic: str
) -> None:
    unasked = client("transaction", "abort", topic)
    aborted = client("transaction", "abort", topic, "--yes")
    again = client("transaction", "abort", topic, "--yes")
    (described,) = rows(client("transaction", "describe", topic, "--json"))
    with pytest.raises(KafkaException):
        open_transaction.commit_transaction(WAIT_S)

    assert unasked.code == 2
    assert aborted.code == 0
    assert described["state"] == "Empty"
    assert again.code == 1
    assert "there is no open transaction to abort" in again.remarks


def test_aborting_in_a_partition_ends_the_transaction_there(client: Command, open_transaction: Producer, topic: str) -> None:
    before = rows(client("producer", "list", topic, "--open", "--json"))
    aborted = client("transaction", "abort", "--topic", topic, "--partition", "1", "--yes")
    after = rows(client("producer", "list", topic, "--open", "--json"))
    elsewhere = client("transaction", "abort", "--topic", topic, "--partition", "0", "--yes")

    assert [(row["partition"], row["open_from_offset"]) for row in before] == [(1, 0)]
    assert aborted.code == 0
    assert after == []
    assert elsewhere.code == 1
    assert "no such transaction is open" in elsewhere.remarks


def test_what_to_abort_must_be_said_once(client: Command, topic: str) -> None:
    assert client("transaction", "abort").code == 2
    assert client("transaction", "abort", topic, "--topic", topic).code == 2


def test_producers_are_listed_with_their_last_sequence(client: Command, bootstrap: str, topic: str) -> None:
    client("topic", "create", topic)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for _ in range(3):
        producer.produce(topic, b"x")
    producer.flush(WAIT_S)
    (found,) = rows(client("producer", "list", topic, "--json"))
    table = client("producer", "list", topic)
    unknown = client("producer", "list", f"no-{topic}")

    assert (found["last_sequence"], found["open_from_offset"]) == (2, None)
    assert str(found["producer_id"]) in table.output.replace(",", "")
    assert unknown.code == 1

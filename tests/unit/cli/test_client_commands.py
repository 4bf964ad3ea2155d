"""Topics, records and groups from the command line, against a broker."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

Command = Callable[..., Any]


@pytest.fixture
def created(client: Command, topic: str) -> str:
    assert client("topic", "create", topic, "--partitions", "3").code == 0
    return topic


def values(client: Command, *words: str) -> list[str]:
    outcome = client("consume", *words)
    assert outcome.code == 0, outcome.remarks
    return sorted(outcome.output.splitlines())


def test_a_topic_is_created_listed_described_altered_and_deleted(client: Command, topic: str) -> None:
    made = client("topic", "create", topic, "--partitions", "2", "--config", "retention.ms=3600000")
    altered = client(
        "topic", "alter", topic, "--partitions", "4", "--config", "max.message.bytes=5000", "--unset", "retention.ms"
    )
    listed = json.loads(client("topic", "list", "--json").output)
    described = json.loads(client("topic", "describe", topic, "--json").output)
    deleted = client("topic", "delete", topic, "--yes")
    gone = client("topic", "describe", topic)

    assert (made.code, altered.code, deleted.code, gone.code) == (0, 0, 0, 1)
    assert topic in {row["topic"] for row in listed}
    assert len(described["partitions"]) == 4
    assert {row["name"]: row["value"] for row in described["settings"]} == {"max.message.bytes": "5000"}
    assert f"there is no topic {topic}" in gone.remarks


def test_creating_a_topic_twice_fails_unless_that_is_said_to_be_fine(client: Command, created: str) -> None:
    again = client("topic", "create", created)
    fine = client("topic", "create", created, "--if-not-exists")

    assert (again.code, fine.code) == (1, 0)
    assert "TOPIC_ALREADY_EXISTS" in again.remarks


def test_a_wrong_setting_is_refused_with_its_name(client: Command, topic: str) -> None:
    outcome = client("topic", "create", topic, "--config", "no.such.setting=1")

    assert outcome.code == 1
    assert "no.such.setting" in outcome.remarks


def test_nothing_is_destroyed_by_a_script_that_does_not_say_yes(client: Command, created: str) -> None:
    assert client("topic", "delete", created).code == 2
    assert client("topic", "purge", created).code == 2
    assert client("topic", "describe", created).code == 0


def test_lines_become_records_and_records_become_lines(client: Command, created: str) -> None:
    written = client("produce", created, given=b"one\ntwo\r\n\nfour")

    assert written.code == 0
    assert "4 records written" in written.remarks
    assert values(client, created) == ["", "four", "one", "two"]


def test_keys_headers_tombstones_and_times_are_written_as_asked(client: Command, created: str) -> None:
    client(
        "produce", created, "--key-separator", ":", "--header", "source=test", "--null", "NULL", "--timestamp", "1700000000000",
        "--partition", "1", "--compression", "zstd", given=b"alice:NULL\nbob:a:b\n",
    )  # fmt: skip

    lines = client("consume", created, "--json").output.splitlines()

    first, second = (json.loads(line) for line in lines)
    assert (first["key"], first["value"], first["headers"], first["partition"]) == ("alice", None, [["source", "test"]], 1)
    assert (second["key"], second["value"], second["timestamp"], second["offset"]) == ("bob", "a:b", 1_700_000_000_000, 1)


def test_a_line_without_a_key_stops_the_writing_and_names_the_line(client: Command, created: str) -> None:
    outcome = client("produce", created, "--key-separator", ":", given=b"a:1\nb2\nc:3\n")

    assert outcome.code == 1
    assert "line 2 has no key separator ':': b2" in outcome.remarks
    assert values(client, created) == ["1"]


def test_a_message_the_broker_refuses_is_a_failure(client: Command, topic: str) -> None:
    client("topic", "create", topic, "--config", "max.message.bytes=1000")

    outcome = client("produce", topic, given=b"x" * 5000)

    assert outcome.code == 1
    assert "0 records were written" in outcome.remarks


def test_reading_begins_at_an_offset_or_a_time_and_ends_after_a_count(client: Command, created: str) -> None:
    for number in range(5):
        at = str(1_700_000_000_000 + number * 60_000)
        client("produce", created, "--partition", "0", "--timestamp", at, given=f"{number}\n".encode())

    assert values(client, created, "--partition", "0", "--from", "3") == ["3", "4"]
    assert values(client, created, "--from", "2023-11-14T22:14:21Z") == ["2", "3", "4"]
    assert values(client, created, "--from", "1", "--partition", "0", "--count", "2") == ["1", "2"]
    assert values(client, created, "--from", "latest") == []
    assert values(client, created, "--from", "2030-01-01") == []


def test_an_offset_outside_of_the_partition_is_a_sentence(client: Command, created: str) -> None:
    outcome = client("consume", created, "--partition", "0", "--from", "7")

    assert outcome.code == 1
    assert f"offset 7 is outside of {created} partition 0, which has 0 to 0." in outcome.remarks


@pytest.mark.parametrize(
    ("format", "line"),
    [
        ("value", "v"),
        ("key-value", "k\tv"),
        ("{partition}:{offset} {key}={value} [{headers}]", "2:0 k=v [a=b]"),
        ("{topic}{{}}", "TOPIC{}"),
        ("received", "me received v"),
    ],
)
def test_a_record_is_printed_in_the_format_that_was_asked_for(client: Command, created: str, format: str, line: str) -> None:
    client("produce", created, "--key", "k", "--header", "a=b", "--partition", "2", given=b"v\n")

    outcome = client("consume", created, "--format", format, "--consumer-id", "me")

    assert outcome.output == line.replace("TOPIC", created) + "\n"


@pytest.mark.parametrize("format", ["nonsense", "{nonsense}", "{value", "{value.__class__}"])
def test_an_unknown_format_is_a_usage_error(client: Command, created: str, format: str) -> None:
    assert client("consume", created, "--format", format).code == 2


def test_an_expired_record_is_never_shown(client: Command, created: str) -> None:
    long_ago = str(time.time_ns() // 1_000_000 - 60_000)
    client("produce", created, "--ttl-ms", "1000", "--timestamp", long_ago, given=b"expired\n")
    client("produce", created, "--ttl-ms", "600000", given=b"fresh\n")

    assert values(client, created) == ["fresh"]


def test_bytes_that_are_no_text_survive_both_ways(client: Command, created: str) -> None:
    client("produce", created, given=b"\xff\xfe\x00\n")

    (line,) = client("consume", created, "--json").output.splitlines()

    assert json.loads(line)["value"] == {"base64": "//4A"}


def test_a_purged_topic_is_empty_and_still_there(client: Command, created: str) -> None:
    client("produce", created, "--partition", "0", given=b"1\n2\n3\n")

    partly = client("topic", "purge", created, "--partition", "0", "--before", "2", "--yes")
    rest = values(client, created)
    wholly = json.loads(client("topic", "purge", created, "--yes", "--json").output)

    assert partly.code == 0
    assert rest == ["3"]
    assert {row["partition"]: row["start_offset"] for row in wholly["partitions"]} == {0: 3, 1: 0, 2: 0}
    assert values(client, created) == []


def test_reading_a_topic_that_is_not_there_creates_nothing(client: Command, topic: str) -> None:
    outcome = client("consume", topic)

    assert outcome.code == 1
    assert topic not in {row["topic"] for row in json.loads(client("topic", "list", "--json").output)}


@pytest.mark.parametrize("words", [("topic", "list"), ("group", "list"), ("consume", "TOPIC"), ("produce", "TOPIC")])
def test_a_property_that_the_client_does_not_know_is_one_sentence(client: Command, created: str, words: tuple[str, ...]) -> None:
    refused = client(*(created if word == "TOPIC" else word for word in words), "-X", "nope=1")

    assert refused.code == 1
    assert refused.remarks == 'headrace: librdkafka does not accept these settings: No such configuration property: "nope".\n'


def test_a_line_that_is_too_long_is_told_its_size_and_the_limit(client: Command, created: str) -> None:
    for_the_client = client("produce", created, given=b"x" * 2_000_000)
    assert client("topic", "alter", created, "--config", "max.message.bytes=1000").code == 0
    for_the_topic = client("produce", created, given=b"x" * 5_000)

    assert (for_the_client.code, for_the_topic.code) == (1, 1)
    assert "a record of 2,000,000 bytes is above message.max.bytes of the client" in for_the_client.remarks
    assert "a record of 5,000 bytes" in for_the_topic.remarks
    assert "max.message.bytes of the topic, which is 1,000 bytes" in for_the_topic.remarks


def test_a_line_without_a_key_for_a_compacted_topic_is_told_how_to_give_one(client: Command, created: str) -> None:
    assert client("topic", "alter", created, "--config", "cleanup.policy=compact").code == 0
    refused = client("produce", created, given=b"x")

    assert refused.code == 1
    assert f"{created} is compacted: every record needs a key (--key, --key-separator)." in refused.remarks


def test_a_purge_beyond_the_end_is_told_the_range(client: Command, created: str) -> None:
    refused = client("topic", "purge", created, "--partition", "0", "--before", "100", "--yes")

    assert refused.code == 1
    assert "partition 0 ends at offset 0; --before takes 0 to 0 there, not 100." in refused.remarks


def test_a_partition_that_does_not_exist_is_named_as_such(client: Command, created: str) -> None:
    refused = client("produce", created, "--partition", "9", given=b"x")

    assert refused.code == 1
    assert "1 was not: the topic has no such partition." in refused.remarks

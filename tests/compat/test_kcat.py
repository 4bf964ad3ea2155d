"""kcat as Debian ships it, with a librdkafka some years older than ours: keys, headers, nulls, codecs and seeks by time."""

import json
import shutil
import subprocess

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.compat_cases import CODECS, LARGE_TOPIC_BYTES, TIMES_MS, mebibyte_of_noise

pytestmark = pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed: apt install kcat")

WAIT_S = 20


def kcat(bootstrap: str, *arguments: str, lines: bytes = b"") -> bytes:
    command = ["kcat", "-b", bootstrap, "-X", f"message.max.bytes={LARGE_TOPIC_BYTES}", *arguments]
    done = subprocess.run(command, input=lines, capture_output=True, timeout=WAIT_S, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def create(bootstrap: str, topic: str, partitions: int = 1, **config: str) -> None:
    """kcat has no call for this."""
    settings = {name.replace("_", "."): value for name, value in config.items()}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result(WAIT_S)


@pytest.mark.parametrize("codec", CODECS)
def test_lines_with_keys_headers_and_nulls_come_back_as_they_were_sent(bootstrap: str, topic: str, codec: str) -> None:
    create(bootstrap, topic)
    lines = b"key:value\ntombstone:\nx:y\n" + "schlüssel:wert-値\n".encode()

    kcat(bootstrap, "-P", "-t", topic, "-p", "0", "-K", ":", "-Z", "-z", codec, "-H", "trace=1234", "-H", "empty=", lines=lines)
    printed = kcat(bootstrap, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-J")

    got = [json.loads(line) for line in printed.splitlines()]
    assert [(record["key"], record["payload"]) for record in got] == [
        ("key", "value"),
        ("tombstone", None),
        ("x", "y"),
        ("schlüssel", "wert-値"),
    ]
    assert [record["offset"] for record in got] == [0, 1, 2, 3]
    assert {tuple(record["headers"]) for record in got} == {("trace", "1234", "empty", "")}


@pytest.mark.parametrize("codec", CODECS)
def test_a_message_of_a_byte_and_one_of_a_mebibyte_come_back_whole(bootstrap: str, topic: str, codec: str) -> None:
    create(bootstrap, topic, max_message_bytes=str(LARGE_TOPIC_BYTES))
    large = mebibyte_of_noise().replace(b"\n", b"-")

    kcat(bootstrap, "-P", "-t", topic, "-p", "0", "-z", codec, lines=b"x\n" + large + b"\n")
    printed = kcat(bootstrap, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-f", "%S:%s\n")

    assert printed == b"1:x\n%d:%s\n" % (len(large), large)


def test_a_read_from_a_time_begins_at_the_first_record_at_or_after_it(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic)
    producer = Producer({"bootstrap.servers": bootstrap})
    for timestamp in TIMES_MS:
        producer.produce(topic, str(timestamp).encode(), partition=0, timestamp=timestamp)
        producer.flush(WAIT_S)

    printed = kcat(bootstrap, "-C", "-t", topic, "-p", "0", "-o", f"s@{TIMES_MS[1] + 1}", "-e", "-q", "-f", "%T %s\n")
    asked = kcat(bootstrap, "-Q", "-t", f"{topic}:0:{TIMES_MS[3]}")

    assert printed.decode().splitlines() == [f"{timestamp} {timestamp}" for timestamp in TIMES_MS[2:]]
    assert asked.decode().split() == [topic, "[0]", "offset", "3"]


def test_the_metadata_lists_the_topic_with_its_partitions(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, partitions=3)

    listed = json.loads(kcat(bootstrap, "-L", "-J", "-t", topic))

    (found,) = listed["topics"]
    assert found["topic"] == topic
    assert [partition["partition"] for partition in found["partitions"]] == [0, 1, 2]
    assert len(listed["brokers"]) >= 1


def test_a_group_reads_every_partition_and_goes_on_where_it_stopped(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, partitions=3)
    for partition in range(3):
        kcat(bootstrap, "-P", "-t", topic, "-p", str(partition), lines=f"first-{partition}\n".encode())
    group = ("-G", f"group-{topic}", "-q", "-e", "-X", "auto.offset.reset=earliest", topic)

    first = kcat(bootstrap, *group)
    kcat(bootstrap, "-P", "-t", topic, "-p", "1", lines=b"second\n")
    second = kcat(bootstrap, *group)

    assert sorted(first.splitlines()) == [b"first-0", b"first-1", b"first-2"]
    assert second.splitlines() == [b"second"]

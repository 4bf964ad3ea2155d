"""Records written and read over HTTP, beside a real broker and the SDK."""

import base64
import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from headrace import Consumer, Producer
from headrace.testing import Broker
from tests.support.gateway import GatewayThread
from tests.support.waiting import until

NDJSON = {"Content-Type": "application/x-ndjson"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"num.partitions": 1}) as running:
        yield running


@pytest.fixture(scope="module")
def gateway(broker: Broker) -> Iterator[GatewayThread]:
    with GatewayThread(broker.bootstrap) as running:
        yield running


@pytest.fixture
def http(gateway: GatewayThread) -> httpx.Client:
    return gateway.client


def read_all(broker: Broker, topic: str) -> list[tuple[Any, Any, Any]]:
    with Consumer(topic, bootstrap=broker.bootstrap) as consumer:
        return [(record.raw_key, record.raw_value, record.headers) for record in consumer.to_end()]


def test_one_record_is_answered_with_its_place(http: httpx.Client, broker: Broker) -> None:
    answer = http.post("/topics/one/records", json={"key": "ann", "value": {"total": 12.5}, "headers": {"source": "web"}})

    assert answer.status_code == 200, answer.text
    (written,) = answer.json()["records"]
    assert (written["partition"], written["offset"], written["error"]) == (0, 0, None)
    assert read_all(broker, "one") == [(b"ann", b'{"total":12.5}', [("source", b"web")])]


def test_each_format_becomes_its_bytes(http: httpx.Client, broker: Broker) -> None:
    binary = base64.b64encode(b"\xff\x00").decode()
    records = [
        {"value": "text", "value_format": "text"},
        {"value": "text"},
        {"value": binary, "value_format": "binary", "key": binary, "key_format": "binary"},
        {"key": {"id": 7}, "value": None},
        {"value": 1, "headers": [["a", "1"], ["a", None], ["b", binary, "binary"]], "timestamp": 1000, "partition": 0},
    ]
    http.post("/topics/formats/records", json={"records": records})
    http.post("/topics/formats/records?key=k", content=b"as it is", headers={"Content-Type": "text/plain"})
    http.post("/topics/formats/records", content=b"\xfe", headers={"Content-Type": "application/octet-stream"})

    assert read_all(broker, "formats") == [
        (None, b"text", []),
        (None, b'"text"', []),
        (b"\xff\x00", b"\xff\x00", []),
        (b'{"id":7}', None, []),
        (None, b"1", [("a", b"1"), ("a", None), ("b", b"\xff\x00")]),
        (b"k", b"as it is", []),
        (None, b"\xfe", []),
    ]


def test_a_stream_of_lines_is_answered_line_by_line(http: httpx.Client, broker: Broker) -> None:
    lines = [json.dumps({"key": f"k{number}", "value": number}) for number in range(5000)]
    lines[3:3] = ["this is no JSON", '{"value": 1, "headers": 5}']

    answer = http.post("/topics/stream/records", content="\n".join(lines).encode(), headers=NDJSON)

    answers = [json.loads(line) for line in answer.text.splitlines()]
    assert len(answers) == 5002
    assert [index for index, each in enumerate(answers) if "error" in each] == [3, 4]
    assert answers[3]["error"]["detail"] == "The line is not JSON."
    assert sorted(each["offset"] for each in answers if "error" not in each) == list(range(5000))
    assert [value for _, value, _ in read_all(broker, "stream")] == [b"%d" % number for number in range(5000)]


def test_each_record_that_fails_has_its_own_error(http: httpx.Client, broker: Broker) -> None:
    http.post("/topics", json={"name": "small", "partitions": 2, "settings": {"max.message.bytes": 1000}})
    # A broker refuses a batch as a whole: the one that is too large is alone in its partition.
    records = [{"value": "x", "partition": 0}, {"value": "y" * 5000, "partition": 1}, {"value": 1, "partition": 9}]

    some = http.post("/topics/small/records", json={"records": records})
    alone = http.post("/topics/small/records", json=records[1])

    assert some.status_code == 207
    first, second, third = some.json()["records"]
    assert (first["offset"], first["error"]) == (0, None)
    assert (second["offset"], second["error"]["code"]) == (None, "message_too_large")
    assert third["error"]["status"] in (400, 404)
    assert (alone.status_code, alone.json()["code"]) == (413, "message_too_large")


def test_reading_goes_on_where_the_answer_says(http: httpx.Client, broker: Broker) -> None:
    http.post("/topics", json={"name": "read", "partitions": 3})
    with Producer(broker.bootstrap) as producer:
        for number in range(30):
            producer.send("read", b"%d" % number, partition=number % 3)

    seen: list[int] = []
    query: dict[str, Any] = {"limit": 7}
    while True:
        answer = http.get("/topics/read/records", params=query).json()
        if not answer["records"]:
            break
        assert len(answer["records"]) <= 7
        seen.extend(record["value"] for record in answer["records"])
        query = {"limit": 7, "cursor": answer["next"]}

    assert sorted(seen) == list(range(30))
    assert [number for number in seen if number % 3 == 1] == list(range(1, 30, 3))


def test_a_reader_begins_at_an_offset_a_time_or_an_end(http: httpx.Client, broker: Broker) -> None:
    with Producer(broker.bootstrap) as producer:
        for second in range(1, 6):
            producer.send("places", b"%d" % second, timestamp=second * 1000).result()

    def values(**query: Any) -> list[int]:
        return [record["value"] for record in http.get("/topics/places/records", params=query).json()["records"]]

    assert values() == [1, 2, 3, 4, 5]
    assert values(**{"from": "2", "partition": 0}) == [3, 4, 5]
    assert values(**{"from": "1970-01-01T00:00:04Z"}) == [4, 5]
    assert values(**{"from": "latest"}) == []
    assert http.get("/topics/places/records", params={"from": "99", "partition": 0}).json()["code"] == "offset_out_of_range"
    assert http.get("/topics/places/records", params={"partition": 5}).json()["code"] == "topic_not_found"
    assert http.get("/topics/places/records", params={"cursor": "nonsense!"}).status_code == 400


def test_a_long_poll_ends_with_the_first_record(gateway: GatewayThread, broker: Broker) -> None:
    gateway.client.post("/topics", json={"name": "awaited", "partitions": 2})
    found: list[Any] = []

    def wait() -> None:
        with httpx.Client(base_url=gateway.url, timeout=60) as client:
            found.append(client.get("/topics/awaited/records", params={"wait_ms": 30_000}).json())

    waiting = threading.Thread(target=wait)
    waiting.start()
    until(
        lambda: gateway.ask(lambda running: sum(len(each.cluster.tails) for each in running.callers)) == 2,
        "it waits at both ends",
    )
    with Producer(broker.bootstrap) as producer:
        producer.send("awaited", b'"here"', partition=1).result()
    waiting.join(30)

    assert [record["value"] for record in found[0]["records"]] == ["here"]
    until(lambda: gateway.ask(lambda running: sum(len(each.cluster.tails) for each in running.callers)) == 0, "nobody watches")
    answer = gateway.client.get("/topics/awaited/records", params={"wait_ms": 10, "cursor": found[0]["next"]}).json()
    assert answer["records"] == []


def test_lines_come_out_as_lines_and_formats_are_told(http: httpx.Client, broker: Broker) -> None:
    with Producer(broker.bootstrap) as producer:
        for value in (b'{"a":1}', b"plain text", b"\xff\xfe", None):
            producer.send("shown", value, key=b"k").result()

    answer = http.get("/topics/shown/records", headers={"Accept": "application/x-ndjson"})
    raw = http.get("/topics/shown/records", params={"values": "binary", "keys": "text", "limit": 1}).json()["records"][0]

    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [(line["value"], line["value_format"]) for line in lines] == [
        ({"a": 1}, "json"),
        ("plain text", "text"),
        ("//4=", "binary"),
        (None, None),
    ]
    assert (raw["value"], raw["key"]) == (base64.b64encode(b'{"a":1}').decode(), "k")
    assert http.get("/topics/shown/records", params={"cursor": answer.headers["Headrace-Next"]}).json()["records"] == []


def test_what_transactions_have_not_committed_is_left_out_by_wish(http: httpx.Client, broker: Broker) -> None:
    with Producer(broker.bootstrap, transactional_id="of-test") as producer:
        with producer.transaction():
            producer.send("committed", b"1")
        try:
            with producer.transaction():
                producer.send("committed", b"2").result()
                raise InterruptedError
        except InterruptedError:
            pass
        with producer.transaction():
            producer.send("committed", b"3")

    def values(isolation: str) -> list[int]:
        answer = http.get("/topics/committed/records", params={"isolation": isolation}).json()
        return [record["value"] for record in answer["records"]]

    assert values("read_committed") == [1, 3]
    assert values("read_uncommitted") == [1, 2, 3]


def test_a_name_that_is_none_is_refused(http: httpx.Client) -> None:
    answer = http.post("/topics/no%20name/records", json={"value": 1})

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")

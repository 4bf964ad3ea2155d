"""Records written and read by a registered schema over HTTP: JSON in and out, and in the log what other clients read."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from headrace import Consumer
from headrace.client.formats.avro import Avro
from headrace.client.formats.registry import SchemaRegistry
from headrace.testing import Broker
from tests.support.gateway import GatewayThread

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}],
}
DOCUMENT = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
PROTO = 'syntax = "proto3";\nmessage Order { int64 id = 1; repeated string tags = 2; message Line { string name = 1; } }\n'


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture(scope="module")
def http(broker: Broker) -> Iterator[httpx.Client]:
    with GatewayThread(broker.bootstrap) as gateway:
        yield gateway.client


def register(http: httpx.Client, subject: str, kind: str, text: str) -> int:
    answer = http.post(f"/subjects/{subject}/versions", json={"schema": text, "schemaType": kind})
    assert answer.status_code == 200, answer.text
    return int(answer.json()["id"])


@pytest.mark.parametrize(
    ("kind", "text", "good", "bad"),
    [
        ("AVRO", json.dumps(ORDER), {"id": 7, "note": {"string": "soon"}}, {"id": "seven", "note": None}),
        ("JSON", json.dumps(DOCUMENT), {"id": 7}, {"id": "seven"}),
        ("PROTOBUF", PROTO, {"id": "7", "tags": ["a"]}, {"id": "seven"}),
    ],
)
def test_what_is_written_by_a_schema_is_read_by_it(http: httpx.Client, kind: str, text: str, good: Any, bad: Any) -> None:
    topic = f"orders-{kind.lower()}"
    http.post("/topics", json={"name": topic})
    number = register(http, f"{topic}-value", kind, text)
    by_schema = {"value_format": "schema"}
    one = http.post(f"/topics/{topic}/records", params=by_schema, json={"value": good})
    lines = "\n".join(json.dumps({"key": "k", "value": each}) for each in (good, bad))
    streamed = http.post(
        f"/topics/{topic}/records", params=by_schema, content=lines, headers={"Content-Type": "application/x-ndjson"}
    )
    refused = http.post(f"/topics/{topic}/records", params={**by_schema, "value_schema_id": number}, json={"value": bad})
    missing = http.post(f"/topics/{topic}/records", params={**by_schema, "value_schema_id": 999}, json={"value": good})
    read = http.get(f"/topics/{topic}/records", params={"values": "schema"}).json()["records"]
    raw = http.get(f"/topics/{topic}/records", params={"values": "binary"}).json()["records"]

    assert one.status_code == 200, one.text
    assert [each.get("offset") for each in map(json.loads, streamed.text.splitlines())] == [1, None]
    assert (refused.status_code, refused.json()["code"]) == (422, "not_of_the_schema")
    assert missing.json()["code"] == "schema_not_found"
    assert [(each["value"], each["value_format"]) for each in read] == [(good, "schema")] * 2
    assert raw[0]["value"].startswith("AAAAA")


def test_other_clients_read_it_and_what_has_no_schema_is_shown_as_it_is(http: httpx.Client, broker: Broker) -> None:
    http.post("/topics", json={"name": "shared"})
    http.post("/topics/shared/records", content=b"\xff\xfe", headers={"Content-Type": "application/octet-stream"})
    lacking = http.post("/topics/shared/records", params={"value_format": "schema"}, json={"value": {"id": 1}})
    register(http, "shared-value", "AVRO", json.dumps(ORDER))
    http.post("/topics/shared/records", params={"value_format": "schema"}, json={"value": {"id": 1, "note": None}})
    read = http.get("/topics/shared/records", params={"values": "schema"}).json()["records"]
    registry = SchemaRegistry(str(http.base_url))
    with Consumer("shared", bootstrap=broker.bootstrap, start="earliest") as consumer:
        last = [record.raw_value for record in consumer.to_end()][-1]

    assert lacking.json()["code"] == "subject_not_found"
    assert [each["value_format"] for each in read] == ["binary", "schema"]
    assert last is not None
    assert Avro(ORDER, registry=registry).decode(last) == {"id": 1, "note": None}


def test_confluents_paths_write_by_schemas_too(http: httpx.Client) -> None:
    http.post("/topics", json={"name": "of-v3"})
    number = register(http, "of-v3-value", "AVRO", json.dumps(ORDER))
    (cluster,) = http.get("/v3/clusters").json()["data"]
    path = f"/v3/clusters/{cluster['cluster_id']}/topics/of-v3/records"
    data = {"id": 1, "note": None}
    ways: list[dict[str, Any]] = [
        {"type": "AVRO", "schema_id": number},
        {"type": "AVRO", "subject": "of-v3-value", "schema_version": 1},
        {"schema_id": number},
        {"type": "AVRO", "subject": "nothing"},
    ]
    codes = [http.post(path, json={"value": {**way, "data": data}}).json()["error_code"] for way in ways]
    read = http.get("/topics/of-v3/records", params={"values": "schema"}).json()["records"]

    assert codes == [200, 200, 200, 404]
    assert [each["value"] for each in read] == [data] * 3

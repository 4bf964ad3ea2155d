"""The paths of Confluent's REST proxy, used as its documentation has it."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from headrace import Consumer, Producer
from headrace.testing import Broker
from tests.support.gateway import GatewayThread
from tests.support.waiting import until

V2 = {"Content-Type": "application/vnd.kafka.v2+json"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"num.partitions": 1}) as running:
        yield running


@pytest.fixture(scope="module")
def http(broker: Broker) -> Iterator[httpx.Client]:
    with GatewayThread(broker.bootstrap) as gateway:
        yield gateway.client


def test_v3_writes_one_record_or_several(http: httpx.Client, broker: Broker) -> None:
    (cluster,) = http.get("/v3/clusters").json()["data"]
    path = f"/v3/clusters/{cluster['cluster_id']}/topics/of-v3/records"
    one = http.post(path, json={"key": {"type": "STRING", "data": "k"}, "value": {"type": "JSON", "data": {"a": 1}}})
    binary = {"type": "BINARY", "data": base64.b64encode(b"\xff").decode()}
    header = {"name": "h", "value": base64.b64encode(b"v").decode()}
    several = [{"value": binary, "headers": [header], "partition_id": 0}, {"value": {"type": "XML"}}, {"value": binary}]
    many = http.post(path, content="".join(map(json.dumps, several)).encode(), headers={"Content-Type": "application/json"})
    elsewhere = http.post("/v3/clusters/another/topics/of-v3/records", json={})

    answer = one.json()
    assert (answer["error_code"], answer["partition_id"], answer["offset"], answer["topic_name"]) == (200, 0, 0, "of-v3")
    assert answer["value"] == {"type": "BINARY", "size": 7}
    assert [json.loads(line)["error_code"] for line in many.text.splitlines()] == [200, 400, 200]
    assert (elsewhere.status_code, elsewhere.json()["error_code"]) == (404, 404)
    with Consumer("of-v3", bootstrap=broker.bootstrap) as consumer:
        written = [(record.raw_key, record.raw_value, record.headers) for record in consumer.to_end()]
    assert sorted(written, key=str) == sorted(
        [(b"k", b'{"a":1}', []), (None, b"\xff", [("h", b"v")]), (None, b"\xff", [])], key=str
    )


def test_v2_reads_in_a_group_and_commits(http: httpx.Client, broker: Broker) -> None:
    with Producer(broker.bootstrap) as producer:
        producer.send("of-v2", b'{"n":1}', key=b'"k"').result()
    wanted = {"name": "mine", "format": "json", "auto.offset.reset": "earliest", "auto.commit.enable": "false"}
    made = http.post("/consumers/of-rest", content=json.dumps(wanted), headers=V2).json()
    twice = http.post("/consumers/of-rest", content=json.dumps(wanted), headers=V2)
    base = made["base_uri"]
    subscribed = http.post(f"{base}/subscription", content=json.dumps({"topics": ["of-v2"]}), headers=V2)
    found: list[Any] = []
    until(lambda: found.extend(http.get(f"{base}/records", params={"timeout": 1000}).json()) or found, "a record came")
    committed = http.post(f"{base}/offsets", content=b"", headers=V2)
    lag = http.get("/groups/of-rest/lag").json()["total"]
    deleted = http.delete(base)
    gone = http.get(f"{base}/records")

    assert (made["instance_id"], twice.status_code, twice.json()["error_code"]) == ("mine", 409, 40902)
    assert subscribed.status_code == 204, subscribed.text
    assert found == [{"topic": "of-v2", "key": "k", "value": {"n": 1}, "partition": 0, "offset": 0}]
    assert (committed.status_code, lag, deleted.status_code) == (200, 0, 204)
    assert (gone.status_code, gone.json()["error_code"]) == (404, 40403)

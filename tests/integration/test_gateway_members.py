"""Members of groups over HTTP: read, acknowledged, divided among each other, and taken over from a gateway that died."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace import Producer
from headrace.testing import Broker
from tests.support.gateway import GatewayProcess, GatewayThread
from tests.support.waiting import until


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"num.partitions": 2}) as running:
        yield running


def send(broker: Broker, topic: str, *values: int) -> None:
    with Producer(broker.bootstrap) as producer:
        for value in values:
            producer.send(topic, b"%d" % value, partition=value % 2).result()


def join(client: httpx.Client, group: str, topic: str, **more: Any) -> str:
    answer = client.post(f"/groups/{group}/members", json={"topics": [topic], **more})
    assert answer.status_code == 201, answer.text
    return answer.headers["Location"]


def take(client: httpx.Client, path: str, count: int) -> list[int]:
    """So many values, in as many reads as it takes."""
    values: list[int] = []

    def more() -> bool:
        answer = client.get(f"{path}/records", params={"wait_ms": 2000})
        if answer.status_code != 503:  # a member is taken over
            assert answer.status_code == 200, answer.text
            values.extend(record["value"] for record in answer.json()["records"])
        return len(values) >= count

    until(more, lambda: values, 60)
    return values


def test_what_was_acknowledged_is_not_read_again_and_what_was_not_is(broker: Broker) -> None:
    send(broker, "worked", *range(10))
    with GatewayThread(broker.bootstrap) as gateway:
        first = join(gateway.client, "workers", "worked")
        values = take(gateway.client, first, 10)
        done = gateway.client.post(f"{first}/acknowledgements", json={})
        send(broker, "worked", 10, 11)
        unfinished = take(gateway.client, first, 2)
        assert gateway.client.delete(first).status_code == 204
        again = take(gateway.client, join(gateway.client, "workers", "worked"), 2)
        gone = gateway.client.get(f"{first}/records")

    assert sorted(values) == list(range(10))
    assert done.status_code == 204, done.text
    assert sorted(unfinished) == sorted(again) == [10, 11]
    assert (gone.status_code, gone.json()["code"]) == (404, "member_not_found")


def test_what_is_no_member_is_not_found(broker: Broker) -> None:
    with GatewayThread(broker.bootstrap) as gateway:
        codes = [gateway.client.get(f"/groups/g/members/{name}/records").json()["code"] for name in ("x", "W10", "WzFd")]
        missing = gateway.client.post("/groups/g/members", json={"topics": ["not-there"]})

    assert codes == ["member_not_found"] * 3
    assert missing.json()["code"] == "topic_not_found"


def test_any_gateway_finds_a_member_and_takes_over_a_dead_ones(broker: Broker, tmp_path: Path) -> None:
    send(broker, "kept-on", *range(4))
    with (
        GatewayProcess(broker.bootstrap, tmp_path / "one") as one,
        GatewayProcess(broker.bootstrap, tmp_path / "two") as two,
    ):
        for each in (one, two):
            until(lambda each=each: each.client.get("/live").json()["coordinated"], "it has its lease")
        member = join(one.client, "survivors", "kept-on", session_timeout_ms=6000)
        before = take(two.client, member, 4)
        two.client.post(f"{member}/acknowledgements", json={})
        one.kill()
        send(broker, "kept-on", 4, 5)
        after = take(two.client, member, 2)

    assert sorted(before) == list(range(4))
    assert sorted(after) == [4, 5]

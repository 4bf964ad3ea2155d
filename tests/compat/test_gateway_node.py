"""The gateway, asked by what people use in Node: events by `eventsource`, a socket by `ws`, schemas by Confluent's own client."""

import json
import os
import shutil
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace.testing import Broker
from tests.support.gateway import GatewayThread

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / ".cache" / "kafkajs" / "node_modules"
STORY = Path(__file__).parent / "kafkajs" / "gateway.js"

pytestmark = [
    pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node here: apt install nodejs npm"),
    pytest.mark.skipif(
        not all((PACKAGES / each).is_dir() for each in ("eventsource", "ws", "@confluentinc/schemaregistry")),
        reason="eventsource, ws or @confluentinc/schemaregistry is not installed: `make test` installs them where npm may",
    ),
]


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    with Broker() as broker, GatewayThread(broker.bootstrap) as gateway:
        yield gateway.client


def tell(http: httpx.Client, topic: str, story: str) -> Any:
    http.post("/topics", json={"name": topic})
    done = subprocess.run(
        ["node", str(STORY), str(http.base_url).rstrip("/"), topic, story],
        env={**os.environ, "NODE_PATH": str(PACKAGES)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_eventsource_goes_on_after_the_event_that_it_saw_last(http: httpx.Client) -> None:
    http.post("/topics", json={"name": "watched"})
    http.post("/topics/watched/records", json={"records": [{"value": number} for number in range(4)]})

    assert tell(http, "watched", "events") == [0, 1, 2, 3]


def test_ws_gets_as_many_records_as_it_gives_credits_for(http: httpx.Client) -> None:
    told = tell(http, "spoken", "socket")

    assert told == {"produced": [0, 1, 2], "values": [1, 2, 3]}


def test_confluents_client_registers_compares_writes_and_reads(http: httpx.Client) -> None:
    told = tell(http, "ordered", "registry")

    assert told["ids"] == [True, [1, 2]]
    assert told["compatible"] == [True, False]
    assert told["latest"] == [True, 2]
    assert told["back"] == {"id": 7, "note": "soon"}
    assert (told["read"], told["wrong"]) == ({"id": 8}, True)
    assert told["missing"] == 404
    assert b64decode(told["bytes"])[0] == 0

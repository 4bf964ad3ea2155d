"""A rolling restart that goes by `/ready` alone: whoever is told to go on may go on."""

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer

from headrace.testing.cluster import ProcessCluster
from headrace.testing.etcd import etcd_program, free_port
from headrace.testing.histories import create_topic, wait_for_in_sync
from tests.support.waiting import until

pytestmark = [
    pytest.mark.etcd,
    pytest.mark.slow,
    pytest.mark.xdist_group("cluster"),
    pytest.mark.skipif(etcd_program() is None, reason="etcd is not installed (Debian: apt install etcd-server)"),
]

SECONDS_MAX = 60.0
# What a broker misses while it is away takes it two seconds to fetch.
MISSED_BYTES = 3_000_000
SLOW = {"follower.replication.throttled.rate": "2000000"}
REFUSALS = {KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND}


def ready(port: int) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=SECONDS_MAX) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refusal:
        return refusal.code, json.load(refusal)
    except OSError:
        return 0, {}


def wait_until_ready(port: int) -> list[int]:
    """How many replicas were behind, each time `/ready` said no."""
    behind = []

    def is_ready() -> bool:
        status, body = ready(port)
        if status != 200:
            behind.append(body.get("replicas_behind", 0))
        return status == 200

    until(is_ready, lambda: f"the broker is ready: {ready(port)}", SECONDS_MAX, every_s=0.02)
    return behind


class Writes:
    """Writes that are tried once: whatever they are told is kept."""

    def __init__(self, bootstrap: str) -> None:
        self.codes: list[int] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "retries": 0,
                "linger.ms": 0,
                "log_level": 0,
                "message.timeout.ms": 20_000,
            }
        )

    def write(self, total: int, size: int = 100_000) -> None:
        for _ in range(total // size):
            self._producer.produce("t", b"x" * size, partition=0, on_delivery=self._delivered)
            self._producer.poll(0)
        assert self._producer.flush(SECONDS_MAX) == 0

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        self.codes.append(KafkaError.NO_ERROR if error is None else error.code())


def test_a_roll_that_goes_by_ready_is_never_refused_a_write_for_want_of_replicas(tmp_path: Path) -> None:
    ports = {broker: free_port() for broker in (1, 2, 3)}
    with ProcessCluster(tmp_path / "cluster", broker_count=0) as cluster:
        for broker_id, port in ports.items():
            cluster.settings = {"headrace.health.listener": f"127.0.0.1:{port}", **SLOW}
            cluster.add(broker_id)
        for broker in cluster.brokers.values():
            broker.wait_until_ready()
        create_topic(cluster.bootstrap, "t", 1, 3, min_insync_replicas="2", **{"follower.replication.throttled.replicas": "*"})
        wait_for_in_sync(cluster.bootstrap, "t", 3)
        writes = Writes(cluster.bootstrap)
        writes.write(100_000)
        behind = []
        for broker_id, broker in cluster.brokers.items():
            assert broker.stop() == 0
            writes.write(MISSED_BYTES)
            broker.start()
            behind += wait_until_ready(ports[broker_id])
            # Whoever is ready can be missed by nobody: the next one goes at once, and a write is tried with it away.
            writes.write(200_000)

    assert REFUSALS.isdisjoint(writes.codes)
    assert max(behind) == 1
    assert writes.codes.count(KafkaError.NO_ERROR) > len(writes.codes) * 0.9

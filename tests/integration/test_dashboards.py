"""A real Prometheus scrapes a real cluster by the configuration that `headrace monitoring write` gives it, and every panel of
every dashboard shows something."""

import asyncio
import json
import random
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer

from headrace.cli.monitoring.dashboards import DASHBOARDS
from headrace.cli.monitoring.files import monitoring_files
from headrace.testing.disk import SimulatedDisk
from headrace.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from tests.integration.memory_cluster import MemoryCluster, play
from tests.integration.test_share_groups_cluster import Worker, begin_early
from tests.support.endpoint import Endpoint
from tests.support.gateway import GatewayThread
from tests.support.metrics import AT_ANY_PORT
from tests.support.prometheus import Prometheus, hastened, program
from tests.support.share_requests import ACCEPT, REJECT
from tests.support.waiting import until, until_async

LOOPBACK: dict[str, Any] = {"webhook_networks": ("127.0.0.0/8",), "webhook_http": True}
HASTE = 60  # a scrape each quarter of a second, of the details each second
PROGRESS = {
    "id": "1",
    "name": "copy",
    "batchId": 4,
    "numInputRows": 10,
    "durationMs": {"triggerExecution": 200},
    "eventTime": {"watermark": "2026-01-01T00:00:00.000Z"},
}


def panels() -> dict[str, str]:
    """Every expression as Grafana would ask it, with all values chosen, by where it stands."""
    return {
        f"{dashboard.name}: {panel.title}, {query.legend}": asked_by_grafana(query.expression)
        for dashboard in DASHBOARDS
        for panel in dashboard.panels
        for query in panel.queries
    }


def asked_by_grafana(expression: str) -> str:
    asked = expression.replace("$__rate_interval", "4m")
    for variable in {variable.name for dashboard in DASHBOARDS for variable in dashboard.variables}:
        asked = asked.replace(f"${variable}", ".*")
    return asked


def test_every_panel_shows_something(tmp_path: Path) -> None:
    metrics = pytest.importorskip("headrace.spark.pipeline.metrics", reason="PySpark is not installed")
    program("prometheus")
    watched = metrics.Watch()
    watched.onQueryProgress(SimpleNamespace(progress=SimpleNamespace(json=json.dumps(PROGRESS))))
    exposition = metrics.Exposition(watched, 0)

    async def story() -> None:
        disks = {broker: SimulatedDisk(random.Random(broker)) for broker in (1, 2, 3)}
        async with MemoryCluster(3, {**AT_ANY_PORT, "auto.create.topics.enable": "false"}, disks=disks) as cluster:
            brokers = [
                f"127.0.0.1:{broker.metrics.address.port}" for broker in cluster.brokers.values() if broker.metrics.address
            ]
            assert cluster.brokers[1].address is not None
            bootstrap = "{}:{}".format(*cluster.brokers[1].address)
            gateway = GatewayThread(bootstrap, metrics="127.0.0.1:0", **LOOPBACK)
            with Endpoint() as endpoint:
                await asyncio.to_thread(gateway.__enter__)
                try:
                    at = f"127.0.0.1:{gateway.gateway.metrics.port}"
                    files = dict(monitoring_files(brokers, [f"127.0.0.1:{exposition.port}"], gateways=[at]))
                    files["prometheus.yml"] = hastened(files["prometheus.yml"], HASTE)
                    with Prometheus(tmp_path, files) as prometheus:
                        await use_the_gateway(cluster, gateway, endpoint)
                        await live_a_little(cluster)
                        await until_async(prometheus.is_ready, "Prometheus answers", every_s=0.1)
                        await everything_is_drawn(prometheus)
                        assert "HeadraceBrokerDown" not in await asyncio.to_thread(prometheus.firing)
                finally:
                    await asyncio.to_thread(gateway.__exit__, None, None, None)

    try:
        play(story)
    finally:
        exposition.close()


async def use_the_gateway(cluster: MemoryCluster, gateway: GatewayThread, endpoint: Endpoint) -> None:
    await cluster.create_topic("hooked", 1)
    await cluster.produce(cluster.image.topics["hooked"].partitions[0].leader, "hooked", "one")
    await asyncio.to_thread(have_it_deliver, gateway, endpoint)


def have_it_deliver(gateway: GatewayThread, endpoint: Endpoint) -> None:
    """A webhook that delivers, and a schema."""
    wanted = {"topic": "hooked", "callback_url": endpoint.url, "begin": "earliest", "group": "hooked"}
    until(lambda: gateway.client.get("/live").json()["coordinated"], "it has its lease")
    assert gateway.client.post("/subscriptions", json=wanted).status_code == 201
    assert gateway.client.post("/subjects/a/versions", json={"schema": '"int"'}).status_code == 200
    until(lambda: endpoint.posted, "something is delivered")


async def work_off_a_queue(cluster: MemoryCluster) -> None:
    await cluster.create_topic("jobs", 1)
    worker = Worker(cluster, "workers")
    await begin_early(cluster, worker.group)
    await worker.join()
    await cluster.produce(worker.leader, "jobs", "one", "two", "three")
    await worker.take(3)
    await worker.say(0, 0, ACCEPT)
    await worker.say(1, 1, REJECT)


async def live_a_little(cluster: MemoryCluster) -> None:
    """What makes series that are not there from the beginning."""
    await work_off_a_queue(cluster)
    for topic in ("orders", "orders.dead-letter"):
        await cluster.create_topic(topic, 1)
        leader = cluster.image.topics[topic].partitions[0].leader
        await cluster.produce(leader, topic, "one", "two")
    assert (await cluster.produce(1, "nowhere", "one")).responses[0].partition_responses[0].error_code
    assert cluster.brokers[1].address is not None
    host, port = cluster.brokers[1].address
    await asyncio.to_thread(read_and_commit, f"{host}:{port}")
    entity = EntityData(entity_type="client-id", entity_name=None)
    limit = OpData(key="producer_byte_rate", value=10.0, remove=False)
    quota = EntryData(entity=(entity,), ops=(limit,))
    await cluster.call(1, AlterClientQuotasRequest(entries=(quota,), validate_only=False), 1)
    leader = cluster.image.topics["orders"].partitions[0].leader
    await cluster.until(lambda: cluster.brokers[leader].parts.quotas.active)
    await cluster.produce(leader, "orders", "too much" * 100)


def read_and_commit(bootstrap: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    deadline = time.monotonic() + 30
    while (found := consumer.poll(0.1)) is None:
        assert time.monotonic() < deadline
    consumer.commit(found, asynchronous=False)
    consumer.close()


async def everything_is_drawn(prometheus: Prometheus) -> None:
    missing = panels()

    async def is_drawn() -> bool:
        for where, expression in list(missing.items()):
            found: list[Any] = await asyncio.to_thread(prometheus.query, expression)
            if found:
                del missing[where]
        return not missing

    await until_async(is_drawn, lambda: f"these panels show something: {missing}", 40, every_s=0.5)

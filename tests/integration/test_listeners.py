"""Brokers with several listeners: everybody is told the addresses of the listener by which they came."""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from headrace.cli.node.serve import greet
from headrace.model.errors import ErrorCode
from headrace.testing import Broker
from headrace.testing.cluster import ProcessCluster
from headrace.wire.messages.describe_cluster import DescribeClusterRequest
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.integration.memory_cluster import MemoryCluster
from tests.support.raw import RawClient, batch, produce

TWO = {
    "listeners": "CLIENT://127.0.0.1:0,INSIDE://127.0.0.1:0",
    "listener.security.protocol.map": "CLIENT:PLAINTEXT,INSIDE:PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings=TWO) as running:
        yield running


def told(bootstrap: str) -> set[str]:
    """All addresses that a broker names to a client that came in here."""
    with RawClient(bootstrap) as client:
        found = [*client.call(MetadataRequest(topics=(MetadataRequestTopic(name="t"),)), 12).brokers]
        found += client.call(DescribeClusterRequest(include_cluster_authorized_operations=False), 1).brokers
        found += client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=("g",)), 4).coordinators
        found.append(client.call(FindCoordinatorRequest(key="g", key_type=0), 3))
        return {f"{place.host}:{place.port}" for place in found}


@pytest.mark.parametrize("name", ["CLIENT", "INSIDE"])
def test_a_client_is_told_the_addresses_of_the_listener_it_came_in_by(broker: Broker, name: str) -> None:
    assert told(broker.bootstraps[name]) == {broker.bootstraps[name]}


@pytest.mark.parametrize("name", ["CLIENT", "INSIDE"])
def test_real_clients_stay_on_the_listener_they_came_in_by(broker: Broker, name: str, topic: str) -> None:
    bootstrap = broker.bootstraps[name]
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"one")
    assert producer.flush(10) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        message = next(found for found in iter(lambda: consumer.poll(10), None))
        assert message.value() == b"one"
    finally:
        consumer.close()
    brokers = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).brokers.values()

    assert {f"{each.host}:{each.port}" for each in brokers} == {bootstrap}


def test_brokers_talk_over_the_inter_broker_listener_and_clients_over_theirs() -> None:
    async def story() -> None:
        async with MemoryCluster(3, {**TWO, "default.replication.factor": "3"}) as cluster:
            await cluster.create_topic("t", 3, 3)
            await cluster.produce(1, "t", "a")
            for real in cluster.brokers.values():
                inside = {str(other.addresses["INSIDE"]) for other in cluster.brokers.values()}
                peers = {f"{host}:{port}" for (host, port), _ in real.parts.peers._connections.values()}
                assert peers <= inside
                by_name = dict.fromkeys(("CLIENT", "INSIDE"), 0)
                for connection in real.server.connections:
                    by_name[connection.listener] += 1
                assert by_name["INSIDE"] >= 1, "other brokers came in by their own listener"
                bootstrap = str(real.addresses["CLIENT"])
                addresses = await asyncio.to_thread(told, bootstrap)
                assert addresses <= {str(other.addresses["CLIENT"]) for other in cluster.brokers.values()}
                assert len(addresses) >= 3

    asyncio.run(story())


def test_a_cluster_of_processes_replicates_over_a_listener_of_its_own(tmp_path: Path) -> None:
    if shutil.which("etcd") is None:
        pytest.skip("etcd is not installed")
    with ProcessCluster(tmp_path, broker_count=3, separate_listener=True) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
        for number in range(100):
            producer.produce("t", str(number).encode())
        assert producer.flush(30) == 0
        metadata = AdminClient({"bootstrap.servers": cluster.brokers[1].address}).list_topics(timeout=10)

        assert {f"{each.host}:{each.port}" for each in metadata.brokers.values()} == set(cluster.bootstrap.split(","))
        assert {len(part.isrs) for part in metadata.topics["t"].partitions.values()} == {3}
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        values = {message.value() for message in consumer.consume(100, 30)}
        consumer.close()
        assert len(values) == 100


def test_a_leader_without_the_clients_listener_is_named_as_such() -> None:
    async def story() -> None:
        async with MemoryCluster(1, TWO) as cluster:
            only = {"listeners": "INSIDE://127.0.0.1:0"}
            cluster.settings = {**TWO, **only}
            await cluster.add(2)
            await cluster.create_topic("t", 4, 1)
            bootstrap = str(cluster.brokers[1].addresses["CLIENT"])

            def ask(version: int) -> Any:
                with RawClient(bootstrap) as client:
                    return client.call(MetadataRequest(topics=(MetadataRequestTopic(name="t"),)), version)

            response = await asyncio.to_thread(ask, 12)
            assert [each.node_id for each in response.brokers] == [1]
            assert {part.error_code for part in response.topics[0].partitions} == {0, 72}
            response = await asyncio.to_thread(ask, 5)
            assert {part.error_code for part in response.topics[0].partitions} == {0, 5}

    asyncio.run(story())


def test_no_host_tells_clients_the_name_of_the_machine() -> None:
    with Broker(settings={"listeners": "PLAINTEXT://:0"}) as running:
        port = running.bootstrap.rpartition(":")[2]
        (endpoint,) = running.run(lambda real: list(real.parts.membership.registration.endpoints.values()))

        assert endpoint.host not in ("", "0.0.0.0")
        assert str(endpoint.port) == port


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_a_broker_on_ipv6_greets_with_brackets_and_serves() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback address")
    with Broker(settings={"listeners": "[::1]:0"}) as running:
        assert running.bootstrap.startswith("[::1]:")
        producer = Producer({"bootstrap.servers": running.bootstrap})
        producer.produce("t", b"one")
        assert producer.flush(10) == 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--listen", "SSL://127.0.0.1:0"], "ssl.keystore.location is not set"),
        (["--listen", "0.0.0.0:0"], "--advertise HOST:PORT"),
        (["--listen", "A://127.0.0.1:0"], "A has no security protocol"),
        (["--set", "headrace.health.listener=https://127.0.0.1:0"], "scheme https"),
    ],
)
def test_serve_refuses_addresses_that_it_cannot_serve_in_one_sentence(arguments: list[str], expected: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "headrace", "serve", "--memory", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "NO_COLOR": "1"},
    )

    assert ended.returncode != 0
    assert expected in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("name", ["CLIENT", "INSIDE"])
def test_who_writes_or_reads_elsewhere_is_told_the_leaders_address_of_the_listener_it_came_in_by(name: str) -> None:
    async def story() -> None:
        async with MemoryCluster(2, TWO) as cluster:
            await cluster.create_topic("t", 1, 1)
            topic = cluster.image.topics["t"]
            leader = topic.partitions[0].leader
            await cluster.until(lambda: "t" in cluster.brokers[3 - leader].image.topics)
            wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
            fetched = FetchTopic(topic_id=topic.topic_id, partitions=(wanted,))

            def ask() -> list[Any]:
                with RawClient(str(cluster.brokers[3 - leader].addresses[name])) as client:
                    written = client.call(produce("t", batch(b"x")), 10)
                    read = client.call(FetchRequest(max_wait_ms=0, min_bytes=0, topics=(fetched,)), 16)
                    assert written.responses[0].partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
                    assert read.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
                    return [*written.node_endpoints, *read.node_endpoints]

            told = await asyncio.to_thread(ask)
            address = cluster.brokers[leader].addresses[name]
            assert [(each.node_id, each.host, each.port) for each in told] == [(leader, *address)] * 2

    asyncio.run(story())


def has_ipv6() -> bool:
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_the_greeting_has_brackets_around_an_ipv6_address(capsys: pytest.CaptureFixture[str]) -> None:
    with Broker(settings={"listeners": "[::1]:0"}) as running:
        running.run(greet)
        port = running.bootstrap.rpartition(":")[2]

        shown = capsys.readouterr().out
        assert f"Headrace serves at   [::1]:{port}\n" in shown
        assert f"headrace consume greetings --follow --bootstrap [::1]:{port}\n" in shown


def test_the_greeting_of_a_secured_broker_names_the_protocol_and_asks_for_a_profile(capsys: pytest.CaptureFixture[str]) -> None:
    with Broker(users={"ann": "secret"}) as running:
        running.run(greet)

        shown = capsys.readouterr().out
        assert f"Headrace serves at   SASL_PLAINTEXT://{running.bootstrap}\n" in shown
        assert "Clients speak SASL_PLAINTEXT: write a profile as in docs/security.md" in shown
        assert "headrace consume greetings --follow --profile NAME\n" in shown
        assert "--bootstrap" not in shown

"""In a closed cluster the brokers write the audit trail, whichever of them leads it, and nobody else does: not even a super user
who takes a broker's client id."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.cluster.peers import Peers
from headrace.broker.sign_in.peer import PASSWORD_FILE, USER, PeerSignIn
from headrace.broker.tls import tls
from headrace.controller.access.entries import encode_credential, scram_key
from headrace.controller.entries import Put
from headrace.model.access.principals import user
from headrace.model.access.scram import ITERATIONS_MIN, ScramMechanism, credential_of, salted_password
from headrace.model.broker_settings import BrokerConfig
from headrace.model.errors import ErrorCode
from headrace.model.names import AUDIT
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.integration.memory_cluster import MemoryCluster, play
from tests.support.audit import events_in, resources_of
from tests.support.certificates import Authority
from tests.support.raw import batch, produce
from tests.support.waiting import until_async

MECHANISM = ScramMechanism.SHA_256
Connect = Callable[[MemoryCluster, str], Peers]  # with a client id, as root


async def create(cluster: MemoryCluster, broker_id: int, name: str) -> None:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=())
    reply = await cluster.call(broker_id, CreateTopicsRequest(topics=(topic,), timeout_ms=5000), 7)
    assert reply.topics[0].error_code == ErrorCode.NONE, reply


def recorded(cluster: MemoryCluster) -> list[str]:
    leader = cluster.image.topics[AUDIT].partitions[0].leader
    return [name for event in events_in(cluster.brokers[leader]) for name in resources_of(event)]


async def both_brokers_write_and_root_does_not(cluster: MemoryCluster, connect: Connect) -> None:
    cluster.client = connect(cluster, "test")
    for broker_id in (1, 2):
        await create(cluster, broker_id, f"t{broker_id}")
    assert recorded(cluster) == ["TOPIC t1", "TOPIC t2"]

    leader = cluster.image.topics[AUDIT].partitions[0].leader
    for client_id in ("broker-1", "broker-2"):
        forger = connect(cluster, client_id)
        reply = await forger.call(leader, produce(AUDIT, batch(b"{}")), 9, timeout=10)
        forger.close()
        result = reply.responses[0].partition_responses[0]
        assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION, client_id
        assert result.error_message == "Only brokers write to __audit, and only while they are registered."
    await until_async(
        lambda: recorded(cluster) == ["TOPIC t1", "TOPIC t2", "TOPIC __audit"], "only the denial is in it", seconds=5
    )


def signs_in_as(folder: Path, name: str) -> dict[str, str]:
    file = folder / name
    file.write_text("hidden\n")
    file.chmod(0o600)
    return {"sasl.mechanism.inter.broker.protocol": MECHANISM.title, USER: name, PASSWORD_FILE: str(file)}


def user_added(name: str) -> Put:
    salted = salted_password(MECHANISM, "hidden", b"salt", ITERATIONS_MIN)
    return Put(scram_key(name, MECHANISM), encode_credential(credential_of(MECHANISM, salted, b"salt", ITERATIONS_MIN)))


def test_by_scram_only_brokers_write_the_trail(tmp_path: Path) -> None:
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "authorizer": "acl",
        "super.users": "User:broker;User:root",
        **signs_in_as(tmp_path, "broker"),
    }
    as_root = BrokerConfig(signs_in_as(tmp_path, "root"))

    def connect(cluster: MemoryCluster, client_id: str) -> Peers:
        return Peers(client_id, lambda broker_id: cluster.brokers[broker_id].address, sign_in=PeerSignIn(as_root))

    async def story() -> None:
        cluster = MemoryCluster(2, settings)
        await cluster.store.transact([], [user_added("broker"), user_added("root")])
        async with cluster:
            await both_brokers_write_and_root_does_not(cluster, connect)

    play(story)


@pytest.mark.parametrize("moved", [1, 2])
def test_brokers_write_the_trail_while_one_of_them_signs_in_already_and_the_other_does_not_yet(
    tmp_path: Path, moved: int
) -> None:
    """Broker 1 leads it, as it was there first."""
    before = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "inter.broker.listener.name": "PLAINTEXT",
        "authorizer": "acl",
        "super.users": "User:ANONYMOUS;User:broker",
    }
    after = {**before, **signs_in_as(tmp_path, "broker"), "inter.broker.listener.name": "SASL_PLAINTEXT"}

    async def story() -> None:
        first, second = (after, before) if moved == 1 else (before, after)
        cluster = MemoryCluster(1, first)
        await cluster.store.transact([], [user_added("broker")])
        async with cluster:
            cluster.client = Peers("test", lambda broker_id: cluster.brokers[broker_id].addresses["PLAINTEXT"])
            await create(cluster, 1, "t1")
            cluster.settings = second
            await cluster.add(2)
            await create(cluster, 2, "t2")
            assert recorded(cluster) == ["TOPIC t1", "TOPIC t2"]
            assert cluster.image.topics[AUDIT].partitions[0].leader == 1

    play(story)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def by_certificate(authority: Authority, story: Callable[[MemoryCluster, Connect], Awaitable[None]]) -> None:
    """Play it in a cluster of two that know each other by their certificates."""
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "authorizer": "acl",
        "super.users": "User:broker;User:renamed;User:root",
        "ssl.client.auth": "required",
        "ssl.keystore.location": str(authority.of_client("broker", "broker")),
        "ssl.truststore.location": str(authority.file),
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+),.*$/$1/",
        "ssl.endpoint.identification.algorithm": "",
    }
    context = authority.context(authority.of_client("root", "root"))
    context.check_hostname = False

    def connect(cluster: MemoryCluster, client_id: str) -> Peers:
        return Peers(client_id, lambda broker_id: cluster.brokers[broker_id].address, tls=lambda: context)

    async def played() -> None:
        async with MemoryCluster(2, settings) as cluster:
            await story(cluster, connect)

    play(played)


def test_by_certificate_only_brokers_write_the_trail(authority: Authority) -> None:
    by_certificate(authority, both_brokers_write_and_root_does_not)


def test_a_new_certificate_with_another_name_is_told_and_the_trail_goes_on(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "LOOK_SECONDS", 0.05)

    async def story(cluster: MemoryCluster, connect: Connect) -> None:
        cluster.client = connect(cluster, "test")
        for broker_id in (1, 2):
            await create(cluster, broker_id, f"t{broker_id}")
        authority.of_client("renamed", "broker")

        def names() -> set[Any]:
            return {seen.principal for broker in cluster.brokers.values() for seen in broker.image.brokers.values()}

        await cluster.until(lambda: names() == {user("renamed")})
        for broker_id in (1, 2):
            await create(cluster, broker_id, f"u{broker_id}")
        assert recorded(cluster) == ["TOPIC t1", "TOPIC t2", "TOPIC u1", "TOPIC u2"]

    by_certificate(authority, story)

"""Rights and users that are taken away: what those notice who are in, on every broker, also on one that the store is out of
reach of."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from headrace.controller.access.scram_credentials import Deletion, alter_scram_credentials
from headrace.metadata.store import StoreUnavailable, WatchBatch
from headrace.model.access.acls import Operation
from headrace.model.access.scram import ScramMechanism
from headrace.model.errors import ErrorCode
from headrace.testing import Broker
from headrace.wire.messages.create_acls import AclCreation, CreateAclsRequest
from headrace.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.integration.memory_cluster import MemoryCluster, SharedStore, play
from tests.support.raw import RawClient, frame
from tests.support.sasl import scram
from tests.support.users import take_client_ids_for_users
from tests.support.waiting import stays_async, until_async

ALLOW, TOPIC, LITERAL, ANY = 3, 2, 3, 1
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
ORDERS = MetadataRequest(topics=(MetadataRequestTopic(name="orders"),), allow_auto_topic_creation=False)
SETTINGS = {"authorizer": "acl", "super.users": "User:test;User:broker-1;User:broker-2"}


class CuttableStore(SharedStore):
    """A broker's hold on the store, which can be cut."""

    cut: set[int] = set()  # noqa: RUF012 - what an instance has for itself, all of them have

    def _check_open(self) -> None:
        if id(self) in self.cut:
            raise StoreUnavailable("cut off")
        super()._check_open()

    async def watch(self, prefix: str, start_revision: int) -> AsyncIterator[WatchBatch]:
        async for batch in super().watch(prefix, start_revision):
            self._check_open()
            yield batch


class CuttableCluster(MemoryCluster):
    hold = CuttableStore

    def cut_off(self, broker_id: int) -> None:
        CuttableStore.cut.add(id(self.brokers[broker_id].store))

    def heal(self) -> None:
        CuttableStore.cut.clear()


def allow(user: str, operation: Operation = Operation.DESCRIBE) -> CreateAclsRequest:
    creation = AclCreation(
        principal=f"User:{user}",
        operation=operation,
        resource_name="orders",
        resource_type=TOPIC,
        resource_pattern_type=LITERAL,
        host="*",
        permission_type=ALLOW,
    )
    return CreateAclsRequest(creations=(creation,))


def take_all(user: str) -> DeleteAclsRequest:
    every = DeleteAclsFilter(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=f"User:{user}",
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    return DeleteAclsRequest(filters=(every,))


class Somebody:
    """A connection that stays open."""

    def __init__(self, cluster: MemoryCluster, broker_id: int, name: str) -> None:
        self._client = RawClient(str(cluster.brokers[broker_id].address), client_id=name)

    async def code(self) -> int:
        reply: Any = await asyncio.to_thread(self._client.call, ORDERS, 12)
        return int(reply.topics[0].error_code)

    async def is_denied(self) -> bool:
        return await self.code() == DENIED

    async def is_allowed(self) -> bool:
        return await self.code() == ErrorCode.NONE


def test_a_right_holds_on_every_broker_and_one_that_is_cut_off_goes_on_with_what_it_knew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take_client_ids_for_users(monkeypatch)

    async def story() -> None:
        cluster = CuttableCluster(2, SETTINGS)
        async with cluster:
            await cluster.create_topic("orders", factor=2)
            ann = {number: Somebody(cluster, number, "ann") for number in (1, 2)}
            eve = Somebody(cluster, 2, "eve")
            assert await ann[1].is_denied()
            await cluster.call(1, allow("ann"), 3)
            for number in (1, 2):
                await until_async(ann[number].is_allowed, f"ann is let in by broker {number}", seconds=10)

            cluster.cut_off(2)
            await cluster.call(1, allow("eve"), 3)
            await cluster.call(1, take_all("ann"), 3)
            # The same connection: its next request.
            await until_async(ann[1].is_denied, "ann is refused by broker 1", seconds=10)
            await stays_async(ann[2].is_allowed, 0.5, "broker 2 goes on with what it knew")
            assert await eve.is_denied()

            cluster.heal()
            await until_async(ann[2].is_denied, "broker 2 hears of it", seconds=10)
            await until_async(eve.is_allowed, "of all of it", seconds=10)

    try:
        play(story)
    finally:
        CuttableStore.cut.clear()


def test_a_user_who_is_removed_stays_until_the_next_sign_in_and_is_refused_then() -> None:
    """As in Kafka: how long that may be is connections.max.reauth.ms."""
    settings = {"connections.max.reauth.ms": 60_000, "connection.failed.authentication.delay.ms": 0}
    with Broker(users={"ann": "secret"}, settings=settings) as broker:
        clients = [RawClient(broker.bootstrap) for _ in range(2)]
        for client in clients:
            assert scram(client, "ann", "secret")[0].error_code == 0
        assert broker.broker is not None
        gone = [Deletion(user="ann", mechanism=mechanism) for mechanism in ScramMechanism]
        broker.call(broker.broker.cluster.submit(lambda image: [alter_scram_credentials(image, gone)["ann"]]))  # type: ignore[list-item]

        assert clients[0].call(ORDERS, 12).brokers
        broker.clock.advance(50)
        assert scram(clients[0], "ann", "secret")[0].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert clients[0].is_closed_by_broker()
        broker.clock.advance(50)
        clients[1].send(frame(ORDERS, 12))
        assert clients[1].is_closed_by_broker()

"""What every simulated client needs: to find leaders and coordinators, to ask them, and to ask again.

Clients speak the wire protocol over the simulated network, each from a machine of its own.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from headrace.broker.cluster.peers import Peers, PeerUnreachable
from headrace.broker.sign_in.peer import PeerSignIn
from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from simulation.rules.history import History

METADATA_VERSION = 12
FIND_COORDINATOR_VERSION = 3
GROUP, TRANSACTION = 0, 1
CALL_TIMEOUT_S = 3.0
COORDINATOR_TIMEOUT_S = 1.5
BACK_OFF_S = (0.05, 0.4)

Addresses = Mapping[int, tuple[str, int]]


class Unavailable(Exception):
    """Nobody answers, or the answer is that somebody else should be asked: try again."""


class ClusterClient:
    """A client's view of the cluster."""

    def __init__(
        self,
        name: str,
        addresses: Addresses,
        topics: tuple[str, ...],
        history: History,
        chance: random.Random,
        sign_in: PeerSignIn | None = None,
    ) -> None:
        self.name = name
        self.history = history
        self.chance = chance
        self._topics = topics
        self.brokers = list(addresses)
        self._peers = Peers(name, addresses.get, sign_in=sign_in)
        self._leaders: dict[TopicPartition, int] = {}
        # Of the leaders last heard of: whoever knows of another refuses to be read under this one (KIP-320).
        self.leader_epochs: dict[TopicPartition, int] = {}
        # The ids of topics as of the last time anybody was asked.
        self.topic_ids: dict[str, UUID] = {}
        self._coordinators: dict[tuple[int, str], int] = {}

    async def call(self, broker: int, request: Any, version: int, *, timeout_s: float = CALL_TIMEOUT_S) -> Any:
        try:
            return await self._peers.call(broker, request, version, timeout=timeout_s)
        except PeerUnreachable as error:
            raise Unavailable(str(error)) from error

    async def call_any(self, request: Any, version: int) -> Any:
        return await self.call(self.chance.choice(self.brokers), request, version)

    # -- leaders

    async def leader(self, partition: TopicPartition) -> int:
        if partition not in self._leaders:
            await self.refresh()
        if partition not in self._leaders:
            raise Unavailable(f"{partition} has no leader")
        return self._leaders[partition]

    async def leaders(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Their leaders, all as of the time of the leader epochs: to ask for one may change what is known of another."""
        for partition in partitions:
            await self.leader(partition)
        return {partition: self._leaders[partition] for partition in partitions}

    def forget_leader(self, partition: TopicPartition) -> None:
        self._leaders.pop(partition, None)

    async def refresh(self) -> None:
        """Ask anybody for topics and leaders."""
        request = MetadataRequest(
            topics=tuple(MetadataRequestTopic(name=name) for name in self._topics), allow_auto_topic_creation=False
        )
        response: MetadataResponse = await self.call_any(request, METADATA_VERSION)
        for topic in response.topics:
            name = topic.name or ""
            if topic.error_code == ErrorCode.NONE:
                self.topic_ids[name] = topic.topic_id
            else:
                self.topic_ids.pop(name, None)
            for found in topic.partitions:
                partition = TopicPartition(name, found.partition_index)
                if found.error_code == ErrorCode.NONE:
                    self._leaders[partition] = found.leader_id
                    self.leader_epochs[partition] = found.leader_epoch

    # -- coordinators

    async def coordinator(self, kind: int, key: str) -> int:
        if (kind, key) not in self._coordinators:
            response = await self.call_any(FindCoordinatorRequest(key=key, key_type=kind), FIND_COORDINATOR_VERSION)
            if response.error_code != ErrorCode.NONE:
                raise Unavailable(ErrorCode(response.error_code).name)
            self._coordinators[kind, key] = response.node_id
        return self._coordinators[kind, key]

    async def call_coordinator(
        self, kind: int, key: str, request: Any, version: int, *, timeout_s: float = COORDINATOR_TIMEOUT_S
    ) -> Any:
        broker = await self.coordinator(kind, key)
        try:
            return await self.call(broker, request, version, timeout_s=timeout_s)
        except Unavailable:
            self.forget_coordinator(kind, key)
            raise

    def forget_coordinator(self, kind: int, key: str) -> None:
        self._coordinators.pop((kind, key), None)

    def believe_in_coordinator(self, kind: int, key: str, broker: int) -> None:
        self._coordinators[kind, key] = broker

    # -- waiting

    async def back_off(self) -> None:
        await asyncio.sleep(self.chance.uniform(*BACK_OFF_S))

    def close(self) -> None:
        self._peers.close()

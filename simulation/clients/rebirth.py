"""A topic that is deleted and made again under its old name, while clients write to it and read from it.

Clients name the topic by its id.  In the facts each life of the topic is a topic of its own, so that a record that outlives its
topic is a record that nobody sent there.
"""

import abc
from collections.abc import Sequence
from uuid import UUID

from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from simulation.clients.client import ClusterClient, Unavailable
from simulation.clients.producing import Identity, produce_batch
from simulation.clients.reading import fetch
from simulation.clients.working import PacedWorker
from simulation.operators.topics import TopicSpec, create_topic, delete_topic
from simulation.rules.history import Acknowledged, Passed, Polled, Sent

PRODUCE_BY_ID_VERSION = 13
LIFE_S = (1.5, 5.0)
POLL_WAIT_MS = 300
POLL_PAUSE_S = (0.1, 0.5)


def in_this_life(partition: TopicPartition, topic_id: UUID) -> TopicPartition:
    """How the facts name a partition of one life of a topic."""
    return TopicPartition(f"{partition.topic}#{topic_id.hex[:8]}", partition.partition)


class Recreator(PacedWorker):
    """An operator who deletes a topic and makes it again.  When told to stop, the topic is there."""

    def __init__(self, client: ClusterClient, spec: TopicSpec) -> None:
        super().__init__(client, pause_s=LIFE_S)
        self._spec = spec

    async def _act(self, partitions: Sequence[TopicPartition]) -> None:
        client, name = self._client, self._spec.name
        try:
            await client.refresh()
        except Unavailable:
            return
        topic_id = client.topic_ids.get(name)
        if topic_id is None:
            return  # whoever was asked has not heard of it yet
        client.history.tell(f"{name} is to go: {topic_id.hex[:8]}")
        await delete_topic(client, topic_id)
        await create_topic(client, self._spec)
        client.history.tell(f"{name} is there again")


class IncarnateWorker(PacedWorker):
    """Works on whatever topic now has the name."""

    def __init__(self, client: ClusterClient, name: str, *, pause_s: tuple[float, float]) -> None:
        super().__init__(client, pause_s=pause_s)
        self._name = name

    async def _act(self, partitions: Sequence[TopicPartition]) -> None:
        client = self._client
        partition = client.chance.choice(partitions)
        try:
            if self._name in client.topic_ids:
                await self._work_on(partition, client.topic_ids[self._name])
            else:
                await client.refresh()
        except Unavailable:
            client.forget_leader(partition)
            client.topic_ids.pop(self._name, None)

    @abc.abstractmethod
    async def _work_on(self, partition: TopicPartition, topic_id: UUID) -> None:
        """Raises Unavailable when the topic, or its leader, may be another by now."""


class IncarnateWriter(IncarnateWorker):
    """Sends nothing twice."""

    def __init__(self, client: ClusterClient, name: str, *, pause_s: tuple[float, float]) -> None:
        super().__init__(client, name, pause_s=pause_s)
        self._sent = 0

    async def _work_on(self, partition: TopicPartition, topic_id: UUID) -> None:
        client, here = self._client, in_this_life(partition, topic_id)
        await client.leader(partition)
        self._sent += 1
        value = f"{client.name}/{self._sent}"
        client.history.record(Sent(producer=client.name, partition=here, value=value))
        error, offset, broker = await produce_batch(
            client, partition, [value], Identity(-1, -1), -1, version=PRODUCE_BY_ID_VERSION, topic_id=topic_id
        )
        if error is not ErrorCode.NONE:
            raise Unavailable(error.name)
        client.history.record(Acknowledged(producer=client.name, partition=here, value=value, offset=offset, broker=broker))


class IncarnateReader(IncarnateWorker):
    """Reads every life of a topic from its beginning."""

    def __init__(self, client: ClusterClient, name: str) -> None:
        super().__init__(client, name, pause_s=POLL_PAUSE_S)
        self._positions: dict[TopicPartition, int] = {}

    async def _work_on(self, partition: TopicPartition, topic_id: UUID) -> None:
        client, here = self._client, in_this_life(partition, topic_id)
        position = self._positions.get(here, 0)
        leader = await client.leader(partition)
        (answer,) = await fetch(
            client, leader, {partition: position}, isolated=False, wait_ms=POLL_WAIT_MS, topic_ids={self._name: topic_id}
        )
        if answer.error is ErrorCode.OFFSET_OUT_OF_RANGE and here in client.history.consents():
            self._positions[here] = 0
        elif answer.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            client.history.violate(f"{here} at {position}, which a consumer has reached, is said to be out of range")
        if answer.error is not ErrorCode.NONE:
            raise Unavailable(answer.error.name)
        for offset, value in answer.records:
            client.history.record(Polled(consumer=client.name, partition=here, offset=offset, value=value, isolated=False))
        if answer.next_offset > position:
            client.history.record(Passed(consumer=client.name, partition=here, start=position, end=answer.next_offset))
            self._positions[here] = answer.next_offset

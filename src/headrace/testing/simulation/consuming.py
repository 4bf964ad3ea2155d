"""A consumer that reads every partition, commits how far it has come, dies now and then, and goes on from what it committed."""

import asyncio
import contextlib
from collections.abc import Sequence

from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from headrace.testing.simulation.client import GROUP, ClusterClient, Unavailable
from headrace.testing.simulation.history import OffsetCommitted, OffsetCommitting, OffsetRead, Passed, Polled
from headrace.testing.simulation.reading import fetch
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headrace.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse

OFFSET_COMMIT_VERSION = 8
OFFSET_FETCH_VERSION = 7
POLL_WAIT_MS = 300
POLLS_PER_COMMIT = 4
POLLS_PER_LIFE = 16


async def committed_offsets(client: ClusterClient, group: str, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """What the group's coordinator says, recorded as a fact; 0 where nothing was committed.  Raises Unavailable."""
    asked = client.history.next_order
    topics = tuple(
        OffsetFetchRequestTopic(name=name, partition_indexes=tuple(p.partition for p in partitions if p.topic == name))
        for name in sorted({partition.topic for partition in partitions})
    )
    request = OffsetFetchRequest(group_id=group, topics=topics, require_stable=True)
    response: OffsetFetchResponse = await client.call_coordinator(GROUP, group, request, OFFSET_FETCH_VERSION)
    found: dict[TopicPartition, int] = {}
    for topic in response.topics:
        for answer in topic.partitions:
            error = ErrorCode(answer.error_code or response.error_code)
            if error is not ErrorCode.NONE:
                client.forget_coordinator(GROUP, group)
                raise Unavailable(error.name)
            found[TopicPartition(topic.name, answer.partition_index)] = max(0, answer.committed_offset)
    if response.error_code != ErrorCode.NONE:
        client.forget_coordinator(GROUP, group)
        raise Unavailable(ErrorCode(response.error_code).name)
    for partition, offset in found.items():
        client.history.record(OffsetRead(group=group, partition=partition, offset=offset, asked=asked))
    return found


class Auditor:
    """Asks every broker how far groups have come, again and again: whoever answers as coordinator must know all there is."""

    def __init__(self, client: ClusterClient, groups: Sequence[str], *, pause_s: tuple[float, float]) -> None:
        self._client = client
        self._groups = groups
        self._pause_s = pause_s
        self._stopping = False

    def stop(self) -> None:
        self._stopping = True

    async def run(self, partitions: Sequence[TopicPartition]) -> None:
        client = self._client
        while not self._stopping:
            await asyncio.sleep(client.chance.uniform(*self._pause_s))
            group = client.chance.choice(self._groups)
            for broker in client.brokers:
                client.believe_in_coordinator(GROUP, group, broker)
                with contextlib.suppress(Unavailable):
                    await committed_offsets(client, group, partitions)


class Consumer:
    """The only member of its group, without the group protocol: generation -1, as simple consumers do."""

    def __init__(self, client: ClusterClient, *, isolated: bool) -> None:
        self._client = client
        self.group = f"group-{client.name}"
        self._isolated = isolated
        self._positions: dict[TopicPartition, int] = {}
        self._stopping = False

    def stop(self) -> None:
        self._stopping = True

    async def run(self, partitions: Sequence[TopicPartition]) -> None:
        while not self._stopping:
            self._client.forget_coordinator(GROUP, self.group)
            try:
                self._positions = await committed_offsets(self._client, self.group, partitions)
                await self._live()
            except Unavailable:
                await self._client.back_off()

    async def _live(self) -> None:
        """Poll and commit until this life is over."""
        for turn in range(1, POLLS_PER_LIFE + 1):
            if self._stopping:
                return
            try:
                await self._poll()
            except Unavailable:
                await self._client.back_off()
            if turn % POLLS_PER_COMMIT == 0:
                await self._commit()

    async def _poll(self) -> None:
        client = self._client
        leaders = {partition: await client.leader(partition) for partition in self._positions}
        broker = client.chance.choice(sorted(set(leaders.values())))
        positions = {partition: self._positions[partition] for partition, leader in leaders.items() if leader == broker}
        try:
            answers = await fetch(client, broker, positions, isolated=self._isolated, wait_ms=POLL_WAIT_MS)
        except Unavailable:
            for partition in positions:
                client.forget_leader(partition)
            raise
        for answer in answers:
            if answer.error is not ErrorCode.NONE:
                self._on_error(answer.partition, answer.error)
                continue
            for offset, value in answer.records:
                fact = Polled(
                    consumer=client.name, partition=answer.partition, offset=offset, value=value, isolated=self._isolated
                )
                client.history.record(fact)
            start = self._positions[answer.partition]
            if answer.next_offset > start:
                client.history.record(
                    Passed(consumer=client.name, partition=answer.partition, start=start, end=answer.next_offset)
                )
                self._positions[answer.partition] = answer.next_offset

    def _on_error(self, partition: TopicPartition, error: ErrorCode) -> None:
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            position = self._positions[partition]
            self._client.history.violate(f"{partition} at {position}, which a consumer has reached, is said to be out of range")
        self._client.forget_leader(partition)

    async def _commit(self) -> None:
        client = self._client
        positions = dict(self._positions)
        topics = tuple(
            OffsetCommitRequestTopic(
                name=name,
                partitions=tuple(
                    OffsetCommitRequestPartition(
                        partition_index=partition.partition, committed_offset=offset, committed_metadata=""
                    )
                    for partition, offset in positions.items()
                    if partition.topic == name
                ),
            )
            for name in sorted({partition.topic for partition in positions})
        )
        for partition, offset in positions.items():
            client.history.record(OffsetCommitting(group=self.group, partition=partition, offset=offset))
        request = OffsetCommitRequest(group_id=self.group, topics=topics)
        response: OffsetCommitResponse = await client.call_coordinator(GROUP, self.group, request, OFFSET_COMMIT_VERSION)
        for topic in response.topics:
            for answer in topic.partitions:
                if answer.error_code != ErrorCode.NONE:
                    client.forget_coordinator(GROUP, self.group)
                    raise Unavailable(ErrorCode(answer.error_code).name)
                partition = TopicPartition(topic.name, answer.partition_index)
                client.history.record(OffsetCommitted(group=self.group, partition=partition, offset=positions[partition]))

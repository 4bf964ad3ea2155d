"""Consumers: they read, commit how far they have come, die now and then, and go on from what was committed."""

import contextlib
from collections.abc import Mapping, Sequence

from headrace.model.errors import ErrorCode
from headrace.model.identity import NO_BROKER, TopicPartition
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headrace.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from simulation.clients.client import GROUP, ClusterClient, Unavailable
from simulation.clients.reading import Fetched, earliest_offset, fetch
from simulation.clients.working import PacedWorker, Worker
from simulation.rules.history import OffsetCommitted, OffsetCommitting, OffsetRead, OffsetRefused, Passed, Polled

OFFSET_COMMIT_VERSION = 8
OFFSET_FETCH_VERSION = 7
POLL_WAIT_MS = 300
POLLS_PER_COMMIT = 4
POLLS_PER_LIFE = 16
# A commit so answered did not happen: its sender is not a member, or of another time.
FENCED = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
    }
)


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


class Auditor(PacedWorker):
    """Asks every broker how far groups have come, again and again: whoever answers as coordinator must know all there is."""

    def __init__(self, client: ClusterClient, groups: Sequence[str], *, pause_s: tuple[float, float]) -> None:
        super().__init__(client, pause_s=pause_s)
        self._groups = groups

    async def _act(self, partitions: Sequence[TopicPartition]) -> None:
        client = self._client
        group = client.chance.choice(self._groups)
        for broker in client.brokers:
            client.believe_in_coordinator(GROUP, group, broker)
            with contextlib.suppress(Unavailable):
                await committed_offsets(client, group, partitions)


class Reader:
    """Where a consumer is in its partitions: it polls from there, and commits it."""

    def __init__(self, client: ClusterClient, group: str, *, isolated: bool, rack: str = "", keeps_all: bool = True) -> None:
        self.client = client
        self.group = group
        self.isolated = isolated
        self.rack = rack
        # Whether the topic keeps everything for ever, so that no offset is ever out of range.
        self.keeps_all = keeps_all
        self.positions: dict[TopicPartition, int] = {}
        # Followers nearby that leaders have sent us to (KIP-392).
        self._nearer: dict[TopicPartition, int] = {}

    def begin(self, positions: dict[TopicPartition, int]) -> None:
        """Read these partitions from there on."""
        self.positions = positions
        self._nearer.clear()

    async def poll(self, wait_ms: int = POLL_WAIT_MS) -> None:
        """Read once from one of the leaders, or of the followers nearby.  Raises Unavailable."""
        client = self.client
        leaders = await client.leaders([partition for partition in self.positions if partition not in self._nearer])
        brokers = {partition: self._nearer.get(partition, leaders.get(partition)) for partition in self.positions}
        broker = client.chance.choice(sorted({broker for broker in brokers.values() if broker is not None}))
        positions = {partition: self.positions[partition] for partition, chosen in brokers.items() if chosen == broker}
        try:
            answers = await fetch(client, broker, positions, isolated=self.isolated, wait_ms=wait_ms, rack=self.rack)
        except Unavailable:
            for partition in positions:
                client.forget_leader(partition)
                self._nearer.pop(partition, None)
            raise
        for answer in answers:
            if answer.error is not ErrorCode.NONE:
                await self._on_error(answer.partition, answer.error)
                continue
            self._take(answer)
            if answer.nearer_replica != NO_BROKER:
                client.history.tell(f"is sent to {answer.nearer_replica} for {answer.partition}")
                self._nearer[answer.partition] = answer.nearer_replica

    def _take(self, answer: Fetched) -> None:
        name, partition, record = self.client.name, answer.partition, self.client.history.record
        for offset, value in answer.records:
            record(Polled(consumer=name, partition=partition, offset=offset, value=value, isolated=self.isolated))
        start = self.positions[partition]
        if answer.next_offset > start:
            record(Passed(consumer=name, partition=partition, start=start, end=answer.next_offset))
            self.positions[partition] = answer.next_offset

    async def _on_error(self, partition: TopicPartition, error: ErrorCode) -> None:
        was_leader = self._nearer.pop(partition, None) is None
        self.client.forget_leader(partition)
        # A follower may be behind; only the leader knows what there is.
        if error is ErrorCode.OFFSET_OUT_OF_RANGE and was_leader:
            position = self.positions[partition]
            earliest = 0 if self.keeps_all else await earliest_offset(self.client, partition)
            if earliest <= position and partition not in self.client.history.consents():
                what = f"{partition} at {position}, which a consumer has reached, is said to be out of range"
                self.client.history.violate(f"{what}, and to begin at {earliest}")
            self.client.history.tell(f"goes on at {earliest} of {partition}: the rest is gone")
            self.positions[partition] = earliest

    async def commit(self, generation: int = -1, member_id: str = "", *, version: int = OFFSET_COMMIT_VERSION) -> ErrorCode:
        """Ask for the positions to be kept; NONE or why they were not.  Raises Unavailable when that is unknown."""
        client, positions = self.client, dict(self.positions)
        for partition, offset in positions.items():
            client.history.record(OffsetCommitting(group=self.group, partition=partition, offset=offset))
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=_topics_to_commit(positions),
        )
        response: OffsetCommitResponse = await client.call_coordinator(GROUP, self.group, request, version)
        worst = ErrorCode.NONE
        for topic in response.topics:
            for answer in topic.partitions:
                error, partition = ErrorCode(answer.error_code), TopicPartition(topic.name, answer.partition_index)
                self._note_commit(partition, positions[partition], error)
                worst = error if error is not ErrorCode.NONE else worst
        if worst is not ErrorCode.NONE and worst not in FENCED:
            client.forget_coordinator(GROUP, self.group)
            raise Unavailable(worst.name)
        return worst

    def _note_commit(self, partition: TopicPartition, offset: int, error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            self.client.history.record(OffsetCommitted(group=self.group, partition=partition, offset=offset))
        elif error in FENCED:
            self.client.history.record(OffsetRefused(group=self.group, partition=partition, offset=offset, reason=error.name))


def _topics_to_commit(positions: Mapping[TopicPartition, int]) -> tuple[OffsetCommitRequestTopic, ...]:
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
    for partition, offset in positions.items():
        wanted = OffsetCommitRequestPartition(partition_index=partition.partition, committed_offset=offset, committed_metadata="")
        by_topic.setdefault(partition.topic, []).append(wanted)
    return tuple(OffsetCommitRequestTopic(name=name, partitions=tuple(wanted)) for name, wanted in by_topic.items())


class Consumer(Worker):
    """The only one of its group, without the group protocol: generation -1, as simple consumers do."""

    def __init__(self, client: ClusterClient, *, isolated: bool, rack: str = "", keeps_all: bool = True) -> None:
        super().__init__(client)
        self.group = f"group-{client.name}"
        self._reader = Reader(client, self.group, isolated=isolated, rack=rack, keeps_all=keeps_all)

    async def run(self, partitions: Sequence[TopicPartition]) -> None:
        while not self._stopping:
            self._client.forget_coordinator(GROUP, self.group)
            try:
                self._reader.begin(await committed_offsets(self._client, self.group, partitions))
                await self._live()
            except Unavailable:
                await self._client.back_off()

    async def _live(self) -> None:
        """Poll and commit until this life is over."""
        for turn in range(1, POLLS_PER_LIFE + 1):
            if self._stopping:
                return
            try:
                await self._reader.poll()
            except Unavailable:
                await self._client.back_off()
            if turn % POLLS_PER_COMMIT == 0:
                await self._reader.commit()

"""A member of a consumer group by the new protocol (KIP-848): the coordinator assigns, and one heartbeat says and hears it all.

Now and then it stalls for longer than its session lasts; the first thing it does then is to commit, as a member that is none.
"""

import asyncio
from collections.abc import Sequence
from uuid import UUID

from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from headrace.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from simulation.clients.client import GROUP, ClusterClient, Unavailable
from simulation.clients.consuming import Reader, committed_offsets
from simulation.clients.working import Worker
from simulation.rules.history import GaveUp, Heard, Took

VERSION = 1
OFFSET_COMMIT_VERSION = 9
SESSION_MS = 2500
# Longer than a session: who is too slow to give something up has been silent for too long before.
REBALANCE_MS = 6000
POLL_WAIT_MS = 200
POLLS_PER_COMMIT = 3
FULL_BEAT_ONE_IN = 4
STALL_ONE_IN = 50
STALL_S = 3.5
JOIN_EPOCH = 0
FENCED = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})


class HeartbeatingMember(Worker):
    """One member; several share a group."""

    def __init__(self, client: ClusterClient, group: str, topic: str, *, isolated: bool) -> None:
        super().__init__(client)
        self._group = group
        self._topic = topic
        self._reader = Reader(client, group, isolated=isolated)
        self._member_id = str(UUID(int=client.chance.getrandbits(128), version=4))
        self._epoch = JOIN_EPOCH
        self._owned: list[TopicPartition] = []
        # Whether the coordinator may not know what this member believes: the next heartbeat says it all.
        self._unsure = True

    async def run(self, partitions: Sequence[TopicPartition]) -> None:
        turn = 0
        while not self._stopping:
            turn += 1
            try:
                await self._beat(partitions)
                await self._read()
                if self._client.chance.randrange(STALL_ONE_IN) == 0:
                    self._client.history.tell("stalls")
                    await asyncio.sleep(STALL_S)
                    await self._commit()
                elif turn % POLLS_PER_COMMIT == 0:
                    await self._commit()
            except Unavailable:
                self._unsure = True
                self._client.forget_coordinator(GROUP, self._group)
                await self._client.back_off()

    async def _read(self) -> None:
        if not self._reader.positions:
            await asyncio.sleep(POLL_WAIT_MS / 1000)
            return
        try:
            await self._reader.poll(POLL_WAIT_MS)
        except Unavailable:
            await self._client.back_off()

    async def _commit(self) -> None:
        """Keep what was read, as the member of this epoch; one that is told to be none begins anew."""
        if self._reader.positions and self._epoch != JOIN_EPOCH:
            error = await self._reader.commit(self._epoch, self._member_id, version=OFFSET_COMMIT_VERSION)
            if error in FENCED:
                self._begin_anew(error)

    # -- heartbeats

    async def _beat(self, partitions: Sequence[TopicPartition]) -> None:
        client = self._client
        sent_at = client.history.now
        response: ConsumerGroupHeartbeatResponse = await client.call_coordinator(GROUP, self._group, self._request(), VERSION)
        error = ErrorCode(response.error_code)
        if error in FENCED:
            self._begin_anew(error)
        elif error is not ErrorCode.NONE:
            raise Unavailable(error.name)
        else:
            client.history.record(Heard(group=self._group, member=client.name, sent_at=sent_at))
            self._epoch = response.member_epoch
            self._unsure = False
            if response.assignment is not None:
                await self._take_up(response.assignment.topic_partitions, partitions)

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        joins = self._epoch == JOIN_EPOCH
        if not (joins or self._unsure or self._client.chance.randrange(FULL_BEAT_ONE_IN) == 0):
            return ConsumerGroupHeartbeatRequest(
                group_id=self._group, member_id=self._member_id, member_epoch=self._epoch, topic_partitions=self._told()
            )
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._member_id,
            member_epoch=self._epoch,
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=(self._topic,),
            topic_partitions=() if joins else self._told(),
        )

    def _told(self) -> tuple[TopicPartitions, ...]:
        if not self._owned:
            return ()
        indexes = tuple(sorted(partition.partition for partition in self._owned))
        return (TopicPartitions(topic_id=self._client.topic_ids[self._topic], partitions=indexes),)

    async def _take_up(self, assigned: Sequence[TopicPartitions], partitions: Sequence[TopicPartition]) -> None:
        """Give up what is no longer ours, keeping how far we came, and begin with what is new."""
        indexes = {index for topic in assigned for index in topic.partitions}
        wanted = [partition for partition in partitions if partition.partition in indexes]
        lost = [partition for partition in self._owned if partition not in wanted]
        for partition in lost:
            self._client.history.record(GaveUp(group=self._group, member=self._client.name, partition=partition))
        if lost:
            await self._commit()
        new = [partition for partition in wanted if partition not in self._owned]
        if not new and not lost:
            return
        if self._topic not in self._client.topic_ids:
            await self._client.refresh()
        positions = {partition: self._reader.positions[partition] for partition in self._owned if partition in wanted}
        positions |= await committed_offsets(self._client, self._group, new) if new else {}
        for partition in new:
            self._client.history.record(Took(group=self._group, member=self._client.name, partition=partition))
        self._owned = wanted
        self._reader.begin(positions)

    def _begin_anew(self, error: ErrorCode) -> None:
        self._client.history.tell(f"is no member any more: {error.name}")
        for partition in self._owned:
            self._client.history.record(GaveUp(group=self._group, member=self._client.name, partition=partition))
        self._owned = []
        self._epoch = JOIN_EPOCH
        self._reader.begin({})

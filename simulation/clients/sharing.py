"""A member of a share group: it takes records, works on them for a while, and accepts them, gives them back or forgets them.

Now and then it stalls for longer than a lock lasts.  When it is told to stop, it accepts whatever comes until its group has
nothing left to do: that every record is done in the end is a rule of its own.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from headrace.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from headrace.wire.messages.share_fetch import AcknowledgementBatch, FetchPartition, FetchTopic, ShareFetchRequest
from headrace.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from simulation.clients.client import GROUP, ClusterClient, Unavailable
from simulation.clients.working import Worker
from simulation.rules.history import AcceptAnswered, Accepting, Delivered

GROUP_RESOURCE = 32
ACCEPT, RELEASE = 1, 2
LOCK_MS = 1500
WAIT_MS = 300
RECORDS_MAX = 4
STALL_ONE_IN = 25
STALL_S = 2.5
FETCH_TIMEOUT_S = 3.0


class ShareMember(Worker):
    """One member; several share a group."""

    def __init__(self, client: ClusterClient, group: str) -> None:
        super().__init__(client)
        self._group = group
        self._topic = ""
        self._member_epoch = 0
        self._assigned: list[int] = []
        # By broker, the epoch of the session there.
        self._sessions: dict[int, int] = {}

    async def run(self, partitions: Sequence[TopicPartition]) -> None:
        self._topic = partitions[0].topic
        await self._begin_early()
        while not (self._stopping and await self._is_all_done(partitions)):
            try:
                await self._beat()
                for index in self._assigned:
                    await self._work(TopicPartition(self._topic, index))
            except Unavailable:
                self._client.forget_coordinator(GROUP, self._group)
                await self._client.back_off()

    async def _begin_early(self) -> None:
        early = AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
        resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=self._group, configs=(early,))
        request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
        while True:
            try:
                if (await self._client.call_any(request, 1)).responses[0].error_code == ErrorCode.NONE:
                    return
            except Unavailable:
                pass
            await self._client.back_off()

    # -- the group

    async def _beat(self) -> None:
        request = ShareGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._client.name,
            member_epoch=self._member_epoch,
            subscribed_topic_names=(self._topic,) if self._member_epoch == 0 else None,
        )
        response = await self._client.call_coordinator(GROUP, self._group, request, 1, timeout_s=FETCH_TIMEOUT_S)
        error = ErrorCode(response.error_code)
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND):
            self._member_epoch, self._assigned = 0, []
        elif error is not ErrorCode.NONE:
            raise Unavailable(error.name)
        else:
            self._member_epoch = response.member_epoch
            if response.assignment is not None:
                self._assigned = [index for topic in response.assignment.topic_partitions for index in topic.partitions]
        if not self._assigned:
            await asyncio.sleep(WAIT_MS / 1000)

    async def _is_all_done(self, partitions: Sequence[TopicPartition]) -> bool:
        asked = DescribeShareGroupOffsetsRequestGroup(group_id=self._group, topics=None)
        try:
            response = await self._client.call_coordinator(
                GROUP, self._group, DescribeShareGroupOffsetsRequest(groups=(asked,)), 1
            )
        except Unavailable:
            await self._client.back_off()
            return False
        lags = [each.lag for topic in response.groups[0].topics for each in topic.partitions]
        return len(lags) == len(partitions) and not any(lags)

    # -- records

    async def _work(self, partition: TopicPartition) -> None:
        client = self._client
        leader = await client.leader(partition)
        try:
            taken = await self._take(leader, partition)
            if not taken:
                return
            if not self._stopping and client.chance.randrange(STALL_ONE_IN) == 0:
                client.history.tell("stalls")
                await asyncio.sleep(STALL_S)
            await self._answer(leader, partition, taken)
        except Unavailable:
            client.forget_leader(partition)
            self._sessions.pop(leader, None)
            raise

    async def _take(self, leader: int, partition: TopicPartition) -> list[int]:
        asked = self._client.history.next_order
        epoch = self._sessions.get(leader, 0)
        topic = FetchTopic(topic_id=self._client.topic_ids[self._topic], partitions=(_named(partition),))
        request = ShareFetchRequest(
            group_id=self._group,
            member_id=self._client.name,
            share_session_epoch=epoch,
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_records=RECORDS_MAX,
            batch_size=RECORDS_MAX,
            share_acquire_mode=1,
            topics=(topic,),
            forgotten_topics_data=(),
        )
        response = await self._client.call(leader, request, 2, timeout_s=FETCH_TIMEOUT_S)
        self._note_session(leader, epoch, response)
        taken: list[int] = []
        for data in (each for topic in response.responses for each in topic.partitions):
            if data.error_code:
                raise Unavailable(ErrorCode(data.error_code).name)
            for each in data.acquired_records:
                offsets = range(each.first_offset, each.last_offset + 1)
                taken += offsets
                for offset in offsets:
                    at = TopicPartition(self._topic, data.partition_index)
                    self._client.history.record(Delivered(group=self._group, partition=at, offset=offset, asked=asked))
        return taken if all(data.partition_index == partition.partition for data in _answers(response)) else []

    async def _answer(self, leader: int, partition: TopicPartition, taken: list[int]) -> None:
        """Accept most, give some back, and forget some."""
        chance = self._client.chance
        words = {offset: ACCEPT if self._stopping else chance.choice([ACCEPT, ACCEPT, ACCEPT, RELEASE, None]) for offset in taken}
        said = tuple(
            AcknowledgementBatch(first_offset=offset, last_offset=offset, acknowledge_types=(word,))
            for offset, word in words.items()
            if word is not None
        )
        if not said:
            return
        accepted = [offset for offset, word in words.items() if word == ACCEPT]
        history = self._client.history
        for offset in accepted:
            history.record(Accepting(group=self._group, partition=partition, offset=offset))
        epoch = self._sessions.get(leader, 0)
        words_of = AcknowledgePartition(partition_index=partition.partition, acknowledgement_batches=said)
        request = ShareAcknowledgeRequest(
            group_id=self._group,
            member_id=self._client.name,
            share_session_epoch=epoch,
            topics=(AcknowledgeTopic(topic_id=self._client.topic_ids[self._topic], partitions=(words_of,)),),
        )
        response = await self._client.call(leader, request, 2, timeout_s=FETCH_TIMEOUT_S)
        self._note_session(leader, epoch, response)
        error = ErrorCode(response.responses[0].partitions[0].error_code)
        for offset in accepted:
            history.record(AcceptAnswered(group=self._group, partition=partition, offset=offset, error=error))
        if error is not ErrorCode.NONE:
            raise Unavailable(error.name)

    def _note_session(self, leader: int, epoch: int, response: Any) -> None:
        if response.error_code != ErrorCode.NONE:
            self._sessions.pop(leader, None)
            raise Unavailable(ErrorCode(response.error_code).name)
        self._sessions[leader] = epoch + 1


def _named(partition: TopicPartition) -> FetchPartition:
    return FetchPartition(partition_index=partition.partition, acknowledgement_batches=())


def _answers(response: Any) -> list[Any]:
    return [each for topic in response.responses for each in topic.partitions]

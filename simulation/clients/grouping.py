"""A member of a consumer group, by the classic protocol: joins, is given partitions, beats, reads and commits as that generation.

Now and then it stalls for longer than its session lasts; the first thing it does then is to commit, as a member that is none.
"""

import asyncio
import json
import struct
from collections.abc import Sequence
from typing import Any

from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from headrace.wire.messages.heartbeat import HeartbeatRequest
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from headrace.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from simulation.clients.client import GROUP, ClusterClient, Unavailable
from simulation.clients.consuming import Reader, committed_offsets
from simulation.clients.working import Worker
from simulation.rules.history import Assigned

JOIN_VERSION = 5
SYNC_VERSION = 3
HEARTBEAT_VERSION = 3
SESSION_MS = 2500
REBALANCE_MS = 3000
# Joining waits for the others: longer than any other question.
JOIN_TIMEOUT_S = 6.0
POLL_WAIT_MS = 200
POLLS_PER_COMMIT = 3
STALL_ONE_IN = 60
STALL_S = 3.5
COORDINATOR_ELSEWHERE = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)


class GroupMember(Worker):
    """One member; several share a group."""

    def __init__(self, client: ClusterClient, group: str, *, isolated: bool) -> None:
        super().__init__(client)
        self._group = group
        self._reader = Reader(client, group, isolated=isolated)
        self._member_id = ""
        self._generation = -1

    async def run(self, partitions: Sequence[TopicPartition]) -> None:
        while not self._stopping:
            try:
                mine = await self._join(partitions)
                if mine is not None:
                    await self._take_up(mine)
                    await self._work()
            except Unavailable:
                self._client.forget_coordinator(GROUP, self._group)
            await self._client.back_off()

    # -- joining

    async def _join(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition] | None:
        """The partitions of this member in the next generation; None when it must try again."""
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self._member_id,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="every-other", metadata=_subscription(partitions)),),
        )
        joined: JoinGroupResponse = await self._ask(request, JOIN_VERSION)
        error = ErrorCode(joined.error_code)
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = joined.member_id
        if error is not ErrorCode.NONE:
            self._on_error(error)
            return None
        self._member_id, self._generation = joined.member_id, joined.generation_id
        return await self._sync(joined, partitions)

    async def _sync(self, joined: JoinGroupResponse, partitions: Sequence[TopicPartition]) -> list[TopicPartition] | None:
        shares = _shares([member.member_id for member in joined.members], partitions) if joined.leader == self._member_id else {}
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=self._generation,
            member_id=self._member_id,
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=member, assignment=json.dumps(share).encode())
                for member, share in shares.items()
            ),
        )
        synced: SyncGroupResponse = await self._ask(request, SYNC_VERSION)
        if synced.error_code != ErrorCode.NONE:
            self._on_error(ErrorCode(synced.error_code))
            return None
        indexes = json.loads(synced.assignment or b"[]")
        return [partition for partition in partitions if partition.partition in indexes]

    async def _take_up(self, mine: list[TopicPartition]) -> None:
        for partition in mine:
            self._client.history.record(
                Assigned(group=self._group, generation=self._generation, member=self._client.name, partition=partition)
            )
        self._reader.begin(await committed_offsets(self._client, self._group, mine) if mine else {})

    # -- working

    async def _work(self) -> None:
        """Until the group moves on, or this member is told that it is none."""
        turn = 0
        while not self._stopping:
            turn += 1
            if self._reader.positions:
                try:
                    await self._reader.poll(POLL_WAIT_MS)
                except Unavailable:
                    await self._client.back_off()
            else:
                await asyncio.sleep(POLL_WAIT_MS / 1000)
            if self._client.chance.randrange(STALL_ONE_IN) == 0:
                self._client.history.tell("stalls")
                await asyncio.sleep(STALL_S)
                error = await self._commit()
            else:
                error = await (self._commit() if turn % POLLS_PER_COMMIT == 0 else self._beat())
            if error is not ErrorCode.NONE:
                self._on_error(error)
                return

    async def _commit(self) -> ErrorCode:
        return await self._reader.commit(self._generation, self._member_id) if self._reader.positions else await self._beat()

    async def _beat(self) -> ErrorCode:
        request = HeartbeatRequest(group_id=self._group, generation_id=self._generation, member_id=self._member_id)
        return ErrorCode((await self._ask(request, HEARTBEAT_VERSION)).error_code)

    def _on_error(self, error: ErrorCode) -> None:
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""
        if error in COORDINATOR_ELSEWHERE:
            self._client.forget_coordinator(GROUP, self._group)

    async def _ask(self, request: object, version: int) -> Any:
        return await self._client.call_coordinator(GROUP, self._group, request, version, timeout_s=JOIN_TIMEOUT_S)


def _shares(members: Sequence[str], partitions: Sequence[TopicPartition]) -> dict[str, list[int]]:
    """Every partition to one member, in turn."""
    shares: dict[str, list[int]] = {member: [] for member in sorted(members)}
    for position, partition in enumerate(partitions):
        shares[sorted(members)[position % len(members)]].append(partition.partition)
    return shares


def _subscription(partitions: Sequence[TopicPartition]) -> bytes:
    """The consumer protocol's subscription, version 0: topics, and no more."""
    names = sorted({partition.topic.encode() for partition in partitions})
    topics = b"".join(struct.pack(">h", len(name)) + name for name in names)
    return struct.pack(">hi", 0, len(names)) + topics + struct.pack(">i", -1)

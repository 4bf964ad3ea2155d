"""Members of a group without a client library: the requests themselves, so that what is measured is the broker."""

import asyncio
import struct
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from headrace.model.errors import ErrorCode
from headrace.wire.apis import ApiKey, messages_of
from headrace.wire.codec import decode, encode
from headrace.wire.framing import RequestHeader, read_response_header, request_frame
from headrace.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from headrace.wire.messages.heartbeat import HeartbeatRequest
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headrace.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

_LENGTH = struct.Struct(">i")
# Room for a leader's reply with a hundred members.
REPLY_BYTES_MAX = 1 << 24
SESSION_MS = 6_000


class Connection:
    """One request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, address: tuple[str, int]) -> "Connection":
        return cls(*await asyncio.open_connection(*address, limit=REPLY_BYTES_MAX))

    async def call(self, request: Any, version: int) -> Any:
        header = RequestHeader(request.api.key, version, 1, "bench")
        self._writer.write(b"".join(request_frame(header, [encode(request, version)])))
        (size,) = _LENGTH.unpack(await self._reader.readexactly(4))
        reply = await self._reader.readexactly(size)
        _, position = read_response_header(reply, request.api.key, version)
        return decode(messages_of(ApiKey(request.api.key)).response, reply, version, position)

    def close(self) -> None:
        self._writer.close()


class ClassicMember:
    """Joins, syncs, and joins again as soon as a heartbeat tells it to."""

    def __init__(self, connection: Connection, group: str) -> None:
        self._connection, self._group = connection, group
        self.member_id = ""
        self.generation = -1

    async def join(self) -> None:
        """Return when this member has its share of a generation."""
        while True:
            joined = await self._connection.call(self._join_request(), 9)
            self.member_id = joined.member_id
            if joined.error_code == ErrorCode.NONE:
                assignments = tuple(
                    SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"share of a member")
                    for member in joined.members
                )
                synced = await self._connection.call(self._sync_request(joined, assignments), 5)
                if synced.error_code == ErrorCode.NONE:
                    self.generation = joined.generation_id
                    return

    def _join_request(self) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=60_000,
            member_id=self.member_id,
            protocol_type="bench",
            protocols=(JoinGroupRequestProtocol(name="any", metadata=b"what a member reads"),),
        )

    def _sync_request(self, joined: Any, assignments: tuple[SyncGroupRequestAssignment, ...]) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self._group,
            generation_id=joined.generation_id,
            member_id=self.member_id,
            protocol_type="bench",
            protocol_name="any",
            assignments=assignments,
        )

    async def beat(self) -> ErrorCode:
        request = HeartbeatRequest(group_id=self._group, generation_id=self.generation, member_id=self.member_id)
        return ErrorCode((await self._connection.call(request, 4)).error_code)

    async def follow(self, pause_s: float) -> None:
        """Beat until the group moves, then move with it."""
        while await self.beat() is ErrorCode.NONE:
            await asyncio.sleep(pause_s)
        await self.join()

    async def leave(self) -> None:
        await self._connection.call(
            LeaveGroupRequest(group_id=self._group, members=(MemberIdentity(member_id=self.member_id),)), 5
        )


class ModernMember:
    """Beats, lets go of what it is told to, takes what it is given."""

    def __init__(self, connection: Connection, group: str, topic: str, member_id: str) -> None:
        self._connection, self._group, self._topic, self.member_id = connection, group, topic, member_id
        self.epoch = 0
        self.owned: tuple[TopicPartitions, ...] = ()

    @property
    def count(self) -> int:
        return sum(len(each.partitions) for each in self.owned)

    async def beat(self) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=(self._topic,),
            topic_partitions=self.owned if self.epoch else (),
        )
        reply = await self._connection.call(request, 1)
        assert reply.error_code == ErrorCode.NONE, ErrorCode(reply.error_code).name
        self.epoch = reply.member_epoch
        if reply.assignment is not None:
            self.owned = reply.assignment.topic_partitions

    async def leave(self) -> None:
        request = ConsumerGroupHeartbeatRequest(group_id=self._group, member_id=self.member_id, member_epoch=-1)
        await self._connection.call(request, 1)


async def together(members: Iterable[Any], act: Callable[[Any], Awaitable[None]]) -> None:
    await asyncio.gather(*(act(member) for member in members))

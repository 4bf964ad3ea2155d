"""Drives a group shard as the shell does, with a clock that only moves when told and a log that is a list."""

from typing import Any, Literal
from uuid import UUID, uuid5

from headrace.coordination.decision import Decision, Token
from headrace.coordination.group.classic.state import ClassicGroup
from headrace.coordination.group.consumer.members import ConsumerGroup
from headrace.coordination.group.conversion.subscription_bytes import Subscription
from headrace.coordination.group.entries import CommittedOffset, Entry
from headrace.coordination.group.requests import (
    Caller,
    Commit,
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
    Heartbeat,
    Join,
    JoinReply,
    Leave,
    Leaver,
    LeftMember,
    OffsetToCommit,
    Sync,
    SyncReply,
)
from headrace.coordination.group.settings import GroupSettings
from headrace.coordination.group.shard import GroupShard
from headrace.coordination.group.topics import CatalogTopic, TopicCatalog
from headrace.coordination.moment import Moment
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import ProducerIdentity
from tests.support.subscriptions import write_subscription

GROUP = "readers"
NAMESPACE = UUID("b7f0a6f4-6f2e-4c15-9a0e-0d5c3a5f8f51")


def topic_id(name: str) -> UUID:
    return uuid5(NAMESPACE, name)


def catalog(*, version: int = 1, **partition_counts: int) -> TopicCatalog:
    topics = (CatalogTopic(name, topic_id(name), count) for name, count in partition_counts.items())
    return TopicCatalog(topics, version=version, version_with_new_topics=version)


def subscription(*topics: str, version: int = 3, **more: Any) -> bytes:
    return write_subscription(Subscription(version=version, topics=topics, **more))


class Driver:
    """A shard, its log, and everyone who has asked it something."""

    def __init__(self, settings: GroupSettings | None = None, topics: TopicCatalog | None = None) -> None:
        self.settings = settings or GroupSettings()
        self.topics = topics or TopicCatalog()
        self.own_settings: dict[str, GroupSettings] = {}
        self.rebalances_ms: list[int] = []
        self.shard = GroupShard(self.settings, self.topics, self.own_settings, self.rebalances_ms.append)
        self.time_ms = 1_000_000
        self.log: list[tuple[Entry, ProducerIdentity | None] | tuple[Literal["marker"], ProducerIdentity, bool]] = []
        self.replies: dict[Token, Any] = {}
        self.parked: set[Token] = set()
        self._tokens = 0
        self.fails_to_write = False
        self.carry_out(self.shard.on_loaded(self.now))

    @property
    def now(self) -> Moment:
        return Moment(self.time_ms, self.time_ms / 1000)

    # --- the shell's part -------------------------------------------------------------------------------------------------

    def carry_out(self, decision: Decision[Any]) -> None:
        failed = self.fails_to_write and bool(decision.entries)
        if not failed:
            for entry in decision.entries:
                self.log.append((entry, decision.producer))
                self.shard.replay(entry, len(self.log) - 1, decision.producer)
        for reply in decision.replies:
            assert reply.token not in self.replies, "a request was answered twice"
            self.parked.discard(reply.token)
            self.replies[reply.token] = RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE) if failed else reply.message

    def start(self, method: str, *arguments: Any) -> int:
        """Ask and return the token; the answer may come later."""
        self._tokens += 1
        token = self._tokens
        self.parked.add(token)
        try:
            self.carry_out(getattr(self.shard, method)(*arguments, token, self.now))
        except RequestError as error:
            assert token not in self.replies
            self.parked.discard(token)
            self.replies[token] = error
        return token

    def ask(self, method: str, *arguments: Any) -> Any:
        """Ask and return the answer, which must come at once.  A refusal is raised."""
        return self.answer(self.start(method, *arguments))

    def answer(self, token: int) -> Any:
        assert token in self.replies, "the request is still parked"
        answer = self.replies[token]
        if isinstance(answer, RequestError):
            raise answer
        return answer

    def is_parked(self, token: int) -> bool:
        return token in self.parked

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass, acting on each deadline when it is reached."""
        end = self.time_ms + milliseconds
        while (deadline := self.shard.next_deadline()) is not None and round(deadline * 1000) <= end:
            self.time_ms = max(self.time_ms, round(deadline * 1000))
            self.carry_out(self.shard.tick(self.now))
        self.time_ms = end

    def settle(self) -> None:
        """Act on what is due now."""
        self.pass_time(0)

    def end_transaction(self, producer: ProducerIdentity, committed: bool) -> None:
        self.log.append(("marker", producer, committed))
        self.shard.replay_marker(producer, committed)

    def reloaded(self) -> "Driver":
        """A fresh coordinator with the same log, as after a crash."""
        fresh = Driver.__new__(Driver)
        fresh.__init__(self.settings, self.topics)  # type: ignore[misc]
        fresh.shard = GroupShard(self.settings, self.topics)
        fresh.time_ms = self.time_ms
        fresh._tokens = self._tokens
        for position, item in enumerate(self.log):
            if item[0] == "marker":
                fresh.shard.replay_marker(item[1], item[2])
            else:
                fresh.shard.replay(item[0], position, item[1])
        fresh.log = list(self.log)
        fresh.carry_out(fresh.shard.on_loaded(fresh.now))
        return fresh

    def set_topics(self, topics: TopicCatalog, changed: set[str], gone: dict[str, UUID] | None = None) -> None:
        self.topics = topics
        self.carry_out(self.shard.on_topics(topics, changed, gone or {}))

    # --- looking ----------------------------------------------------------------------------------------------------------

    def classic(self, group_id: str = GROUP) -> ClassicGroup:
        group = self.shard.groups[group_id]
        assert isinstance(group, ClassicGroup)
        return group

    def consumer(self, group_id: str = GROUP) -> ConsumerGroup:
        group = self.shard.groups[group_id]
        assert isinstance(group, ConsumerGroup)
        return group

    def state(self, group_id: str = GROUP) -> str:
        group = self.shard.groups.get(group_id)
        if group is None:
            return "gone"
        return group.state if isinstance(group, ConsumerGroup) else group.state.value

    # --- the classic protocol ---------------------------------------------------------------------------------------------

    def join(self, member_id: str = "", *, client: str = "c", topics: tuple[str, ...] = ("t",), **more: Any) -> int:
        """Start a JoinGroup."""
        self._tokens += 1
        given = {
            "group_id": GROUP,
            "protocols": (("range", subscription(*topics)),),
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 30_000,
            "caller": Caller(client_id=client, client_host="/h", fresh_id=f"id{self._tokens}"),
        }
        return self.start("join", Join(member_id=member_id, **{**given, **more}))

    def enter(self, *, client: str = "c", **more: Any) -> tuple[str, int]:
        """Get an id and start joining with it; return the id and the token."""
        reply = self.answer(self.join(client=client, **more))
        assert reply.error is ErrorCode.MEMBER_ID_REQUIRED
        return reply.member_id, self.join(reply.member_id, client=client, **more)

    def joined(self, token: int) -> JoinReply:
        reply = self.answer(token)
        assert isinstance(reply, JoinReply)
        return reply

    def start_sync(self, reply: JoinReply, assignments: dict[str, bytes] | None = None, **more: Any) -> int:
        request = Sync(
            group_id=GROUP,
            member_id=reply.member_id,
            generation=reply.generation,
            assignments=assignments or {},
            protocol_type=reply.protocol_type,
            protocol=reply.protocol,
            **more,
        )
        return self.start("sync", request)

    def stable_group(self, count: int = 2, **more: Any) -> list[JoinReply]:
        """A group of that many members in its first generation, synced; the leader comes first."""
        tokens = [self.enter(client=f"c{number}", **more)[1] for number in range(count)]
        return self.complete(tokens)

    def complete(self, tokens: list[int]) -> list[JoinReply]:
        """Let joining members wait the initial delay out if there is one, then sync; the leader comes first."""
        if any(self.is_parked(token) for token in tokens):
            self.pass_time(self.settings.initial_rebalance_delay_ms * 2)
        replies = sorted((self.joined(token) for token in tokens), key=lambda reply: reply.member_id != reply.leader)
        assignments = {reply.member_id: f"for {reply.member_id}".encode() for reply in replies}
        for token, reply in [(self.start_sync(reply, assignments), reply) for reply in replies[1:] + replies[:1]]:
            synced = self.answer(token)
            assert isinstance(synced, SyncReply)
            assert synced.error is ErrorCode.NONE
            assert synced.assignment == assignments[reply.member_id]
        return replies

    def beat(self, reply: JoinReply, **more: Any) -> ErrorCode:
        beat = Heartbeat(group_id=GROUP, member_id=reply.member_id, generation=reply.generation, **more)
        try:
            code: ErrorCode = self.ask("heartbeat", beat)
        except RequestError as error:
            return error.code
        return code

    def leave(self, *members: str | tuple[str, str]) -> tuple[LeftMember, ...]:
        leavers = tuple(Leaver(member) if isinstance(member, str) else Leaver(*member) for member in members)
        left: tuple[LeftMember, ...] = self.ask("leave", Leave(group_id=GROUP, members=leavers))
        return left

    # --- the consumer protocol --------------------------------------------------------------------------------------------

    def consumer_beat(self, member_id: str, epoch: int, **more: Any) -> ConsumerHeartbeatReply:
        reply: ConsumerHeartbeatReply = self.ask(
            "consumer_heartbeat",
            ConsumerHeartbeat(group_id=GROUP, member_id=member_id, member_epoch=epoch, **more),
        )
        return reply

    def consumer_join(self, member_id: str, *topics: str, **more: Any) -> ConsumerHeartbeatReply:
        given: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "owned": {}, "topic_names": frozenset(topics or ("t",))}
        return self.consumer_beat(member_id, 0, **{**given, **more})

    # --- offsets ----------------------------------------------------------------------------------------------------------

    def commit(self, offset: int = 5, *, topic: str = "t", partition: int = 0, metadata: str = "", **more: Any) -> Any:
        value = CommittedOffset(offset=offset, metadata=metadata)
        request = Commit(group_id=GROUP, offsets=(OffsetToCommit(topic, partition, value),), **more)
        return self.ask("commit", request)

    def committed(self, topic: str = "t", partition: int = 0) -> int | None:
        value = self.shard.offsets.get(GROUP, topic, partition)
        return None if value is None else value.offset


def refusal(driver: Driver, token: int) -> ErrorCode:
    """The error a request was answered with, whichever way."""
    answer = driver.replies[token]
    return answer.code if isinstance(answer, RequestError) else answer.error

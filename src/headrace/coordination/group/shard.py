"""One group coordinator: all groups whose ids fall on one partition of `__consumer_offsets`.

Each public method but the replaying ones decides about one request: it returns the entries to write and the replies to send, or
raises what the request is told; one that only looks returns the answer itself.  Groups of the consumer protocol and committed
offsets change only by replaying entries; of a classic group the log holds what its last complete rebalance came to, and what
happens in between is forgotten with the shard.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from uuid import UUID

from headrace.coordination.decision import Decision, Token
from headrace.coordination.group import describe, expiry, offsets
from headrace.coordination.group.classic import membership, rebalance
from headrace.coordination.group.classic.state import ClassicGroup, ClassicState
from headrace.coordination.group.consumer import consumer_protocol
from headrace.coordination.group.consumer.members import ConsumerGroup
from headrace.coordination.group.context import Context, Outcome
from headrace.coordination.group.conversion import classic_members, migration
from headrace.coordination.group.entries import (
    AssignmentEntry,
    ClassicGroupEntry,
    Entry,
    GroupEpochEntry,
    LegacyTopicsEntry,
    MemberEntry,
    OffsetEntry,
    RegexEntry,
    TargetEntry,
    TargetEpochEntry,
)
from headrace.coordination.group.expiry import Group
from headrace.coordination.group.requests import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    Commit,
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
    DeleteOffsets,
    DescribedClassicGroup,
    DescribedConsumerMember,
    DescribedGroup,
    DescribedMember,
    FetchedOffset,
    FetchOffsets,
    Heartbeat,
    Join,
    JoinReply,
    Leave,
    LeftMember,
    ListedGroup,
    PartitionErrors,
    Sync,
    SyncReply,
    TransactionalCommit,
)
from headrace.coordination.group.settings import GroupSettings
from headrace.coordination.group.share.groups import ShareGroups
from headrace.coordination.group.share.requests import (
    ForgetTopics,
    ShareBegun,
    ShareHeartbeat,
    ShareHeartbeatReply,
)
from headrace.coordination.group.share_entries import SHARE_ENTRIES, ShareEntry, ShareTopic
from headrace.coordination.group.timers import Timer, TimerKey
from headrace.coordination.group.topics import TopicCatalog
from headrace.coordination.moment import Moment
from headrace.model.errors import ErrorCode, RequestError, shortened
from headrace.model.identity import ProducerIdentity


class GroupShard:
    """The coordinator of the groups of one partition."""

    def __init__(
        self,
        settings: GroupSettings,
        topics: TopicCatalog | None = None,
        own_settings: Mapping[str, GroupSettings] | None = None,
        on_rebalanced: Callable[[int], None] = lambda taken_ms: None,
    ) -> None:
        """`own_settings` are those of single groups; whoever hands them in keeps them current.  `on_rebalanced` hears how long
        each rebalance of a group took, in milliseconds."""
        self.groups: dict[str, Group] = {}
        self.offsets = offsets.OffsetStore()
        self._context = Context(
            settings,
            topics=topics or TopicCatalog(),
            own_settings={} if own_settings is None else own_settings,
            on_rebalanced=on_rebalanced,
        )
        self.shares = ShareGroups(self._context)
        # None while the log is replayed.
        self._serving_since_ms: int | None = None
        self._decided_at_ms = 0

    @property
    def settings(self) -> GroupSettings:
        return self._context.settings

    # --- the classic protocol ---------------------------------------------------------------------------------------------

    def join(self, request: Join, token: Token, now: Moment) -> Decision[JoinReply]:
        _check_group_id(request.group_id)
        self._decided_at_ms = now.wall_ms
        settings = self.settings
        if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
            raise RequestError(ErrorCode.INVALID_SESSION_TIMEOUT)
        self._refuse_share_group(request.group_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        outcome = Outcome()
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            classic_members.join(group, request, token, self._context, outcome, now)
            return outcome.decision()
        if isinstance(group, ConsumerGroup):
            outcome.write_all(group.tombstones())
            group = None
        if group is None:
            if request.member_id != "":
                raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID)
            group = ClassicGroup(group_id=request.group_id)
        membership.join(group, request, token, self._context, outcome, now)
        self.groups[request.group_id] = group
        return outcome.decision()

    def sync(self, request: Sync, token: Token, now: Moment) -> Decision[SyncReply]:
        _check_group_id(request.group_id)
        outcome = Outcome()
        group = self._group_with_members(request.group_id)
        if isinstance(group, ConsumerGroup):
            outcome.reply(token, classic_members.sync(group, request, self._context, now))
        else:
            rebalance.sync(group, request, token, self._context, outcome, now)
        return outcome.decision()

    def heartbeat(self, request: Heartbeat, token: Token, now: Moment) -> Decision[ErrorCode]:
        _check_group_id(request.group_id)
        group = self._group_with_members(request.group_id)
        outcome = Outcome()
        if isinstance(group, ConsumerGroup):
            outcome.reply(token, classic_members.heartbeat(group, request, self._context, now))
        else:
            outcome.reply(token, membership.heartbeat(group, request, self._context, now))
        return outcome.decision()

    def leave(self, request: Leave, token: Token, now: Moment) -> Decision[tuple[LeftMember, ...]]:
        _check_group_id(request.group_id)
        self._decided_at_ms = now.wall_ms
        outcome = Outcome()
        group = self.groups.get(request.group_id)
        if group is None:
            unknown = ErrorCode.UNKNOWN_MEMBER_ID
            outcome.reply(token, tuple(LeftMember(each.member_id, each.instance_id, unknown) for each in request.members))
        elif isinstance(group, ConsumerGroup):
            outcome.reply(token, classic_members.leave(group, request, self._context, outcome, now))
        else:
            outcome.reply(token, membership.leave(group, request, self._context, outcome, now))
        return outcome.decision()

    def _group_with_members(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None or (isinstance(group, ConsumerGroup) and group.is_empty):
            raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    # --- the consumer protocol --------------------------------------------------------------------------------------------

    def consumer_heartbeat(self, request: ConsumerHeartbeat, token: Token, now: Moment) -> Decision[ConsumerHeartbeatReply]:
        consumer_protocol.check_request(request, self.settings.consumer_assignors)
        self._decided_at_ms = now.wall_ms
        outcome = Outcome()
        if request.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
            group = self._consumer_group(request.group_id)
            consumer_protocol.leave(group, request, token, self._context, outcome, now)
        else:
            group = self._joined_consumer_group(request, outcome, now)
            consumer_protocol.heartbeat(group, request, token, self._context, outcome, now)
        return outcome.decision()

    def _consumer_group(self, group_id: str) -> ConsumerGroup:
        group = self.groups.get(group_id)
        if group is None:
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        return group

    def _joined_consumer_group(self, request: ConsumerHeartbeat, outcome: Outcome, now: Moment) -> ConsumerGroup:
        """The group a heartbeat speaks to; a joining one makes or upgrades it."""
        self._refuse_share_group(request.group_id, ErrorCode.GROUP_ID_NOT_FOUND)
        group = self.groups.get(request.group_id)
        if request.member_epoch != JOIN_EPOCH or isinstance(group, ConsumerGroup):
            return self._consumer_group(request.group_id)
        if group is None:
            return ConsumerGroup(request.group_id)
        if group.is_empty:
            outcome.write(ClassicGroupEntry(request.group_id, None))
            return ConsumerGroup(request.group_id)
        return migration.upgrade(group, self._context, outcome, now)

    # --- share groups -----------------------------------------------------------------------------------------------------

    def share_heartbeat(self, request: ShareHeartbeat, token: Token, now: Moment) -> Decision[ShareHeartbeatReply]:
        if request.group_id in self.groups:
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a share group.")
        return self.shares.heartbeat(request, token, now)

    def note_begun(self, request: ShareBegun, token: Token, now: Moment) -> Decision[None]:
        return self.shares.note_begun(request, token, now)

    def forget_share_topics(self, request: ForgetTopics, token: Token, now: Moment) -> Decision[None]:
        return self.shares.forget_topics(request, token, now)

    def next_state_epoch(self, group_id: str, token: Token, now: Moment) -> Decision[int]:
        return self.shares.next_state_epoch(group_id, token, now)

    def describe_share(self, group_id: str) -> DescribedGroup[DescribedMember]:
        return self.shares.describe(group_id)

    def topics_of_share_group(self, group_id: str) -> Mapping[UUID, ShareTopic] | None:
        """What a share group has begun to work on; None where there is no such group."""
        group = self.shares.groups.get(group_id)
        return None if group is None else group.topics

    def _refuse_share_group(self, group_id: str, code: ErrorCode) -> None:
        if group_id in self.shares.groups:
            raise RequestError(code, f"Group {group_id} is a share group.")

    # --- offsets ----------------------------------------------------------------------------------------------------------

    def commit(self, request: Commit, token: Token, now: Moment) -> Decision[PartitionErrors]:
        """The reply is an error code for each offset."""
        self._refuse_share_group(request.group_id, ErrorCode.GROUP_ID_NOT_FOUND)
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            offsets.check_consumer_commit(group, request, self._context.topics)
        elif group is not None:
            offsets.check_classic_commit(group, request)
            self._hear_of_committer(group, request.member_id, now)
        elif request.generation >= 0:
            code = ErrorCode.GROUP_ID_NOT_FOUND if request.knows_consumer_protocol else ErrorCode.ILLEGAL_GENERATION
            raise RequestError(code, f"Group {request.group_id} not found.")
        return self._accept(request, token, now)

    def commit_transactional(self, request: TransactionalCommit, token: Token, now: Moment) -> Decision[PartitionErrors]:
        """The reply is an error code for each offset."""
        self._refuse_share_group(request.group_id, ErrorCode.GROUP_ID_NOT_FOUND)
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            offsets.check_consumer_commit(group, request, self._context.topics)
        elif group is not None:
            offsets.check_classic_commit(group, request)
        elif request.generation >= 0:
            raise RequestError(ErrorCode.ILLEGAL_GENERATION)
        return self._accept(request, token, now)

    def _accept(self, request: Commit | TransactionalCommit, token: Token, now: Moment) -> Decision[PartitionErrors]:
        outcome = Outcome()
        errors, entries = offsets.accept(request, self.settings, now)
        outcome.write_all(entries)
        outcome.reply(token, errors)
        return outcome.decision(request.producer if isinstance(request, TransactionalCommit) else None)

    def _hear_of_committer(self, group: ClassicGroup, member_id: str, now: Moment) -> None:
        member = group.members.get(member_id)
        if member is not None and group.state in (ClassicState.STABLE, ClassicState.PREPARING):
            self._context.hear_from(group.group_id, member_id, member.session_timeout_ms, now)

    def fetch_offsets(self, request: FetchOffsets) -> tuple[FetchedOffset, ...]:
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            offsets.check_consumer_fetch(group, request)
        return offsets.fetch(self.offsets, request)

    def delete_offsets(self, request: DeleteOffsets, token: Token, now: Moment) -> Decision[PartitionErrors]:
        """The reply is an error code for each partition."""
        _check_group_id(request.group_id)
        group = self.groups.get(request.group_id)
        if group is None:
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
        if isinstance(group, ClassicGroup) and group.state is not ClassicState.EMPTY and not group.uses_consumer_protocol:
            raise RequestError(ErrorCode.NON_EMPTY_GROUP)
        outcome = Outcome()
        errors: list[ErrorCode] = []
        for partition in request.partitions:
            is_read = group.is_subscribed_to(partition.topic)
            errors.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read else ErrorCode.NONE)
            is_open = self.offsets.is_open(request.group_id, partition)
            if not is_read and (is_open or self.offsets.get(request.group_id, *partition) is not None):
                outcome.write(OffsetEntry(request.group_id, *partition, None))
        outcome.reply(token, tuple(errors))
        return outcome.decision()

    # --- looking at groups ------------------------------------------------------------------------------------------------

    def list_groups(self, states: Iterable[str] = (), kinds: Iterable[str] = ()) -> list[ListedGroup]:
        states, kinds = list(states), list(kinds)
        listed = [describe.listed(group) for group in self.groups.values()]
        listed += [ListedGroup(group.group_id, "share", group.state, "share") for group in self.shares.groups.values()]
        return [group for group in listed if describe.is_listed(group, states, kinds)]

    def describe_classic(self, group_id: str, *, tells_error: bool = True) -> DescribedClassicGroup:
        group = self.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return describe.described_classic(group)
        message = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a classic group."
        return describe.missing_classic(group_id, shortened(message), tells_error=tells_error)

    def describe_consumer(self, group_id: str) -> DescribedGroup[DescribedConsumerMember]:
        try:
            group = self._consumer_group(group_id)
        except RequestError as error:
            return DescribedGroup(group_id=group_id, error=error.code, error_message=error.message)
        return describe.described_consumer(group, self.settings.consumer_assignors[0], self._context.topics)

    def delete_group(self, group_id: str, token: Token, now: Moment) -> Decision[ErrorCode]:
        if group_id in self.shares.groups:
            return self.shares.delete(group_id, token, now)
        outcome = Outcome()
        group = self.groups.get(group_id)
        if group is None:
            outcome.reply(token, ErrorCode.GROUP_ID_NOT_FOUND)
        elif not group.is_empty:
            outcome.reply(token, ErrorCode.NON_EMPTY_GROUP)
        else:
            outcome.write_all(self.offsets.tombstones(group_id))
            outcome.write_all(_tombstones(group))
            outcome.reply(token, ErrorCode.NONE)
        return outcome.decision()

    # --- the cluster's topics ---------------------------------------------------------------------------------------------

    def on_topics(self, topics: TopicCatalog, changed: Collection[str], gone: Mapping[str, UUID]) -> Decision[None]:
        """The cluster's topics have changed: offsets of deleted ones go, groups that read a changed one look again."""
        self._context.topics = topics
        for group in self.groups.values():
            if isinstance(group, ConsumerGroup) and not group.subscribed_topics().isdisjoint(changed):
                group.refresh_deadline = 0.0
        outcome = Outcome()
        if gone:
            outcome.write_all(self.offsets.tombstones_of_topics(gone))
            outcome.write_all(self.shares.on_topics_gone(gone))
        return outcome.decision()

    # --- time -------------------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        return self._context.timers.next_deadline()

    def tick(self, now: Moment) -> Decision[None]:
        """Act on the earliest deadline that has passed."""
        self._decided_at_ms = now.wall_ms
        outcome = Outcome()
        due = self._context.timers.pop_due(now.monotonic)
        if due is None:
            return outcome.decision()
        key = due.key
        group = self.groups.get(key.group_id)
        share_group = self.shares.groups.get(key.group_id)
        if key.kind is Timer.EXPIRY:
            self._expire_offsets(outcome, now)
        elif share_group is not None:
            self.shares.on_session_over(share_group, key.member_id, outcome, now)
        elif isinstance(group, ConsumerGroup):
            consumer_protocol.on_deadline(group, key, due.detail, self._context, outcome, now)
        elif group is not None:
            self._on_classic_deadline(group, key, due.detail, outcome, now)
        return outcome.decision()

    def _on_classic_deadline(self, group: ClassicGroup, key: TimerKey, detail: object, outcome: Outcome, now: Moment) -> None:
        match key.kind:
            case Timer.SESSION:
                membership.on_session_deadline(group, key.member_id, self._context, outcome, now)
            case Timer.JOIN:
                rebalance.on_join_deadline(group, detail, self._context, outcome, now)
            case Timer.SYNC:
                rebalance.on_sync_deadline(group, detail, self._context, outcome, now)
            case Timer.DOWNGRADED:
                migration.on_downgraded(group, detail, self._context, outcome, now)
            case Timer.REBALANCE | Timer.CLASSIC_JOIN | Timer.CLASSIC_SYNC | Timer.EXPIRY:
                return

    def _expire_offsets(self, outcome: Outcome, now: Moment) -> None:
        for group_id, group in self.groups.items():
            expired = list(expiry.expired_offsets(group, self.offsets, self.settings, now.wall_ms, self._serving_since_ms))
            outcome.write_all(expired)
            is_bare = len(expired) == len(self.offsets.of_group(group_id)) and not self.offsets.has_open(group_id)
            if is_bare and group.is_empty:
                outcome.write_all(_tombstones(group))
        self._set_expiry(now)

    def _set_expiry(self, now: Moment) -> None:
        interval_ms = self.settings.offsets_retention_check_interval_ms
        self._context.timers.set(TimerKey(Timer.EXPIRY), now.after_ms(interval_ms))

    # --- the log ----------------------------------------------------------------------------------------------------------

    def on_loaded(self, now: Moment) -> Decision[None]:
        """Begin to serve: every member found in the log has a full session to be heard of."""
        self._serving_since_ms = now.wall_ms
        outcome = Outcome()
        for group in self.groups.values():
            if isinstance(group, ConsumerGroup):
                consumer_protocol.on_loaded(group, self._context, now)
                continue
            for member in group.members.values():
                self._context.hear_from(group.group_id, member.member_id, member.session_timeout_ms, now)
            if len(group.members) > self.settings.max_size:
                # The limit was lowered meanwhile: members commit, join again, and those above it are refused.
                rebalance.prepare(group, self._context, outcome, now)
        self.shares.on_loaded(now)
        self._set_expiry(now)
        return outcome.decision()

    def replay(self, entry: Entry | ShareEntry, offset: int, producer: ProducerIdentity | None = None) -> None:
        if isinstance(entry, OffsetEntry):
            # Nearly all entries are offsets, and a start waits for every one of them.
            self._replay_offset(entry, offset, producer)
            return
        if isinstance(entry, SHARE_ENTRIES):
            self.shares.replay(entry)
            return
        match entry:
            case ClassicGroupEntry():
                self._replay_classic(entry)
            case GroupEpochEntry(value=None) | MemberEntry(value=None):
                self._replay_removal(entry)
            case _:
                self._replay_consumer(entry)

    def replay_marker(self, producer: ProducerIdentity, committed: bool) -> None:
        self.offsets.replay_marker(producer.producer_id, committed)

    def _replay_offset(self, entry: OffsetEntry, offset: int, producer: ProducerIdentity | None) -> None:
        if entry.value is not None and entry.group_id not in self.groups:
            # A consumer that assigns itself: its group has no entry of its own.
            self.groups[entry.group_id] = ClassicGroup(group_id=entry.group_id)
        self.offsets.replay(entry, offset, producer)

    def _replay_classic(self, entry: ClassicGroupEntry) -> None:
        group = self.groups.get(entry.group_id)
        self._context.timers.cancel(TimerKey(Timer.JOIN, entry.group_id))
        if entry.value is None:
            self._context.timers.cancel_group(entry.group_id)
            if isinstance(group, ClassicGroup):
                del self.groups[entry.group_id]
            return
        if not isinstance(group, ClassicGroup):
            group = ClassicGroup(group_id=entry.group_id)
            self.groups[entry.group_id] = group
        since_ms, group.rebalancing_since_ms = group.rebalancing_since_ms, None
        group.restore(entry.value)
        if since_ms is not None and group.state_timestamp_ms is not None:
            self._context.on_rebalanced(max(0, group.state_timestamp_ms - since_ms))

    def _replay_removal(self, entry: GroupEpochEntry | MemberEntry) -> None:
        group = self.groups.get(entry.group_id)
        if not isinstance(group, ConsumerGroup):
            return
        if isinstance(entry, MemberEntry):
            group.replay_member(entry)
            self._context.timers.cancel_member(entry.group_id, entry.member_id)
            self._note_progress(group)
        else:
            del self.groups[entry.group_id]

    def _note_progress(self, group: ConsumerGroup) -> None:
        """A member has come nearer to what it is to have, or has gone: perhaps a rebalance is over."""
        since_ms = group.rebalancing_since_ms
        if since_ms is None or group.state not in ("Stable", "Empty"):
            return
        group.rebalancing_since_ms = None
        if group.members:
            self._context.on_rebalanced(max(0, self._decided_at_ms - since_ms))

    def _replay_consumer(self, entry: Entry) -> None:
        group = self.groups.get(entry.group_id)
        if not isinstance(group, ConsumerGroup):
            if _is_tombstone(entry):
                return
            group = ConsumerGroup(entry.group_id)
            self.groups[entry.group_id] = group
        match entry:
            case GroupEpochEntry(value=value) if value is not None:
                group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
                if self._serving_since_ms is not None and group.rebalancing_since_ms is None:
                    group.rebalancing_since_ms = self._decided_at_ms
            case LegacyTopicsEntry():
                group.has_legacy_topics = entry.present
            case MemberEntry():
                group.replay_member(entry)
            case TargetEntry():
                group.replay_target(entry)
            case TargetEpochEntry():
                group.replay_target_epoch(entry)
            case AssignmentEntry():
                group.replay_assignment(entry)
                self._note_progress(group)
            case RegexEntry():
                group.replay_regex(entry)


def _check_group_id(group_id: str) -> None:
    if not group_id:
        raise RequestError(ErrorCode.INVALID_GROUP_ID)


def _tombstones(group: Group) -> Iterable[Entry]:
    return group.tombstones() if isinstance(group, ConsumerGroup) else (ClassicGroupEntry(group.group_id, None),)


def _is_tombstone(entry: Entry) -> bool:
    return not entry.present if isinstance(entry, LegacyTopicsEntry) else entry.value is None

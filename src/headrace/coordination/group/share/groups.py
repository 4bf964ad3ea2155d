"""The share groups of one coordinator (KIP-932): one heartbeat does it all, from joining over changing a subscription to leaving.

Any number of members may work on a partition, so nobody waits for anybody: a member has what it is meant to have as soon as it is
told.  A partition is given out only once a share coordinator keeps how far the group is in it; until then heartbeats ask the
shell to have it begin, and what has begun counts from the next heartbeat on.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from uuid import UUID

from headrace.coordination.decision import Decision, Token
from headrace.coordination.group.context import RETRY_MS, Context, Outcome
from headrace.coordination.group.entries import GroupEpochValue, Partitions, TargetEpochValue
from headrace.coordination.group.requests import JOIN_EPOCH, LEAVE_EPOCH, DescribedGroup, DescribedMember, DescribedTopic
from headrace.coordination.group.share import assignor
from headrace.coordination.group.share.members import ShareGroup, ShareMember
from headrace.coordination.group.share.requests import (
    ForgetTopics,
    ShareBegun,
    ShareHeartbeat,
    ShareHeartbeatReply,
)
from headrace.coordination.group.share_entries import (
    ShareAssignmentEntry,
    ShareAssignmentValue,
    ShareEntry,
    ShareGroupEpochEntry,
    ShareMemberEntry,
    ShareMemberValue,
    ShareTargetEntry,
    ShareTargetEpochEntry,
    ShareTopic,
    ShareTopicsEntry,
)
from headrace.coordination.group.timers import Timer, TimerKey
from headrace.coordination.moment import Moment
from headrace.model.errors import ErrorCode, RequestError

# How long share coordinators have to begin on partitions before they are asked again.
BEGIN_PATIENCE_MS = 10_000


class ShareGroups:
    """Share groups by their id.  Each public method but the replaying and looking ones decides about one request."""

    def __init__(self, context: Context) -> None:
        self.groups: dict[str, ShareGroup] = {}
        self._context = context
        # Not before then is anybody asked again to begin on partitions of a group.
        self._begin_not_before: dict[str, float] = {}

    # --- heartbeats -------------------------------------------------------------------------------------------------------

    def heartbeat(self, request: ShareHeartbeat, token: Token, now: Moment) -> Decision[ShareHeartbeatReply]:
        _check_request(request)
        outcome = Outcome()
        if request.member_epoch == LEAVE_EPOCH:
            group = self.group(request.group_id)
            self._remove(group, group.member(request.member_id).member_id, outcome)
            outcome.reply(token, ShareHeartbeatReply(member_id=request.member_id, member_epoch=LEAVE_EPOCH))
            return outcome.decision()
        group = self._joined(request)
        member = self._heard_of(group, request)
        about = _about(member, request)
        picture = self._advanced(group, replace(member, about=about), outcome, now)
        after = self._settled(picture, picture.members[member.member_id], outcome)
        settings = self._context.settings_of(group.group_id)
        self._context.hear_from(group.group_id, member.member_id, settings.share_session_timeout_ms, now)
        is_told = request.member_epoch != after.epoch or request.topic_names is not None or after.assigned != member.assigned
        reply = ShareHeartbeatReply(
            member_id=member.member_id,
            member_epoch=after.epoch,
            heartbeat_interval_ms=settings.share_heartbeat_interval_ms,
            assignment=after.assigned if is_told else None,
            begin=self._to_begin(picture, now),
        )
        outcome.reply(token, reply)
        return outcome.decision()

    def _joined(self, request: ShareHeartbeat) -> ShareGroup:
        if request.member_epoch != JOIN_EPOCH:
            return self.group(request.group_id)
        return self.groups.get(request.group_id) or ShareGroup(request.group_id)

    def _heard_of(self, group: ShareGroup, request: ShareHeartbeat) -> ShareMember:
        """The member as it was; a new one as it comes."""
        if request.member_epoch == JOIN_EPOCH and request.member_id not in group.members:
            if len(group.members) >= self._context.settings.share_max_size:
                message = f"The share group has reached its maximum capacity of {self._context.settings.share_max_size} members."
                raise RequestError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)
            return ShareMember(member_id=request.member_id)
        member = group.member(request.member_id)
        # One epoch back is of a member that did not get its last answer.
        if request.member_epoch not in (JOIN_EPOCH, member.epoch, member.previous_epoch):
            message = f"The share group member's epoch {request.member_epoch} is not {member.epoch}: it must join again."
            raise RequestError(ErrorCode.FENCED_MEMBER_EPOCH, message)
        return member

    def _advanced(self, group: ShareGroup, member: ShareMember, outcome: Outcome, now: Moment) -> ShareGroup:
        """The group with the member as it is now, and a new target where that matters to anybody."""
        before = group.members.get(member.member_id)
        picture = replace(group, members={**group.members, member.member_id: member})
        if before is None or before.about != member.about:
            outcome.write(ShareMemberEntry(group.group_id, member.member_id, member.about))
        metadata_hash = self._context.topics.subscription_hash(picture.subscribed_topics())
        is_other = before is None or before.about.topic_names != member.about.topic_names
        if is_other or metadata_hash != group.metadata_hash:
            picture.epoch, picture.metadata_hash = group.epoch + 1, metadata_hash
            outcome.write(ShareGroupEpochEntry(group.group_id, GroupEpochValue(picture.epoch, metadata_hash)))
        return self._retargeted(picture, outcome, now) if picture.target_epoch < picture.epoch else picture

    def _retargeted(self, picture: ShareGroup, outcome: Outcome, now: Moment) -> ShareGroup:
        topics = self._context.topics
        wanted = {member_id: topics.ids_of(member.about.topic_names) for member_id, member in picture.members.items()}
        begun = {topic_id: topic.partitions for topic_id, topic in picture.topics.items()}
        targets: dict[str, Partitions] = dict(assignor.assign(wanted, begun, picture.targets))
        for member_id, target in targets.items():
            if picture.targets.get(member_id) != target:
                outcome.write(ShareTargetEntry(picture.group_id, member_id, target))
        outcome.write(ShareTargetEpochEntry(picture.group_id, TargetEpochValue(picture.epoch, now.wall_ms)))
        return replace(picture, targets=targets, target_epoch=picture.epoch)

    def _settled(self, picture: ShareGroup, member: ShareMember, outcome: Outcome) -> ShareMember:
        """The member at the target's epoch, with what it is meant to have."""
        target = picture.targets.get(member.member_id, {})
        if member.epoch == picture.target_epoch and member.assigned == target:
            return member
        value = ShareAssignmentValue(epoch=picture.target_epoch, previous_epoch=member.epoch, assigned=target)
        outcome.write(ShareAssignmentEntry(picture.group_id, member.member_id, value))
        return replace(member, epoch=value.epoch, previous_epoch=value.previous_epoch, assigned=target)

    def _to_begin(self, picture: ShareGroup, now: Moment) -> dict[UUID, frozenset[int]]:
        missing = dict(self._missing(picture))
        if not missing or now.monotonic < self._begin_not_before.get(picture.group_id, 0.0):
            return {}
        self._begin_not_before[picture.group_id] = now.after_ms(BEGIN_PATIENCE_MS)
        return missing

    def _missing(self, picture: ShareGroup) -> Iterator[tuple[UUID, frozenset[int]]]:
        for name in sorted(picture.subscribed_topics()):
            topic = self._context.topics.named(name)
            if topic is None:
                continue
            begun = picture.topics.get(topic.topic_id)
            missing = frozenset(range(topic.partition_count)) - (frozenset() if begun is None else begun.partitions)
            if missing:
                yield topic.topic_id, missing

    def _remove(self, group: ShareGroup, member_id: str, outcome: Outcome) -> None:
        outcome.write_all(group.removal_of(member_id))
        rest = replace(group, members={each: member for each, member in group.members.items() if each != member_id})
        metadata_hash = self._context.topics.subscription_hash(rest.subscribed_topics())
        outcome.write(ShareGroupEpochEntry(group.group_id, GroupEpochValue(group.epoch + 1, metadata_hash)))

    def on_session_over(self, group: ShareGroup, member_id: str, outcome: Outcome, now: Moment) -> None:
        """A member was not heard of in time: others work on what it had."""
        if member_id in group.members:
            self._remove(group, member_id, outcome)
            self._context.hear_from(group.group_id, member_id, RETRY_MS, now)  # unless what was decided is replayed

    # --- what the group has begun to work on ------------------------------------------------------------------------------

    def note_begun(self, request: ShareBegun, token: Token, now: Moment) -> Decision[None]:
        """The next heartbeats give out these partitions, too."""
        group = self.group(request.group_id)
        topics = dict(group.topics)
        for topic_id, partitions in request.partitions.items():
            known = self._context.topics.identified(topic_id)
            if known is not None:
                before = topics[topic_id].partitions if topic_id in topics else frozenset()
                topics[topic_id] = ShareTopic(known.name, before | partitions)
        return self._with_topics(group, topics, token)

    def forget_topics(self, request: ForgetTopics, token: Token, now: Moment) -> Decision[None]:
        group = self.group(request.group_id)
        group.require_empty()
        topics = {topic_id: topic for topic_id, topic in group.topics.items() if topic_id not in request.topic_ids}
        return self._with_topics(group, topics, token)

    def on_topics_gone(self, topic_ids: Mapping[str, UUID]) -> list[ShareEntry]:
        """Topics were deleted; share coordinators forget them by themselves."""
        gone = set(topic_ids.values())
        return [
            ShareTopicsEntry(group.group_id, {each: topic for each, topic in group.topics.items() if each not in gone})
            for group in self.groups.values()
            if gone & group.topics.keys()
        ]

    def _with_topics(self, group: ShareGroup, topics: Mapping[UUID, ShareTopic], token: Token) -> Decision[None]:
        outcome = Outcome()
        if topics != group.topics:
            outcome.write(ShareTopicsEntry(group.group_id, topics))
            outcome.write(ShareGroupEpochEntry(group.group_id, GroupEpochValue(group.epoch + 1, group.metadata_hash)))
        self._begin_not_before.pop(group.group_id, None)
        outcome.reply(token, None)
        return outcome.decision()

    def next_state_epoch(self, group_id: str, token: Token, now: Moment) -> Decision[int]:
        """For offsets that are moved by hand while nobody works: an epoch that fences what was kept before."""
        group = self.group(group_id)
        group.require_empty()
        outcome = Outcome()
        outcome.write(ShareGroupEpochEntry(group_id, GroupEpochValue(group.epoch + 1, group.metadata_hash)))
        outcome.reply(token, group.epoch + 1)
        return outcome.decision()

    def delete(self, group_id: str, token: Token, now: Moment) -> Decision[ErrorCode]:
        """Once nothing is kept of its partitions any more."""
        group = self.group(group_id)
        group.require_empty()
        outcome = Outcome()
        outcome.write_all(group.tombstones())
        outcome.reply(token, ErrorCode.NONE)
        return outcome.decision()

    # --- looking ----------------------------------------------------------------------------------------------------------

    def group(self, group_id: str) -> ShareGroup:
        group = self.groups.get(group_id)
        if group is None:
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {group_id} not found.")
        return group

    def describe(self, group_id: str) -> DescribedGroup[DescribedMember]:
        group = self.group(group_id)
        return DescribedGroup(
            group_id=group_id,
            state=group.state,
            group_epoch=group.epoch,
            assignment_epoch=group.target_epoch,
            assignor=assignor.NAME,
            members=tuple(self._described(member) for member in group.members.values()),
        )

    def _described(self, member: ShareMember) -> DescribedMember:
        return DescribedMember(
            member_id=member.member_id,
            rack_id=member.about.rack_id,
            member_epoch=member.epoch,
            client_id=member.about.client_id,
            client_host=member.about.client_host,
            topic_names=tuple(sorted(member.about.topic_names)),
            assignment=tuple(
                DescribedTopic(topic_id, topic.name, tuple(sorted(partitions)))
                for topic_id, partitions in member.assigned.items()
                if (topic := self._context.topics.identified(topic_id)) is not None
            ),
        )

    # --- the log ----------------------------------------------------------------------------------------------------------

    def on_loaded(self, now: Moment) -> None:
        """Every member found in the log has a full session to be heard of."""
        for group in self.groups.values():
            for member_id in group.members:
                session_ms = self._context.settings_of(group.group_id).share_session_timeout_ms
                self._context.hear_from(group.group_id, member_id, session_ms, now)

    def replay(self, entry: ShareEntry) -> None:
        if isinstance(entry, ShareGroupEpochEntry) and entry.value is None:
            self.groups.pop(entry.group_id, None)
            self._begin_not_before.pop(entry.group_id, None)
            return
        if entry.value is None and entry.group_id not in self.groups:
            return
        self.groups.setdefault(entry.group_id, ShareGroup(entry.group_id)).replay(entry)
        if isinstance(entry, ShareMemberEntry) and entry.value is None:
            self._context.timers.cancel(TimerKey(Timer.SESSION, entry.group_id, entry.member_id))


def _check_request(request: ShareHeartbeat) -> None:
    invalid = ErrorCode.INVALID_REQUEST
    for name, value in (("GroupId", request.group_id), ("MemberId", request.member_id), ("RackId", request.rack_id)):
        if value == "":
            raise RequestError(invalid, f"{name} can't be empty.")
    if request.member_epoch < LEAVE_EPOCH:
        raise RequestError(invalid, "MemberEpoch is invalid.")
    if request.member_epoch == JOIN_EPOCH and not request.topic_names:
        raise RequestError(invalid, "SubscribedTopicNames must be set in first request.")


def _about(member: ShareMember, request: ShareHeartbeat) -> ShareMemberValue:
    before = member.about
    return ShareMemberValue(
        rack_id=before.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topic_names=before.topic_names if request.topic_names is None else request.topic_names,
    )

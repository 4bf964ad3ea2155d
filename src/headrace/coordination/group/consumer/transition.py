"""What follows when a member of a consumer group joins, changes or just beats: epochs, a new target, its next step towards it.

Works on a picture of the group with the change in it and writes the entries that make the picture true; the group itself changes
when they are replayed.
"""

from dataclasses import replace
from functools import lru_cache

from headrace.coordination.group.consumer.assignors import ASSIGNORS, MemberSpec
from headrace.coordination.group.consumer.members import ConsumerGroup, ConsumerMember
from headrace.coordination.group.consumer.reconcile import reconcile
from headrace.coordination.group.context import Context, Outcome
from headrace.coordination.group.entries import (
    AssignmentEntry,
    GroupEpochEntry,
    GroupEpochValue,
    LegacyTopicsEntry,
    MemberEntry,
    MemberState,
    MemberValue,
    Partitions,
    RegexEntry,
    RegexValue,
    TargetEntry,
    TargetEpochEntry,
    TargetEpochValue,
)
from headrace.coordination.group.pattern import InvalidPattern, Pattern
from headrace.coordination.group.requests import MaySee
from headrace.coordination.group.timers import Timer, TimerKey
from headrace.coordination.moment import Moment
from headrace.declaring import dataclass
from headrace.model.errors import ErrorCode, RequestError

TOPICS_REFRESH_MS = 60 * 60 * 1000
# Patterns that are resolved are not looked at again sooner than this, however many topics are created.
REGEX_REST_MS = 10_000


@dataclass(slots=True, kw_only=True)
class Change:
    """A member as its group knows it, and what it now says of itself."""

    group: ConsumerGroup
    member: ConsumerMember
    about: MemberValue
    owned: Partitions | None
    # The id under which the same static member was known.
    replaces: str | None = None
    # Which topics patterns find on its behalf; None where it says nothing of patterns, which then stay as they are.
    may_see: MaySee | None = None

    @property
    def is_new(self) -> bool:
        return self.replaces is None and self.member.member_id not in self.group.members

    @property
    def names_changed(self) -> bool:
        return self.about.topic_names != self.member.about.topic_names

    @property
    def regex_changed(self) -> bool:
        return (self.about.topic_regex or None) != self.member.regex

    @property
    def subscription_changed(self) -> bool:
        return self.names_changed or self.regex_changed

    def picture(self) -> ConsumerGroup:
        """The group with the change in it."""
        if self.about == self.member.about and self.member.member_id in self.group.members:
            return self.group
        return self.group.with_member(replace(self.member, about=self.about), replaces=self.replaces)


def advance(change: Change, context: Context, outcome: Outcome, now: Moment) -> ConsumerMember:
    """Write what the change entails; return the member as it will be."""
    picture = register(change, context, outcome, now)
    picture = _retarget(picture, context, outcome, now)
    return step_towards_target(change, picture, context, outcome, now)


# --- the member and the group's epoch ---------------------------------------------------------------------------------------


def register(change: Change, context: Context, outcome: Outcome, now: Moment) -> ConsumerGroup:
    """Write down who the member is and, if that matters to others, a new group epoch."""
    group = change.group
    if change.regex_changed and change.about.topic_regex:
        compiled(change.about.topic_regex)
    picture = change.picture()
    if change.is_new or change.about != change.member.about:
        outcome.write(MemberEntry(group.group_id, change.member.member_id, change.about))
    picture, patterns_changed = _resolve_patterns(picture, change.may_see, context, outcome, now)
    is_bumped = change.is_new or change.subscription_changed or patterns_changed
    if not is_bumped and not group.is_refresh_due(now.monotonic):
        return picture
    metadata_hash = context.topics.subscription_hash(picture.subscribed_topics())
    if is_bumped or metadata_hash != group.metadata_hash:
        picture = replace(picture, epoch=group.epoch + 1, metadata_hash=metadata_hash)
        outcome.write(GroupEpochEntry(group.group_id, GroupEpochValue(picture.epoch, metadata_hash)))
    if group.has_legacy_topics:
        outcome.write(LegacyTopicsEntry(group.group_id, False))
    group.refresh_deadline, group.refresh_epoch = now.after_ms(TOPICS_REFRESH_MS), picture.epoch
    return picture


@lru_cache(maxsize=1024)
def _compiled(regex: str) -> Pattern:
    return Pattern(regex)


def compiled(regex: str) -> Pattern:
    try:
        return _compiled(regex)
    except InvalidPattern as error:
        message = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}."
        raise RequestError(ErrorCode.INVALID_REGULAR_EXPRESSION, message) from None


def _resolve_patterns(
    picture: ConsumerGroup, may_see: MaySee | None, context: Context, outcome: Outcome, now: Moment
) -> tuple[ConsumerGroup, bool]:
    """Find the topics that the group's patterns match; say whether other topics than before came out.

    As in Kafka, they are those that the member may see with whose heartbeat they are looked for."""
    wanted = {member.regex for member in picture.members.values() if member.regex is not None}
    gone = picture.regexes.keys() - wanted
    outcome.write_all(RegexEntry(picture.group_id, regex, None) for regex in sorted(gone))
    if may_see is None or not _must_resolve(picture, wanted, context, now):
        if not gone:
            return picture, False
        return replace(picture, regexes={regex: value for regex, value in picture.regexes.items() if regex in wanted}), True
    version = context.topics.version
    resolved: dict[str, RegexValue] = {}
    for regex in sorted(wanted):
        pattern = compiled(regex)
        matching = frozenset(name for name in context.topics.names() if pattern.matches(name) and may_see(name))
        resolved[regex] = RegexValue(matching, version, now.wall_ms)
        outcome.write(RegexEntry(picture.group_id, regex, resolved[regex]))
    before = {regex: value.topics for regex, value in picture.regexes.items()}
    after = {regex: value.topics for regex, value in resolved.items()}
    return replace(picture, regexes=resolved), before != after


def _must_resolve(picture: ConsumerGroup, wanted: set[str], context: Context, now: Moment) -> bool:
    if not wanted:
        return False
    if wanted - picture.regexes.keys():
        return True
    resolved = [picture.regexes[regex] for regex in wanted]
    age_ms = now.wall_ms - min(min(value.timestamp_ms for value in resolved), now.wall_ms)
    is_outdated = min(value.version for value in resolved) < context.topics.version_with_new_topics
    return age_ms > REGEX_REST_MS and (is_outdated or age_ms > context.settings.consumer_regex_refresh_interval_ms)


# --- the target -------------------------------------------------------------------------------------------------------------


def _retarget(picture: ConsumerGroup, context: Context, outcome: Outcome, now: Moment) -> ConsumerGroup:
    """Work out who is to read what, if the group has moved on since that was last done."""
    if picture.target_epoch >= picture.epoch or not _may_retarget(picture, context, now):
        return picture
    topics = context.topics
    members = {
        member_id: MemberSpec(
            topics=topics.ids_of(picture.topics_of(member)),
            current=picture.targets.get(member_id, {}),
            instance_id=member.instance_id,
        )
        for member_id, member in picture.members.items()
    }
    counts = {topic.topic_id: topic.partition_count for name in topics.names() if (topic := topics.named(name)) is not None}
    assignor = picture.preferred_assignor() or context.settings.consumer_assignors[0]
    targets: dict[str, Partitions] = dict(ASSIGNORS[assignor](members, counts))
    for member_id, target in targets.items():
        if member_id not in picture.targets or picture.targets[member_id] != target:
            outcome.write(TargetEntry(picture.group_id, member_id, target))
    outcome.write(TargetEpochEntry(picture.group_id, TargetEpochValue(picture.epoch, now.wall_ms)))
    return replace(picture, targets=targets, target_epoch=picture.epoch)


def _may_retarget(picture: ConsumerGroup, context: Context, now: Moment) -> bool:
    interval_ms = context.settings_of(picture.group_id).consumer_assignment_interval_ms
    # A target of the future was made under a clock that was wrong.
    return interval_ms == 0 or not 0 <= now.wall_ms - picture.target_timestamp_ms < interval_ms


# --- the member's own assignment --------------------------------------------------------------------------------------------


def step_towards_target(
    change: Change, picture: ConsumerGroup, context: Context, outcome: Outcome, now: Moment
) -> ConsumerMember:
    """Take the member one step nearer to its target and write that down."""
    member = picture.members[change.member.member_id]
    if not change.subscription_changed and member.is_reconciled_to(picture.target_epoch):
        return member
    after = reconcile(
        picture,
        member,
        picture.targets.get(member.member_id, {}),
        picture.target_epoch,
        owned=change.owned,
        subscription_changed=change.subscription_changed,
        topics=context.topics,
    )
    if after != member:
        outcome.write(AssignmentEntry(picture.group_id, after.member_id, after.assignment_value()))
        if after.classic is None:
            watch_revocation(picture.group_id, after, context, now)
    return after


def watch_revocation(group_id: str, member: ConsumerMember, context: Context, now: Moment) -> None:
    """A member that is to give up partitions has its rebalance time-out to do so."""
    key = TimerKey(Timer.REBALANCE, group_id, member.member_id)
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        context.timers.set(key, now.after_ms(member.about.rebalance_timeout_ms), member.epoch)
    else:
        context.timers.cancel(key)

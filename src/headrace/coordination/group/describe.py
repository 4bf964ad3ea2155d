"""What tools are shown of groups."""

from collections.abc import Iterable

from headrace.coordination.group.classic.state import ClassicGroup, ClassicState
from headrace.coordination.group.consumer.members import ConsumerGroup, ConsumerMember
from headrace.coordination.group.entries import Partitions
from headrace.coordination.group.expiry import Group
from headrace.coordination.group.requests import (
    DescribedClassicGroup,
    DescribedClassicMember,
    DescribedConsumerMember,
    DescribedGroup,
    DescribedTopic,
    ListedGroup,
)
from headrace.coordination.group.topics import TopicCatalog
from headrace.model.errors import ErrorCode


def listed(group: Group) -> ListedGroup:
    if isinstance(group, ConsumerGroup):
        return ListedGroup(group.group_id, "consumer", group.state, "consumer")
    return ListedGroup(group.group_id, group.protocol_type or "", group.state.value, "classic")


def is_listed(group: ListedGroup, states: Iterable[str], kinds: Iterable[str]) -> bool:
    """Whether a group passes the filters; an empty filter lets all pass, and case does not matter."""
    wanted_states = {state.strip().lower() for state in states}
    wanted_kinds = {kind.strip().lower() for kind in kinds}
    return (not wanted_states or group.state.lower() in wanted_states) and (
        not wanted_kinds or group.kind.lower() in wanted_kinds
    )


# --- classic groups ---------------------------------------------------------------------------------------------------------


def missing_classic(group_id: str, message: str, *, tells_error: bool) -> DescribedClassicGroup:
    """A group that is not there: dead, and since version 6 of the request an error too."""
    if not tells_error:
        return DescribedClassicGroup(group_id=group_id, state=ClassicState.DEAD.value)
    code = ErrorCode.GROUP_ID_NOT_FOUND
    return DescribedClassicGroup(group_id=group_id, state=ClassicState.DEAD.value, error=code, error_message=message)


def described_classic(group: ClassicGroup) -> DescribedClassicGroup:
    # What members joined with is in flux until the group is stable; what they were assigned last still says what they read.
    protocol = group.protocol if group.state is ClassicState.STABLE else None
    members = tuple(
        DescribedClassicMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            metadata=member.protocols.get(protocol, b"") if protocol is not None else b"",
            assignment=member.assignment,
        )
        for member in group.members.values()
    )
    return DescribedClassicGroup(
        group_id=group.group_id,
        state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol=protocol or "",
        members=members,
    )


# --- consumer groups --------------------------------------------------------------------------------------------------------


def described_consumer(
    group: ConsumerGroup, default_assignor: str, topics: TopicCatalog
) -> DescribedGroup[DescribedConsumerMember]:
    return DescribedGroup(
        group_id=group.group_id,
        state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor=group.preferred_assignor() or default_assignor,
        members=tuple(_described_member(group, member, topics) for member in group.members.values()),
    )


def _described_member(group: ConsumerGroup, member: ConsumerMember, topics: TopicCatalog) -> DescribedConsumerMember:
    return DescribedConsumerMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.about.rack_id,
        member_epoch=member.epoch,
        client_id=member.about.client_id,
        client_host=member.about.client_host,
        topic_names=tuple(sorted(member.about.topic_names)),
        topic_regex=member.about.topic_regex,
        assignment=_described_topics(member.held(), topics),
        target=_described_topics(group.targets.get(member.member_id, {}), topics),
        is_classic=member.classic is not None,
    )


def _described_topics(partitions: Partitions, topics: TopicCatalog) -> tuple[DescribedTopic, ...]:
    return tuple(
        DescribedTopic(topic_id, topic.name, tuple(sorted(indexes)))
        for topic_id, indexes in partitions.items()
        if (topic := topics.identified(topic_id)) is not None
    )

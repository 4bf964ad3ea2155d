"""ConsumerGroupDescribe: the state and members of new-style groups."""

from typing import Annotated, ClassVar
from uuid import UUID

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, array, boolean, int8, int16, int32, string, uuid

CONSUMER_GROUP_DESCRIBE = Api(key=69, versions=range(2), flexible_from=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDescribeRequest:
    """Asks about groups."""

    api: ClassVar[Api] = CONSUMER_GROUP_DESCRIBE
    group_ids: Annotated[tuple[str, ...], array(string)]
    include_authorized_operations: Annotated[bool, boolean]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    """The partitions of one topic."""

    topic_id: Annotated[UUID, uuid]
    topic_name: Annotated[str, string]
    partitions: Annotated[tuple[int, ...], array(int32)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What a member owns, or shall own."""

    topic_partitions: Annotated[tuple[TopicPartitions, ...], array(TopicPartitions)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member, what it reads and what it shall read."""

    member_id: Annotated[str, string]
    instance_id: Annotated[str | None, string] = None
    rack_id: Annotated[str | None, string] = None
    member_epoch: Annotated[int, int32]
    client_id: Annotated[str, string]
    client_host: Annotated[str, string]
    subscribed_topic_names: Annotated[tuple[str, ...], array(string)]
    subscribed_topic_regex: Annotated[str | None, string] = None
    assignment: Annotated[Assignment, Assignment]
    target_assignment: Annotated[Assignment, Assignment]
    member_type: Annotated[int, int8, Since(1)] = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """A group and its members."""

    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None
    group_id: Annotated[str, string]
    group_state: Annotated[str, string]
    group_epoch: Annotated[int, int32]
    assignment_epoch: Annotated[int, int32]
    assignor_name: Annotated[str, string]
    members: Annotated[tuple[Member, ...], array(Member)]
    authorized_operations: Annotated[int, int32] = -(2**31)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDescribeResponse:
    """The groups.  v1 tells which members still use the classic protocol."""

    api: ClassVar[Api] = CONSUMER_GROUP_DESCRIBE
    throttle_time_ms: Annotated[int, int32] = 0
    groups: Annotated[tuple[DescribedGroup, ...], array(DescribedGroup)]

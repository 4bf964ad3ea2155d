"""ShareGroupDescribe: the state and members of share groups."""

from typing import Annotated, ClassVar
from uuid import UUID

from headrace.declaring import dataclass
from headrace.wire.schema import Api, array, boolean, int16, int32, string, uuid

SHARE_GROUP_DESCRIBE = Api(key=77, versions=range(1, 2), flexible_from=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescribeRequest:
    """Asks about groups."""

    api: ClassVar[Api] = SHARE_GROUP_DESCRIBE
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
    """What a member reads from."""

    topic_partitions: Annotated[tuple[TopicPartitions, ...], array(TopicPartitions)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member and what it reads from."""

    member_id: Annotated[str, string]
    rack_id: Annotated[str | None, string] = None
    member_epoch: Annotated[int, int32]
    client_id: Annotated[str, string]
    client_host: Annotated[str, string]
    subscribed_topic_names: Annotated[tuple[str, ...], array(string)]
    assignment: Annotated[Assignment, Assignment]


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
class ShareGroupDescribeResponse:
    """The groups."""

    api: ClassVar[Api] = SHARE_GROUP_DESCRIBE
    throttle_time_ms: Annotated[int, int32] = 0
    groups: Annotated[tuple[DescribedGroup, ...], array(DescribedGroup)]

"""DeleteShareGroupOffsets: has a share group without members forget whole topics (KIP-932)."""

from typing import Annotated, ClassVar
from uuid import UUID

from headrace.declaring import dataclass
from headrace.wire.schema import Api, array, int16, int32, string, uuid

DELETE_SHARE_GROUP_OFFSETS = Api(key=92, versions=range(1), flexible_from=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteShareGroupOffsetsRequestTopic:
    """A topic to forget."""

    topic_name: Annotated[str, string]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteShareGroupOffsetsRequest:
    """The group, and what it is to forget."""

    api: ClassVar[Api] = DELETE_SHARE_GROUP_OFFSETS
    group_id: Annotated[str, string]
    topics: Annotated[tuple[DeleteShareGroupOffsetsRequestTopic, ...], array(DeleteShareGroupOffsetsRequestTopic)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteShareGroupOffsetsResponseTopic:
    """How it went for one topic."""

    topic_name: Annotated[str, string]
    topic_id: Annotated[UUID, uuid]
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteShareGroupOffsetsResponse:
    """What was forgotten."""

    api: ClassVar[Api] = DELETE_SHARE_GROUP_OFFSETS
    throttle_time_ms: Annotated[int, int32] = 0
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None
    responses: Annotated[tuple[DeleteShareGroupOffsetsResponseTopic, ...], array(DeleteShareGroupOffsetsResponseTopic)]

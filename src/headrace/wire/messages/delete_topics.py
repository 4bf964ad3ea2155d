"""DeleteTopics: topics to remove, with all their records."""

from typing import Annotated, ClassVar
from uuid import UUID

from headrace.declaring import dataclass
from headrace.wire.schema import ZERO_UUID, Api, NullableSince, Since, Until, array, int16, int32, string, uuid

DELETE_TOPICS = Api(key=20, versions=range(7), flexible_from=4)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicState:
    """A topic by name or, with a null name, by id."""

    name: Annotated[str | None, string] = None
    topic_id: Annotated[UUID, uuid]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsRequest:
    """Topics by name or, from v6 on, by id.  v4 is the first flexible version."""

    api: ClassVar[Api] = DELETE_TOPICS
    topics: Annotated[tuple[DeleteTopicState, ...], array(DeleteTopicState), Since(6)] = ()
    topic_names: Annotated[tuple[str, ...], array(string), Until(5)] = ()
    timeout_ms: Annotated[int, int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletableTopicResult:
    """What became of one topic."""

    name: Annotated[str | None, string, NullableSince(6)]
    topic_id: Annotated[UUID, uuid, Since(6)] = ZERO_UUID
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string, Since(5)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsResponse:
    """For each topic, whether it is gone.  v1 adds the throttle time, v5 messages, v6 ids."""

    api: ClassVar[Api] = DELETE_TOPICS
    throttle_time_ms: Annotated[int, int32, Since(1)] = 0
    responses: Annotated[tuple[DeletableTopicResult, ...], array(DeletableTopicResult)]

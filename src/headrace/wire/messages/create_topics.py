"""CreateTopics: new topics, with settings and, if wanted, a hand-made placement."""

from typing import Annotated, ClassVar
from uuid import UUID

from headrace.declaring import dataclass
from headrace.wire.schema import ZERO_UUID, Api, Since, Tagged, array, boolean, int8, int16, int32, string, uuid

CREATE_TOPICS = Api(key=19, versions=range(8), flexible_from=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableReplicaAssignment:
    """The replicas of one partition, chosen by hand."""

    partition_index: Annotated[int, int32]
    broker_ids: Annotated[tuple[int, ...], array(int32)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableTopicConfig:
    """A setting for the new topic."""

    name: Annotated[str, string]
    value: Annotated[str | None, string]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableTopic:
    """A topic to create."""

    name: Annotated[str, string]
    num_partitions: Annotated[int, int32]
    replication_factor: Annotated[int, int16]
    assignments: Annotated[tuple[CreatableReplicaAssignment, ...], array(CreatableReplicaAssignment)]
    configs: Annotated[tuple[CreatableTopicConfig, ...], array(CreatableTopicConfig)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsRequest:
    """Topics to create.

    v1 may only validate; v4 lets the broker choose partitions and factor (-1); v5 is the first flexible version.
    """

    api: ClassVar[Api] = CREATE_TOPICS
    topics: Annotated[tuple[CreatableTopic, ...], array(CreatableTopic)]
    timeout_ms: Annotated[int, int32] = 60000
    validate_only: Annotated[bool, boolean, Since(1)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableTopicConfigs:
    """A setting as the new topic has it."""

    name: Annotated[str, string]
    value: Annotated[str | None, string]
    read_only: Annotated[bool, boolean]
    config_source: Annotated[int, int8] = -1
    is_sensitive: Annotated[bool, boolean]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableTopicResult:
    """What became of one topic."""

    name: Annotated[str, string]
    topic_id: Annotated[UUID, uuid, Since(7)] = ZERO_UUID
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string, Since(1)] = None
    topic_config_error_code: Annotated[int, int16, Since(5), Tagged(0)] = 0
    num_partitions: Annotated[int, int32, Since(5)] = -1
    replication_factor: Annotated[int, int16, Since(5)] = -1
    configs: Annotated[tuple[CreatableTopicConfigs, ...] | None, array(CreatableTopicConfigs), Since(5)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsResponse:
    """For each topic, whether it was made.

    v1 adds messages, v2 the throttle time, v5 the settings that the topic got, v7 its id.
    """

    api: ClassVar[Api] = CREATE_TOPICS
    throttle_time_ms: Annotated[int, int32, Since(2)] = 0
    topics: Annotated[tuple[CreatableTopicResult, ...], array(CreatableTopicResult)]

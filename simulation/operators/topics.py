"""Topics, as an operator makes and removes them: asked for again until the cluster has done it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from headrace.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from simulation.clients.client import ClusterClient, Unavailable

CREATE_VERSION = 7
DELETE_VERSION = 6
DELETE_TIMEOUT_MS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """A topic as it is to be."""

    name: str
    partition_count: int = 1
    factor: int = 3
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.name, index) for index in range(self.partition_count)]


async def create_topic(client: ClusterClient, spec: TopicSpec) -> None:
    """Return when there is a topic of that name, whoever made it."""
    topic = CreatableTopic(
        name=spec.name,
        num_partitions=spec.partition_count,
        replication_factor=spec.factor,
        assignments=(),
        configs=tuple(CreatableTopicConfig(name=name, value=value) for name, value in spec.configs.items()),
    )

    async def ask() -> ErrorCode:
        response = await client.call_any(CreateTopicsRequest(topics=(topic,)), CREATE_VERSION)
        return ErrorCode(response.topics[0].error_code)

    await _until_done(client, ask, f"topic {spec.name} is not there yet", ErrorCode.TOPIC_ALREADY_EXISTS)


async def delete_topic(client: ClusterClient, topic_id: UUID) -> None:
    """Return when the topic with that id is gone."""
    request = DeleteTopicsRequest(topics=(DeleteTopicState(topic_id=topic_id),), timeout_ms=DELETE_TIMEOUT_MS)

    async def ask() -> ErrorCode:
        response = await client.call_any(request, DELETE_VERSION)
        return ErrorCode(response.responses[0].error_code)

    await _until_done(client, ask, f"topic {topic_id} is not deleted yet", ErrorCode.UNKNOWN_TOPIC_ID)


async def _until_done(client: ClusterClient, ask: Callable[[], Awaitable[ErrorCode]], lament: str, already: ErrorCode) -> None:
    while True:
        try:
            error = await ask()
            if error in (ErrorCode.NONE, already):
                return
            client.history.tell(f"{lament}: {error.name}")
        except Unavailable:
            pass
        await client.back_off()

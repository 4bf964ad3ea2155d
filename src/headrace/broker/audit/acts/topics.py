"""Acts on topics: they come, go, grow and lose records."""

from collections.abc import Iterator, Mapping

from headrace.broker.audit.acts.act import Act, ActsOf, PartitionOutcome, Surroundings, by_topic, outcome, topic_named
from headrace.broker.network.dispatch import RequestContext
from headrace.controller.image import Topic
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import NO_TOPIC_ID
from headrace.security.audit.events import Activity, ValueChange
from headrace.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from headrace.wire.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse

PARTITIONS, FACTOR = "partitions", "replication.factor"


def create_topics(around: Surroundings, request: CreateTopicsRequest, context: RequestContext) -> ActsOf | None:
    if request.validate_only:
        return None
    asked = {topic.name: topic for topic in request.topics}

    def acts_of(response: CreateTopicsResponse) -> Iterator[Act]:
        for result in response.topics:
            made = around.image().topics.get(result.name) if result.error_code == ErrorCode.NONE else None
            values = _asked_for(asked[result.name]) if made is None else values_of(made)
            yield Act(
                activity=Activity.CREATE,
                resources=(topic_named(result.name),),
                error=outcome(result.error_code),
                detail=result.error_message or "",
                changes=creation(values),
            )

    return acts_of


def creation(values: Mapping[str, object]) -> tuple[ValueChange, ...]:
    return tuple(ValueChange(name, None, value) for name, value in values.items())


def values_of(topic: Topic) -> dict[str, object]:
    """What there is to know of a topic, its settings included."""
    return {"topic.id": str(topic.topic_id), PARTITIONS: topic.partition_count, FACTOR: topic.replication_factor} | topic.configs


def _asked_for(topic: CreatableTopic) -> dict[str, object]:
    counts = {PARTITIONS: topic.num_partitions, FACTOR: topic.replication_factor}
    return {name: count for name, count in counts.items() if count != -1} | {each.name: each.value for each in topic.configs}


def delete_topics(around: Surroundings, request: DeleteTopicsRequest, context: RequestContext) -> ActsOf | None:
    image = around.image()
    names = {topic.topic_id: topic.name for topic in image.topics_by_id.values()} if request.topics else {}
    asked = [topic.name or names.get(topic.topic_id, str(topic.topic_id)) for topic in request.topics] or request.topic_names
    before = {name: values_of(topic) for name in asked if (topic := image.topics.get(name)) is not None}

    def acts_of(response: DeleteTopicsResponse) -> Iterator[Act]:
        for result in response.responses:
            known = names.get(result.topic_id, str(result.topic_id)) if result.topic_id != NO_TOPIC_ID else ""
            name = result.name or known
            is_gone = result.error_code == ErrorCode.NONE
            yield Act(
                activity=Activity.DELETE,
                resources=(topic_named(name),),
                error=outcome(result.error_code),
                detail=result.error_message or "",
                changes=tuple(ValueChange(key, value, None) for key, value in before.get(name, {}).items()) if is_gone else (),
            )

    return acts_of


def delete_records(around: Surroundings, request: DeleteRecordsRequest, context: RequestContext) -> ActsOf | None:
    before = {
        (topic.name, each.partition_index): _start_of(around, topic.name, each.partition_index)
        for topic in request.topics
        for each in topic.partitions
    }
    wanted = {(topic.name, each.partition_index): each.offset for topic in request.topics for each in topic.partitions}

    def acts_of(response: DeleteRecordsResponse) -> Iterator[Act]:
        return by_topic(
            Activity.DELETE,
            (
                PartitionOutcome(
                    topic.name,
                    result.error_code,
                    ValueChange(
                        f"partition {result.partition_index}: log start",
                        before.get((topic.name, result.partition_index)),
                        result.low_watermark
                        if result.error_code == ErrorCode.NONE
                        else wanted.get((topic.name, result.partition_index)),
                    ),
                )
                for topic in response.topics
                for result in topic.partitions
            ),
        )

    return acts_of


def _start_of(around: Surroundings, topic: str, index: int) -> int | None:
    try:
        return around.replicas.find(topic, index).log.start_offset
    except RequestError:
        return None


def create_partitions(around: Surroundings, request: CreatePartitionsRequest, context: RequestContext) -> ActsOf | None:
    if request.validate_only:
        return None
    image = around.image()
    counts = {topic.name: topic.count for topic in request.topics}
    before = {name: topic.partition_count for name in counts if (topic := image.topics.get(name)) is not None}

    def acts_of(response: CreatePartitionsResponse) -> Iterator[Act]:
        for result in response.results:
            yield Act(
                activity=Activity.UPDATE,
                resources=(topic_named(result.name),),
                error=outcome(result.error_code),
                detail=result.error_message or "",
                changes=(ValueChange(PARTITIONS, before.get(result.name), counts.get(result.name)),),
            )

    return acts_of

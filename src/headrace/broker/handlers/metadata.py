"""Metadata: brokers, topics and who leads their partitions.  Where it is allowed, naming a topic has it created."""

from dataclasses import replace

from headrace.broker.access.operations import operations_on_cluster
from headrace.broker.administration.auto_creation import AutoCreation
from headrace.broker.network.dispatch import RequestContext
from headrace.broker.network.listeners import endpoint_of
from headrace.controller.entries import BrokerRegistration
from headrace.controller.image import ClusterImage, CurrentImage, Topic
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.errors import ErrorCode
from headrace.model.identity import NO_BROKER, NO_TOPIC_ID
from headrace.model.live_config import LiveConfig
from headrace.model.names import INTERNAL_TOPICS, SCHEDULES, why_not_a_topic_name
from headrace.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

FIRST_VERSION_BY_ID = 12
FIRST_VERSION_WITH_LISTENER_ERROR = 6
NO_LEADER = (ErrorCode.LEADER_NOT_AVAILABLE, NO_BROKER)


def handle(
    request: MetadataRequest,
    context: RequestContext,
    image: CurrentImage,
    auto_creation: AutoCreation,
    config: LiveConfig,
    broker_id: int,
) -> MetadataResponse:
    # Version 0 has no null array: an empty one asks for all topics.
    everything = request.topics is None or (context.api_version == 0 and not request.topics)
    view = _View(image(), context)
    if everything:
        shown = context.listed(Operation.DESCRIBE, ResourceType.TOPIC, view.image.topics)
        topics = tuple(view.describe(view.image.topics[name]) for name in shown)
    else:
        may_create = request.allow_auto_topic_creation and config.now["auto.create.topics.enable"]
        topics = _answer_all(view, request, context, auto_creation, may_create=may_create)
    return MetadataResponse(
        brokers=tuple(
            MetadataResponseBroker(node_id=member.broker_id, host=endpoint.host, port=endpoint.port, rack=member.rack)
            for member in view.image.brokers.values()
            if (endpoint := endpoint_of(member, context.connection.listener)) is not None
        ),
        cluster_id=view.image.cluster_id,
        controller_id=controller_of(view.image, broker_id),
        topics=_with_operations(topics, context) if request.include_topic_authorized_operations else topics,
        cluster_authorized_operations=operations_on_cluster(context, asked=request.include_cluster_authorized_operations),
    )


def _with_operations(topics: tuple[MetadataResponseTopic, ...], context: RequestContext) -> tuple[MetadataResponseTopic, ...]:
    """Also of topics that do not exist: whoever may create one learns it so.  Not of those that they may not even see."""
    return tuple(
        topic
        if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        else replace(topic, topic_authorized_operations=context.authorized_operations(ResourceType.TOPIC, topic.name or ""))
        for topic in topics
    )


def controller_of(image: ClusterImage, broker_id: int) -> int:
    """The controller, for clients that send administration there; any broker, this one too, can carry it out."""
    return image.controller_id if image.controller_id != NO_BROKER else broker_id


def _answer_all(
    view: "_View", request: MetadataRequest, context: RequestContext, auto_creation: AutoCreation, *, may_create: bool
) -> tuple[MetadataResponseTopic, ...]:
    asked = request.topics or ()
    if context.api_version < FIRST_VERSION_BY_ID and any(topic.name is None or topic.topic_id != NO_TOPIC_ID for topic in asked):
        # These versions carry ids in replies only, and no null name: as Kafka does, nothing of such a request is answered.
        return tuple(_refusal(topic.name or "", ErrorCode.INVALID_REQUEST, topic) for topic in asked)
    return tuple(_answer(view, topic, context, auto_creation, may_create=may_create) for topic in asked)


def _answer(
    view: "_View", wanted: MetadataRequestTopic, context: RequestContext, auto_creation: AutoCreation, *, may_create: bool
) -> MetadataResponseTopic:
    # The Java client puts an empty name, not a null one, beside an id.
    if wanted.name is None or wanted.topic_id != NO_TOPIC_ID:
        topic = view.image.topics_by_id.get(wanted.topic_id)
        if topic is None:
            return _refusal(None, ErrorCode.UNKNOWN_TOPIC_ID, wanted)
        if not context.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
            return _refusal(None, ErrorCode.TOPIC_AUTHORIZATION_FAILED, wanted)
        return view.describe(topic)
    if not context.may(Operation.DESCRIBE, ResourceType.TOPIC, wanted.name):
        return _refusal(wanted.name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, wanted)
    topic = view.image.topics.get(wanted.name)
    if topic is not None and not auto_creation.is_under_way(wanted.name):
        return view.describe(topic)
    if why_not_a_topic_name(wanted.name) is not None:
        return _refusal(wanted.name, ErrorCode.INVALID_TOPIC_EXCEPTION, wanted)
    if wanted.name == SCHEDULES:
        # The brokers' own, as coordinators' topics are: made for the first who asks.
        auto_creation.begin(wanted.name, context)
    elif may_create:
        if not (
            context.may(Operation.CREATE, ResourceType.CLUSTER) or context.may(Operation.CREATE, ResourceType.TOPIC, wanted.name)
        ):
            return _refusal(wanted.name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, wanted)
        auto_creation.begin(wanted.name, context)
    return _refusal(wanted.name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, wanted)


def _refusal(name: str | None, code: ErrorCode, wanted: MetadataRequestTopic) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=code,
        name=name,
        topic_id=wanted.topic_id if name is None else NO_TOPIC_ID,
        is_internal=name in INTERNAL_TOPICS,
        partitions=(),
    )


class _View:
    """The cluster as one client sees it, by the listener it came in by."""

    def __init__(self, image: ClusterImage, context: RequestContext) -> None:
        self.image = image
        self._listener = context.connection.listener
        # Kafka's word for a leader that lives and has no such listener; older clients do not know it.
        knows_listeners = context.api_version >= FIRST_VERSION_WITH_LISTENER_ERROR
        self._unreachable = ErrorCode.LISTENER_NOT_FOUND if knows_listeners else ErrorCode.LEADER_NOT_AVAILABLE
        # What is told of a partition by its leader, and which of its replicas are away: the same few for thousands of them.
        self._leaders = {broker_id: self._leader(member) for broker_id, member in image.brokers.items()}
        self._offline: dict[tuple[int, ...], tuple[int, ...]] = {}

    def describe(self, topic: Topic) -> MetadataResponseTopic:
        return MetadataResponseTopic(
            error_code=ErrorCode.NONE,
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=self._partitions(topic),
        )

    def _partitions(self, topic: Topic) -> tuple[MetadataResponsePartition, ...]:
        """One run without a call for each: there may be ten thousand, and whoever comes next waits until all are told."""
        leaders, offline_of = self._leaders, self._offline
        told = []
        for index, state in enumerate(topic.partitions):
            code, leader = leaders.get(state.leader, NO_LEADER)
            replicas = state.replicas
            offline = offline_of.get(replicas)
            if offline is None:
                offline = offline_of[replicas] = tuple(each for each in replicas if each not in self.image.brokers)
            told.append(
                MetadataResponsePartition(
                    error_code=code,
                    partition_index=index,
                    leader_id=leader,
                    leader_epoch=state.leader_epoch,
                    replica_nodes=replicas,
                    isr_nodes=state.isr,
                    offline_replicas=offline,
                )
            )
        return tuple(told)

    def _leader(self, member: BrokerRegistration) -> tuple[ErrorCode, int]:
        if endpoint_of(member, self._listener) is None:
            return self._unreachable, NO_BROKER
        return ErrorCode.NONE, member.broker_id

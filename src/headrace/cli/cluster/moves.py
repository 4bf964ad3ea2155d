"""What `headrace cluster` knows of a cluster, and how it has replicas moved: plans made here, carried out by the brokers.

Everything comes and goes over the wire, so it works on any cluster that speaks the protocol.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from headrace.cli.failure import Failure
from headrace.client.admin.wire_admin import WireAdmin, raise_for
from headrace.client.errors import BrokerError, BrokerTimeout
from headrace.controller.balance import Plan
from headrace.controller.entries import BrokerRegistration, PartitionState, UncleanElections
from headrace.controller.image import ClusterImage, Topic
from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from headrace.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.wire.messages.describe_cluster import DescribeClusterRequest
from headrace.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from headrace.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest

POLL_S = 0.5
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
SET, DELETE = 0, 1
DEGRADED = "headrace.degraded"
UNCLEAN_ELECTIONS = "headrace.unclean.elections"
LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
LEADER_REPLICAS, FOLLOWER_REPLICAS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """One broker as the cluster sees it."""

    broker_id: int
    address: str
    rack: str | None
    state: str  # HEALTHY, DEGRADED or DOWN
    reason: str
    leads: int
    replicas: int
    is_controller: bool


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """How far a plan has got."""

    partitions_done: int
    partitions: int
    bytes_done: int
    bytes: int


def image_of(admin: WireAdmin) -> ClusterImage:
    """The cluster's brokers and partitions, in the form in which plans are made."""
    metadata = admin.metadata(None)
    image = ClusterImage(controller_id=metadata.controller_id)
    for broker in metadata.brokers:
        image.brokers[broker.node_id] = BrokerRegistration(broker_id=broker.node_id, rack=broker.rack)
    for found in metadata.topics:
        if found.name is None or found.error_code != ErrorCode.NONE:
            continue
        states = [
            PartitionState(replicas=p.replica_nodes, leader=p.leader_id, isr=p.isr_nodes)
            for p in sorted(found.partitions, key=lambda p: p.partition_index)
        ]
        image.topics[found.name] = Topic(found.name, found.topic_id, {}, states)
    return image


def broker_statuses(admin: WireAdmin) -> list[BrokerStatus]:
    """Every broker that is up or should be."""
    image, addresses = image_of(admin), _addresses(admin)
    leads, holds, lags = Counter[int](), Counter[int](), Counter[int]()
    for _, _, state in image.partitions():
        leads[state.leader] += 1
        holds.update(state.replicas)
        lags.update(broker for broker in state.replicas if broker not in state.isr)
    statuses = []
    for broker in sorted({*image.brokers, *holds, *addresses}):
        up = broker in image.brokers
        reason = _why_degraded(admin, broker, lags[broker]) if up else _why_missed(holds[broker])
        statuses.append(
            BrokerStatus(
                broker_id=broker,
                address=addresses.get(broker, "-"),
                rack=image.brokers[broker].rack if up else None,
                state="DOWN" if not up else "DEGRADED" if reason else "HEALTHY",
                reason=reason,
                leads=leads[broker],
                replicas=holds[broker],
                is_controller=broker == image.controller_id,
            )
        )
    return statuses


def _addresses(admin: WireAdmin) -> dict[int, str]:
    """Where each broker listens, or did when it was up."""
    try:
        reply = admin.call(DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=True))
        return {broker.broker_id: f"{broker.host}:{broker.port}" for broker in reply.brokers}
    except BrokerError:
        return {number: str(endpoint) for number, endpoint in admin.brokers().items()}


def _why_missed(replicas: int) -> str:
    return f"not running; {replicas} replica(s) are out of sync or out of reach" if replicas else "not running"


def _why_degraded(admin: WireAdmin, broker: int, lagging: int) -> str:
    reasons = [f"{lagging} replica(s) not in sync"] if lagging else []
    try:
        value = _value_of(admin, broker, DEGRADED)
    except (BrokerError, BrokerTimeout) as error:
        return f"does not answer: {error}"
    return "; ".join([*reasons, value] if value else reasons)


def _value_of(admin: WireAdmin, broker: int, name: str) -> str:
    """What a broker of ours tells under a name that is no setting; nothing where it does not know it."""
    resource = DescribeConfigsResource(resource_type=BROKER_RESOURCE, resource_name=str(broker), configuration_keys=(name,))
    answer = admin.call(DescribeConfigsRequest(resources=(resource,)), broker=broker)
    return next((config.value or "" for config in answer.results[0].configs if config.name == name), "")


def unclean_elections(admin: WireAdmin) -> UncleanElections:
    """How many there have been, as the store has it; any broker that answers can tell."""
    for broker in sorted(image_of(admin).brokers):
        try:
            value = _value_of(admin, broker, UNCLEAN_ELECTIONS)
        except (BrokerError, BrokerTimeout):
            continue
        if value:
            return UncleanElections.from_value(value.encode())
    return UncleanElections()


def under_replicated(image: ClusterImage) -> list[str]:
    return [f"{topic.name}-{index}" for topic, index, state in image.partitions() if len(state.isr) < len(state.replicas)]


def begin_moves(admin: WireAdmin, plan: Plan) -> None:
    """Have the brokers start; raises Failure with the first refusal."""
    by_topic: dict[str, list[ReassignablePartition]] = {}
    for (topic, index), replicas in plan.targets.items():
        by_topic.setdefault(topic, []).append(ReassignablePartition(partition_index=index, replicas=replicas))
    topics = tuple(ReassignableTopic(name=name, partitions=tuple(moves)) for name, moves in by_topic.items())
    reply = admin.call_controller(AlterPartitionReassignmentsRequest(topics=topics))
    for topic in reply.responses:
        for answer in topic.partitions:
            if answer.error_code != ErrorCode.NONE:
                why = answer.error_message or ErrorCode(answer.error_code).name
                raise Failure(f"{topic.name}-{answer.partition_index} cannot be moved: {why}")


def prefer_leaders(admin: WireAdmin, plan: Plan) -> None:
    """Let the first replica of each partition lead, where it can and does not: the brokers would, but only after a while."""
    by_topic: dict[str, list[int]] = {}
    for topic, index in plan.targets:
        by_topic.setdefault(topic, []).append(index)
    wanted = tuple(TopicPartitions(topic=topic, partitions=tuple(indexes)) for topic, indexes in by_topic.items())
    admin.call_controller(ElectLeadersRequest(topic_partitions=wanted))


def forget_broker(admin: WireAdmin, broker: int) -> None:
    reply = admin.call_controller(UnregisterBrokerRequest(broker_id=broker))
    raise_for(reply.error_code, f"broker {broker}", reply.error_message)


def moving(admin: WireAdmin) -> set[TopicPartition]:
    """Partitions whose replicas are still on their way."""
    reply = admin.call(ListPartitionReassignmentsRequest(topics=None))
    return {TopicPartition(topic.name, move.partition_index) for topic in reply.topics for move in topic.partitions}


def wait_for_moves(admin: WireAdmin, image: ClusterImage, plan: Plan, on_progress: Callable[[CopyProgress], None]) -> None:
    """Return when all are done; `on_progress` hears how far they are."""
    keys = set(plan.targets)
    copies = {key: set(replicas) - set(_replicas(image, key)) for key, replicas in plan.targets.items()}
    whole = _sizes(admin, {key: {_state(image, key).leader} for key in keys})
    size = {key: max((bytes for (at, _), bytes in whole.items() if at == key), default=0) for key in keys}
    total = sum(size[key] * len(brokers) for key, brokers in copies.items())
    while True:
        left = keys & moving(admin)
        found = _sizes(admin, {key: copies[key] for key in left})
        missing = sum(max(0, size[key] - found.get((key, broker), 0)) for key in left for broker in copies[key])
        on_progress(CopyProgress(len(keys) - len(left), len(keys), total - missing, total))
        if not left:
            return
        time.sleep(POLL_S)


def _state(image: ClusterImage, key: TopicPartition) -> PartitionState:
    return image.topics[key.topic].partitions[key.partition]


def _replicas(image: ClusterImage, key: TopicPartition) -> tuple[int, ...]:
    return _state(image, key).replicas


def _sizes(admin: WireAdmin, wanted: Mapping[TopicPartition, Iterable[int]]) -> dict[tuple[TopicPartition, int], int]:
    """How many bytes brokers hold of partitions; what cannot be learnt is left out."""
    by_broker: dict[int, dict[str, list[int]]] = {}
    for (topic, index), brokers in wanted.items():
        for broker in brokers:
            by_broker.setdefault(broker, {}).setdefault(topic, []).append(index)
    sizes: dict[tuple[TopicPartition, int], int] = {}
    for broker, topics in by_broker.items():
        asked = tuple(DescribableLogDirTopic(topic=name, partitions=tuple(indexes)) for name, indexes in topics.items())
        try:
            answer = admin.call(DescribeLogDirsRequest(topics=asked), broker=broker)
        except (BrokerError, BrokerTimeout):
            continue
        for directory in answer.results:
            for topic in directory.topics:
                for found in topic.partitions:
                    sizes[TopicPartition(topic.name, found.partition_index), broker] = found.partition_size
    return sizes


def set_throttle(admin: WireAdmin, image: ClusterImage, plan: Plan, bytes_per_second: int) -> None:
    """Hold the copies that the plan makes to a rate, on every broker."""
    rates = {LEADER_RATE: str(bytes_per_second), FOLLOWER_RATE: str(bytes_per_second)}
    resources = [_resource(BROKER_RESOURCE, "", rates)]
    by_topic: dict[str, list[str]] = {}
    for (topic, index), replicas in plan.targets.items():
        new = set(replicas) - set(image.topics[topic].partitions[index].replicas)
        by_topic.setdefault(topic, []).extend(f"{index}:{broker}" for broker in sorted(new))
    for topic, named in by_topic.items():
        if named:
            resources.append(
                _resource(TOPIC_RESOURCE, topic, {LEADER_REPLICAS: ",".join(named), FOLLOWER_REPLICAS: ",".join(named)})
            )
    _alter(admin, resources)


def clear_throttle(admin: WireAdmin, plan: Plan) -> None:
    resources = [_resource(BROKER_RESOURCE, "", {LEADER_RATE: None, FOLLOWER_RATE: None})]
    for topic in sorted({topic for topic, _ in plan.targets}):
        resources.append(_resource(TOPIC_RESOURCE, topic, {LEADER_REPLICAS: None, FOLLOWER_REPLICAS: None}))
    _alter(admin, resources)


def _resource(kind: int, name: str, settings: dict[str, str] | dict[str, None]) -> AlterConfigsResource:
    configs = tuple(
        AlterableConfig(name=setting, config_operation=DELETE if value is None else SET, value=value)
        for setting, value in settings.items()
    )
    return AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)


def _alter(admin: WireAdmin, resources: list[AlterConfigsResource]) -> None:
    reply = admin.call_controller(IncrementalAlterConfigsRequest(resources=tuple(resources), validate_only=False))
    for answer in reply.responses:
        if answer.error_code != ErrorCode.NONE:
            raise Failure(f"the throttle cannot be set: {answer.error_message or ErrorCode(answer.error_code).name}")

"""Images for tests, built from the same keys and values a store would hold."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from headrace.controller.entries import (
    BrokerRegistration,
    ConditionalWrite,
    Delete,
    DeletePrefix,
    Event,
    KeyValue,
    Operation,
    PartitionState,
    Put,
    TopicEntry,
    admitted_key,
    broker_key,
    encode_number,
    partition_key,
    topic_key,
)
from headrace.controller.image import ClusterImage

TOPIC_ID = UUID(int=7)


def image_of(
    brokers: Iterable[int] | Mapping[int, str | None] = (1, 2, 3),
    partitions: Iterable[PartitionState] = (),
    configs: Mapping[str, str] | None = None,
) -> ClusterImage:
    """Live, admitted brokers (perhaps with racks), and one topic `t`."""
    racks = dict(brokers) if isinstance(brokers, Mapping) else dict.fromkeys(brokers)
    image = ClusterImage()
    for broker, rack in racks.items():
        put(image, broker_key(broker), BrokerRegistration(broker_id=broker, rack=rack).to_value())
        put(image, admitted_key(broker), encode_number(image.brokers[broker].epoch))
    states = list(partitions)
    for index, state in enumerate(states):
        put(image, partition_key(TOPIC_ID, index), state.to_value())
    if states:
        put(image, topic_key("t"), TopicEntry(topic_id=TOPIC_ID, partition_count=len(states), configs=configs or {}).to_value())
    return image


def put(image: ClusterImage, key: str, value: bytes) -> None:
    revision = image.revision + 1
    created = image.create_revision(key) or revision
    image.apply(Event(key, KeyValue(key, value, created, revision), revision))


def carry_out(image: ClusterImage, writes: Iterable[ConditionalWrite]) -> None:
    """What a store would do, when every condition holds."""
    for write in writes:
        assert all(image.holds(condition) for condition in write.conditions), write.conditions
        for operation in write.operations:
            _apply(image, operation)


def _apply(image: ClusterImage, operation: Operation) -> None:
    match operation:
        case Put(key, value, _):
            put(image, key, value)
        case Delete(key):
            image.apply(Event(key, None, image.revision + 1))
        case DeletePrefix(prefix):
            for key in [key for key in image._stored if key.startswith(prefix)]:
                image.apply(Event(key, None, image.revision + 1))

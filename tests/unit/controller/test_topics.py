"""Topics as transactions: whoever dies between two of them leaves nothing that anybody sees."""

from typing import Any
from uuid import UUID

import pytest

from headrace.controller.changes import PartitionChanged, TopicConfigsChanged, TopicCreated, TopicDeleted, TopicGrew
from headrace.controller.entries import (
    ConditionalWrite,
    Event,
    KeyValue,
    PartitionState,
    TopicEntry,
    encode_number,
    partition_key,
)
from headrace.controller.image import ClusterImage
from headrace.controller.topics import (
    TopicSpec,
    alter_broker_configs,
    alter_topic_configs,
    clean_up,
    creation,
    delete_topic,
    growth,
)
from headrace.model.errors import ErrorCode, RequestError
from tests.unit.controller.images import TOPIC_ID, carry_out, image_of


def spec(partitions: int = 1, factor: int = 1, name: str = "t", **more: object) -> TopicSpec:
    return TopicSpec(name=name, topic_id=TOPIC_ID, partition_count=partitions, replication_factor=factor, **more)  # type: ignore[arg-type]


def create_topic(*arguments: Any, **named: Any) -> list[ConditionalWrite]:
    return creation(*arguments, **named)()


def create_partitions(*arguments: Any, **named: Any) -> list[ConditionalWrite]:
    return growth(*arguments, **named)()


def code_of(call: object, *arguments: object, **named: object) -> ErrorCode:
    with pytest.raises(RequestError) as refusal:
        call(*arguments, **named)  # type: ignore[operator]
    return refusal.value.code


def test_a_small_topic_is_one_transaction() -> None:
    image = image_of()
    transactions = create_topic(image, spec(partitions=6, factor=3))
    carry_out(image, transactions)

    assert len(transactions) == 1
    assert image.topics["t"].partition_count == 6
    for state in image.topics["t"].partitions:
        assert state.leader == state.replicas[0]
        assert set(state.isr) == set(state.replicas) == {1, 2, 3}


@pytest.mark.parametrize("count", [99, 100, 101, 250])
def test_no_transaction_holds_more_than_a_hundred_operations(count: int) -> None:
    image = image_of()
    transactions = create_topic(image, spec(partitions=count))
    carry_out(image, transactions)

    assert all(len(transaction.operations) <= 100 for transaction in transactions)
    assert image.topics["t"].partition_count == count
    assert image.creations == set()


@pytest.mark.parametrize("done", [1, 2, 3])
def test_a_creator_that_dies_half_way_leaves_no_topic_and_what_it_left_can_be_cleaned(done: int) -> None:
    image = image_of()
    carry_out(image, create_topic(image, spec(partitions=250))[:done])

    assert image.topics == {}
    assert image.garbage() == []  # it may still be at work
    carry_out(image, [clean_up(image, TOPIC_ID)])
    assert not any(key.startswith(("partitions/", "creations/")) for key in image._stored)


def test_a_creator_taken_for_dead_cannot_finish() -> None:
    image = image_of()
    transactions = create_topic(image, spec(partitions=250))
    carry_out(image, transactions[:2])
    carry_out(image, [clean_up(image, TOPIC_ID)])

    assert not all(image.holds(condition) for condition in transactions[2].conditions)
    assert not all(image.holds(condition) for condition in transactions[-1].conditions)


def test_a_name_is_taken_only_once() -> None:
    image = image_of()
    both = [create_topic(image, spec()), create_topic(image, spec())]
    carry_out(image, both[0])

    assert not all(image.holds(condition) for condition in both[1][0].conditions)
    assert code_of(create_topic, image, spec()) is ErrorCode.TOPIC_ALREADY_EXISTS


def test_manual_assignments_are_kept_as_given() -> None:
    image = image_of()
    carry_out(image, create_topic(image, spec(assignments={0: (2, 1), 1: (3, 2)})))

    assert [state.replicas for state in image.topics["t"].partitions] == [(2, 1), (3, 2)]


@pytest.mark.parametrize(
    "assignments", [{}, {0: ()}, {0: (1, 1)}, {0: (9,)}, {1: (1,)}, {0: (1,), 2: (1,)}, {0: (1,), 1: (1, 2)}]
)
def test_impossible_assignments_are_refused(assignments: dict[int, tuple[int, ...]]) -> None:
    assert code_of(create_topic, image_of(), spec(assignments=assignments)) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize("count", [0, -1, 1_000_000])
def test_an_impossible_number_of_partitions_is_refused(count: int) -> None:
    assert code_of(create_topic, image_of(), spec(partitions=count)) is ErrorCode.INVALID_PARTITIONS


def test_a_topic_goes_with_its_partitions_and_frees_its_name() -> None:
    image = image_of(partitions=[PartitionState(replicas=(1,), leader=1, isr=(1,))] * 3)
    carry_out(image, [delete_topic(image, image.topics["t"])])
    carry_out(image, create_topic(image, TopicSpec(name="t", topic_id=UUID(int=8))))

    assert image.topics["t"].topic_id == UUID(int=8)
    assert TOPIC_ID not in image.topics_by_id
    assert image.garbage() == []


def test_partitions_whose_topic_went_without_them_are_garbage() -> None:
    image = image_of(partitions=[PartitionState(replicas=(1,))] * 2)
    image.apply(Event("topics/t", None, image.revision + 1))

    assert image.garbage() == [TOPIC_ID]
    carry_out(image, [clean_up(image, TOPIC_ID)])
    assert image.garbage() == []


def test_growing_keeps_old_partitions_and_places_new_ones() -> None:
    old = PartitionState(replicas=(2, 1), leader=2, isr=(2, 1), leader_epoch=4)
    image = image_of(partitions=[old])
    carry_out(image, create_partitions(image, "t", 205))

    assert image.topics["t"].partitions[0] == old
    assert image.topics["t"].partition_count == 205
    assert all(len(state.replicas) == 2 for state in image.topics["t"].partitions)


def test_of_two_who_grow_a_topic_at_once_the_second_overwrites_nothing() -> None:
    image = image_of(partitions=[PartitionState(replicas=(1,))])
    first, second = create_partitions(image, "t", 3), create_partitions(image, "t", 150)
    carry_out(image, first)

    assert not any(all(image.holds(condition) for condition in transaction.conditions) for transaction in second)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_topic_cannot_shrink(count: int) -> None:
    image = image_of(partitions=[PartitionState(replicas=(1,))] * 2)

    assert code_of(create_partitions, image, "t", count) is ErrorCode.INVALID_PARTITIONS


def test_growing_with_too_few_assignments_is_refused() -> None:
    image = image_of(partitions=[PartitionState(replicas=(1,))])

    assert code_of(create_partitions, image, "t", 3, [(1,)]) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert code_of(create_partitions, image, "nobody", 3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_settings_of_topics_and_brokers_are_replaced_whole() -> None:
    image = image_of(partitions=[PartitionState(replicas=(1,))], configs={"a": "1"})
    carry_out(image, [alter_topic_configs(image, "t", {"b": "2"})])
    carry_out(image, [alter_broker_configs(image, None, {"x": "0", "y": "0"}), alter_broker_configs(image, 1, {"y": "1"})])

    assert image.topics["t"].configs == {"b": "2"}
    assert image.configs_of_broker(1) == {"x": "0", "y": "1"}
    assert image.configs_of_broker(2) == {"x": "0", "y": "0"}


def test_listeners_hear_what_changed() -> None:
    image = image_of(partitions=[PartitionState(replicas=(1,))])
    after = PartitionState(replicas=(1,), leader=1, isr=(1,))
    revision = image.revision

    def write(value: bytes, key: str) -> list[object]:
        nonlocal revision
        revision += 1
        return list(image.apply(Event(key, KeyValue(key, value, 1, revision), revision)))

    (changed,) = write(after.to_value(), partition_key(TOPIC_ID, 0))
    assert isinstance(changed, PartitionChanged)
    assert changed.after == after
    (put,) = alter_topic_configs(image, "t", {"a": "1"}).operations
    (configured,) = write(put.value, put.key)  # type: ignore[union-attr]
    assert isinstance(configured, TopicConfigsChanged)
    assert configured.after == {"a": "1"}


def test_an_image_led_by_events_towards_a_listing_equals_one_built_from_it() -> None:
    old, new = image_of(partitions=[PartitionState(replicas=(1,))] * 2), image_of(brokers=(1, 2))
    carry_out(new, create_topic(new, TopicSpec(name="other", topic_id=UUID(int=9), partition_count=3)))
    items = [KeyValue(key, _value(new, key), created, changed + 1000) for key, (created, changed) in sorted(new._stored.items())]
    changes = [change for event in old.events_towards(items, 5000) for change in old.apply(event)]

    assert set(old.topics) == {"other"}
    assert set(old.brokers) == {1, 2}
    assert [type(change) for change in changes if isinstance(change, TopicCreated | TopicDeleted)] == [TopicDeleted, TopicCreated]
    assert not any(isinstance(change, TopicGrew) for change in changes)


def _value(image: ClusterImage, key: str) -> bytes:
    kind, _, rest = key.partition("/")
    match kind:
        case "brokers":
            return image.brokers[int(rest)].to_value()
        case "admitted":
            return encode_number(image.admitted[int(rest)])
        case "topics":
            topic = image.topics[rest]
            return TopicEntry(topic_id=topic.topic_id, partition_count=topic.partition_count, configs=topic.configs).to_value()
        case "partitions":
            topic_id, _, index = rest.partition("/")
            return image.topics_by_id[UUID(topic_id)].partitions[int(index)].to_value()
    raise AssertionError(key)

"""In-sync changes, fencing, reassignment, balance and quotas."""

from collections import Counter
from dataclasses import replace

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.controller import balance, fencing, quotas, reassignment
from headrace.controller.election import ElectionRules
from headrace.controller.entries import BrokerRegistration, Event, PartitionState, broker_key, member_key, partition_key
from headrace.controller.image import ClusterImage
from headrace.controller.insync import InSyncChange, change_in_sync
from headrace.controller.placement import place
from headrace.model.access.principals import user
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import TopicPartition
from tests.unit.controller.images import TOPIC_ID, carry_out, image_of, put

RULES = ElectionRules(min_insync_replicas=2)
STATE = PartitionState(replicas=(1, 2, 3), leader=1, leader_epoch=4, isr=(1, 2), partition_epoch=6)


def wish(image: ClusterImage, *isr: int, **more: object) -> InSyncChange:
    epochs = {broker: image.brokers[broker].epoch if broker in image.brokers else -1 for broker in isr}
    change = InSyncChange(
        topic_id=TOPIC_ID, index=0, leader=1, broker_epoch=image.brokers[1].epoch, leader_epoch=4, partition_epoch=6, isr=epochs
    )
    return replace(change, **more)  # type: ignore[arg-type]


def refusal(image: ClusterImage, change: InSyncChange) -> ErrorCode:
    with pytest.raises(RequestError) as refused:
        change_in_sync(image, change, RULES)
    return refused.value.code


def test_a_leader_lets_a_follower_in_and_puts_one_out() -> None:
    image = image_of(partitions=[STATE])
    grown, transaction = change_in_sync(image, wish(image, 1, 2, 3), RULES)
    carry_out(image, [transaction])
    shrunk, _ = change_in_sync(image, wish(image, 1, partition_epoch=7), RULES)

    assert grown.isr == (1, 2, 3)
    assert image.topics["t"].partitions[0] == grown
    assert (shrunk.isr, set(shrunk.elr)) == ((1,), {2, 3})


def test_a_leader_is_told_why_it_may_not_change_the_set() -> None:
    image = image_of(partitions=[STATE])
    lives = {broker: image.brokers[broker].epoch for broker in image.brokers}

    assert refusal(image, wish(image, 1, 2, broker_epoch=99)) is ErrorCode.STALE_BROKER_EPOCH
    assert refusal(image, wish(image, 1, 2, leader_epoch=3)) is ErrorCode.FENCED_LEADER_EPOCH
    assert refusal(image, wish(image, 1, 2, leader_epoch=5)) is ErrorCode.NOT_CONTROLLER
    assert refusal(image, wish(image, 1, 2, partition_epoch=5)) is ErrorCode.INVALID_UPDATE_VERSION
    assert refusal(image, wish(image, 1, 2, leader=2, broker_epoch=lives[2])) is ErrorCode.INVALID_REQUEST
    assert refusal(image, wish(image, 2, 3)) is ErrorCode.INVALID_REQUEST
    assert refusal(image, wish(image, 1, 2, 9)) is ErrorCode.INVALID_REQUEST
    assert refusal(image, wish(image, 1, 2, isr={1: -1, 2: -1, 3: lives[3] - 1})) is ErrorCode.INELIGIBLE_REPLICA


def test_a_follower_that_died_meanwhile_is_not_let_in() -> None:
    image = image_of(partitions=[STATE])
    _, transaction = change_in_sync(image, wish(image, 1, 2, 3), RULES)
    image.apply(Event(broker_key(3), None, image.revision + 1))
    put(image, broker_key(3), BrokerRegistration(broker_id=3).to_value())

    assert not all(image.holds(condition) for condition in transaction.conditions)


def test_a_broker_in_a_new_life_is_unsettled_until_admitted() -> None:
    image = image_of()
    assert list(fencing.unsettled(image)) == []
    image.apply(Event(broker_key(2), None, image.revision + 1))
    assert list(fencing.unsettled(image)) == [fencing.Departed(2)]
    put(image, broker_key(2), BrokerRegistration(broker_id=2).to_value())

    assert list(fencing.unsettled(image)) == [fencing.Arrived(image.brokers[2])]
    carry_out(image, [fencing.claim_controller(image, image.brokers[1], lease=5)])
    carry_out(image, [fencing.admit(image, image.brokers[2])])
    assert list(fencing.unsettled(image)) == []
    assert image.is_admitted(2)


def test_a_controller_is_fenced_by_the_next() -> None:
    image = image_of()
    carry_out(image, [fencing.claim_controller(image, image.brokers[1], lease=5)])
    mine = fencing.written_by_controller(image)
    image.apply(Event("controller", None, image.revision + 1))
    carry_out(image, [fencing.claim_controller(image, image.brokers[2], lease=6)])

    assert not image.holds(mine)
    assert (image.controller_id, image.controller_epoch) == (2, 2)


def test_only_a_broker_that_is_gone_and_holds_nothing_is_forgotten() -> None:
    image = image_of(brokers=(1, 2), partitions=[PartitionState(replicas=(1, 3))])
    put(image, member_key(3), BrokerRegistration(broker_id=3).to_value())
    put(image, member_key(4), BrokerRegistration(broker_id=4).to_value())
    carry_out(image, [fencing.unregister(image, 4)])

    assert 4 not in image.members
    for broker, code in ((1, ErrorCode.INVALID_REQUEST), (3, ErrorCode.INVALID_REQUEST), (9, ErrorCode.BROKER_ID_NOT_REGISTERED)):
        with pytest.raises(RequestError) as refused:
            fencing.unregister(image, broker)
        assert refused.value.code is code


@settings(max_examples=300)
@given(data=st.data())
def test_a_reassignment_never_drops_below_what_it_had_and_ends_at_its_target(data: st.DataObject) -> None:
    brokers = range(1, 8)
    image = image_of(brokers=brokers)
    origin = tuple(data.draw(st.permutations(brokers))[:3])
    target = tuple(data.draw(st.permutations(brokers))[: data.draw(st.integers(1, 4))])
    state = PartitionState(replicas=origin, leader=origin[0], isr=origin)
    moving = reassignment.begin(image, 0, state, target, RULES)

    if reassignment.is_moving(moving):
        assert set(moving.replicas) == {*origin, *target}
        assert reassignment.target_of(moving) == target
        assert set(reassignment.origin_of(moving)) == set(origin)
        back = reassignment.cancel(moving, set(brokers).__contains__, RULES).state
        assert set(back.replicas) == set(origin)
        done = reassignment.completed(moving.changed(isr=moving.replicas), RULES)
        assert done is not None
        moving = done
    assert moving.replicas == target
    assert not reassignment.is_moving(moving)
    assert moving.leader in moving.isr


def placed_image(brokers: dict[int, str | None], partitions: int, factor: int, on: list[int] | None = None) -> ClusterImage:
    racks = {broker: brokers[broker] for broker in on or brokers}
    placed = place("t", range(partitions), factor, racks, {}, {})
    return image_of(brokers, [PartitionState(replicas=replicas, leader=replicas[0], isr=replicas) for replicas in placed])


def load_after(image: ClusterImage, plan: balance.Plan) -> Counter[int]:
    return Counter(
        broker
        for topic, index, state in image.partitions()
        for broker in plan.targets.get(TopicPartition(topic.name, index), state.replicas)
    )


@settings(max_examples=60)
@given(partitions=st.integers(3, 60), factor=st.integers(1, 3), new=st.integers(1, 3))
def test_rebalancing_onto_new_brokers_is_even_and_moves_no_more_than_their_share(partitions: int, factor: int, new: int) -> None:
    brokers: dict[int, str | None] = dict.fromkeys(range(1, 4 + new))
    image = placed_image(brokers, partitions, factor, on=[1, 2, 3])
    plan = balance.rebalance(image)
    load = load_after(image, plan)

    assert max(load[broker] for broker in brokers) - min(load[broker] for broker in brokers) <= 1
    assert plan.replicas_moved <= -(-partitions * factor // len(brokers)) * new + len(brokers)
    for replicas in plan.targets.values():
        assert len(set(replicas)) == factor


def test_rebalancing_what_is_even_moves_nothing() -> None:
    assert balance.rebalance(placed_image(dict.fromkeys(range(1, 4)), 12, 3)).replicas_moved == 0


@settings(max_examples=60)
@given(partitions=st.integers(1, 40), leaving=st.sampled_from([1, 2, 3, 4, 5, 6]))
def test_draining_takes_everything_off_and_keeps_racks_apart(partitions: int, leaving: int) -> None:
    racks: dict[int, str | None] = {broker: f"r{broker % 3}" for broker in range(1, 7)}
    image = placed_image(racks, partitions, 3)
    plan = balance.drain(image, frozenset({leaving}))

    assert load_after(image, plan)[leaving] == 0
    for topic, index, state in image.partitions():
        replicas = plan.targets.get(TopicPartition(topic.name, index), state.replicas)
        assert len({racks[broker] for broker in replicas}) == 3
        assert len(set(replicas) - set(state.replicas)) == (leaving in state.replicas)


@given(partitions=st.integers(1, 12), before=st.integers(1, 5), after=st.integers(1, 5))
def test_a_new_replication_factor_keeps_what_it_can_and_spreads_the_rest(partitions: int, before: int, after: int) -> None:
    image = placed_image({1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}, partitions, before)
    plan = balance.with_factor(image, "t", after)

    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}
    for index, state in enumerate(image.topics["t"].partitions):
        replicas = plan.targets.get(TopicPartition("t", index), state.replicas)
        assert len(set(replicas)) == len(replicas) == after
        assert set(replicas) <= set(state.replicas) or set(replicas) >= set(state.replicas)
        assert state.leader in replicas
        assert after < before or len({racks[b] for b in replicas}) == min(after, 3)
    assert plan.replicas_moved == partitions * max(0, after - before)


def test_more_replicas_than_brokers_are_refused() -> None:
    with pytest.raises(RequestError, match="4 replicas need 4 brokers, and 3 are running"):
        balance.with_factor(placed_image(dict.fromkeys(range(1, 4)), 2, 3), "t", 4)


def test_a_broker_that_nobody_knows_is_told_apart_from_one_that_is_empty() -> None:
    image = placed_image(dict.fromkeys(range(1, 4)), 2, 3)
    balance.require_known(image, 3)

    with pytest.raises(RequestError, match="There is no broker 9"):
        balance.require_known(image, 9)


def test_draining_is_refused_when_too_few_would_be_left() -> None:
    with pytest.raises(RequestError) as refused:
        balance.drain(placed_image(dict.fromkeys(range(1, 4)), 2, 3), frozenset({1}))

    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_replacement_gets_what_its_predecessor_had() -> None:
    image = placed_image(dict.fromkeys(range(1, 5)), 9, 3, on=[1, 2, 3])
    plan = balance.replace_broker(image, 2, 4)

    assert load_after(image, plan) == Counter({1: 9, 3: 9, 4: 9})


def test_the_most_specific_quota_counts() -> None:
    image = image_of()
    rate = quotas.PRODUCER_BYTE_RATE
    entities: list[quotas.Entity] = [{"client-id": None}, {"user": None}, {"user": "ann"}, {"user": "ann", "client-id": "app"}]
    for limit, entity in enumerate(entities, 1):
        carry_out(image, [quotas.alter(image, entity, {rate: float(limit)})])

    assert quotas.shared_limit_for(image.quotas, rate, "ann", "app") == (4, ("client-id=app", "user=ann"))
    assert quotas.shared_limit_for(image.quotas, rate, "ann", "x") == (3, ("user=ann",))
    assert quotas.shared_limit_for(image.quotas, rate, "bob", "app") == (2, ("user=bob",))
    carry_out(image, [quotas.alter(image, {"user": None}, {rate: None})])
    assert quotas.shared_limit_for(image.quotas, rate, "bob", "app") == (1, ("client-id=app",))
    assert quotas.shared_limit_for(image.quotas, quotas.CONSUMER_BYTE_RATE, "bob", "app") is None


@pytest.mark.parametrize("name", ["example.org", "10.0.0", "0:0:0:0:0:0:0:1"])
def test_an_address_is_refused_that_no_connection_would_ever_show(name: str) -> None:
    with pytest.raises(RequestError) as refused:
        quotas.alter(image_of(), {"ip": name}, {quotas.CONNECTION_CREATION_RATE: 1.0})
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_an_address_of_its_own_counts_before_that_of_all() -> None:
    image = image_of()
    for limit, name in ((1.0, None), (2.0, "10.0.0.1")):
        carry_out(image, [quotas.alter(image, {"ip": name}, {quotas.CONNECTION_CREATION_RATE: limit})])

    assert quotas.limit_for_address(image.quotas, quotas.CONNECTION_CREATION_RATE, "10.0.0.1") == 2
    assert quotas.limit_for_address(image.quotas, quotas.CONNECTION_CREATION_RATE, "::1") == 1


@given(st.dictionaries(st.sampled_from(["user", "client-id", "topic"]), st.none() | st.text(), min_size=1))
def test_an_entity_comes_back_from_its_key(entity: dict[str, str | None]) -> None:
    assert quotas.parse_entity(quotas.entity_name(entity)) == entity


@pytest.mark.parametrize(
    ("entity", "changes"),
    [
        ({}, {}),
        ({"user": "a", "ip": "b"}, {}),
        ({"user": ""}, {}),
        ({"user": "a"}, {"storage_bytes": 1.0}),
        ({"user": "a"}, {"producer_byte_rate": 0.0}),
        ({"ip": "1.2.3.4"}, {"producer_byte_rate": 1.0}),
    ],
)
def test_quotas_that_make_no_sense_are_refused(entity: quotas.Entity, changes: dict[str, float | None]) -> None:
    with pytest.raises(RequestError) as refused:
        quotas.alter(image_of(), entity, changes)

    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_an_unknown_partition_is_not_changed() -> None:
    image = image_of(partitions=[STATE])

    assert refusal(image, wish(image, 1, index=5)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert image.mod_revision(partition_key(TOPIC_ID, 5)) == 0


def test_a_registration_is_read_back_also_one_from_before_brokers_had_names() -> None:
    told = BrokerRegistration(broker_id=2, epoch=5, inter_broker_listener="SASL_SSL", principal=user("broker"))
    assert BrokerRegistration.from_value(2, 5, told.to_value()) == told

    old = orjson.loads(told.to_value())
    del old["inter_broker_listener"], old["principal"]
    assert BrokerRegistration.from_value(2, 5, orjson.dumps(old)) == BrokerRegistration(broker_id=2, epoch=5)

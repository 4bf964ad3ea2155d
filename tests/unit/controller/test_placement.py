"""Placement: even, spread over racks, the same everywhere, and stable when brokers come and go."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.controller.placement import place, ring_of, walk
from headrace.model.errors import ErrorCode, RequestError

NAMES = st.text(min_size=1, max_size=20)


@settings(max_examples=150)
@given(name=NAMES, partitions=st.integers(1, 60), brokers=st.sets(st.integers(0, 1000), min_size=1, max_size=12), data=st.data())
def test_replicas_are_distinct_and_each_broker_gets_about_its_share(
    name: str, partitions: int, brokers: set[int], data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(brokers)))
    placed = place(name, range(partitions), factor, dict.fromkeys(brokers), {}, {})
    load = Counter(broker for replicas in placed for broker in replicas)

    assert all(len(set(replicas)) == factor and set(replicas) <= brokers for replicas in placed)
    assert max(load.values()) - min(load[broker] for broker in brokers) <= 1


@settings(max_examples=150)
@given(name=NAMES, partitions=st.integers(1, 40), sizes=st.lists(st.integers(1, 4), min_size=2, max_size=5), data=st.data())
def test_a_partition_spans_as_many_racks_as_it_can(name: str, partitions: int, sizes: list[int], data: st.DataObject) -> None:
    racks = {rack * 10 + place: f"r{rack}" for rack, size in enumerate(sizes) for place in range(size)}
    factor = data.draw(st.integers(1, len(racks)))
    placed = place(name, range(partitions), factor, racks, {}, {})

    for replicas in placed:
        assert len({racks[broker] for broker in replicas}) == min(factor, len(sizes))


@settings(max_examples=100)
@given(name=NAMES, count=st.integers(2, 10), per_broker=st.integers(1, 8))
def test_leaders_are_spread_like_replicas(name: str, count: int, per_broker: int) -> None:
    placed = place(name, range(count * per_broker), min(3, count), dict.fromkeys(range(count)), {}, {})
    leaders = Counter(replicas[0] for replicas in placed)

    assert max(leaders.values()) - min(leaders[broker] for broker in range(count)) <= 2


def test_many_small_topics_fill_the_brokers_evenly() -> None:
    load: Counter[int] = Counter()
    leaders: Counter[int] = Counter()
    for number in range(300):
        (replicas,) = place(f"topic-{number}", range(1), 2, dict.fromkeys(range(6)), load, leaders)
        load.update(replicas)
        leaders[replicas[0]] += 1

    assert max(load.values()) <= 1.25 * load.total() / 6 + 1
    assert max(leaders.values()) <= 1.25 * leaders.total() / 6 + 1


@given(name=NAMES)
def test_a_new_broker_takes_places_only_for_itself(name: str) -> None:
    before = list(walk((1, 2, 3, 4), name))
    after = list(walk((1, 2, 3, 4, 5), name))

    assert [broker for broker in after if broker != 5] == before


def test_one_broker_in_five_more_moves_about_a_fifth_of_first_choices() -> None:
    names = [f"topic {number}" for number in range(2_000)]
    moved = sum(next(walk((1, 2, 3, 4), name)) != next(walk((1, 2, 3, 4, 5), name)) for name in names)

    assert 0.1 < moved / len(names) < 0.3


def test_a_single_broker_holds_everything() -> None:
    assert place("t", range(3), 1, {7: None}, {}, {}) == [(7,), (7,), (7,)]


@pytest.mark.parametrize("factor", [0, -1, 4])
def test_a_factor_that_cannot_be_had_is_refused(factor: int) -> None:
    with pytest.raises(RequestError) as refusal:
        place("t", range(1), factor, dict.fromkeys([1, 2, 3]), {}, {})

    assert refusal.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_placement_is_the_same_in_every_process() -> None:
    # The ring is made of fixed hashes: these numbers must never change, or brokers of two versions would disagree.
    assert list(walk((1, 2, 3, 4, 5), "orders 0")) == list(walk(tuple(reversed((5, 4, 3, 2, 1))), "orders 0"))
    assert ring_of((1, 2))[0][0] == min(ring_of((1,))[0][0], ring_of((2,))[0][0])

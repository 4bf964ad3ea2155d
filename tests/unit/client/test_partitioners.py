"""Partitioners: the same answers as Kafka's own clients, and an even hand where there is no key."""

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as referee

from headrace import InvalidArgument, KeyHash, RoundRobin, Salted, Sticky
from headrace.records.key_partition import murmur2, partition_of_key


def signed(number: int) -> int:
    return number - (1 << 32) if number >= 1 << 31 else number


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_gives_the_numbers_of_the_java_client(key: bytes, expected: int) -> None:
    assert signed(murmur2(key)) == expected


@given(st.binary(max_size=100))
def test_murmur2_agrees_with_another_client_for_any_bytes(key: bytes) -> None:
    assert murmur2(key) == referee(key) & 0xFFFFFFFF


@given(st.binary(max_size=50), st.integers(1, 1000))
def test_a_key_has_one_partition_and_it_exists(key: bytes, partition_count: int) -> None:
    first = KeyHash()("t", key, None, partition_count)

    assert first == KeyHash()("t", key, b"other value", partition_count) == partition_of_key(key, partition_count)
    assert 0 <= first < partition_count


def test_round_robin_takes_turns_in_each_topic_by_itself() -> None:
    choose = RoundRobin()

    assert [choose("a", b"same key", None, 3) for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]
    assert choose("b", None, None, 3) == 0


def test_sticky_stays_for_a_run_and_then_goes_elsewhere() -> None:
    choose = Sticky(run=4)

    chosen = [choose("t", b"k", None, 5) for _ in range(40)]

    runs = [chosen[start : start + 4] for start in range(0, 40, 4)]
    assert all(len(set(run)) == 1 for run in runs)
    assert all(before[0] != after[0] for before, after in itertools.pairwise(runs))


def test_salted_spreads_a_key_over_exactly_its_neighbours() -> None:
    choose = Salted(3)

    seen = Counter(choose("t", b"celebrity", None, 12) for _ in range(3000))

    assert sorted(seen) == sorted(choose.partitions_of("celebrity", 12))
    assert len(seen) == 3
    assert min(seen.values()) > 700


def test_salted_only_touches_the_keys_it_is_told() -> None:
    choose = Salted(4, only=["hot"])

    assert {choose("t", b"cold", None, 12) for _ in range(100)} == {partition_of_key(b"cold", 12)}
    assert len({choose("t", b"hot", None, 12) for _ in range(200)}) == 4
    assert choose.partitions_of("cold", 12) == [partition_of_key(b"cold", 12)]


def test_salted_over_more_ways_than_partitions_stays_in_range() -> None:
    choose = Salted(10)

    assert {choose("t", b"k", None, 3) for _ in range(200)} == {0, 1, 2}


@pytest.mark.parametrize("partitioner", [KeyHash(), RoundRobin(), Sticky(), Salted(2)])
def test_records_without_a_key_go_to_partitions_that_exist(partitioner: KeyHash) -> None:
    assert {partitioner("t", None, b"v", 3) for _ in range(1000)} == {0, 1, 2}


def test_a_salt_of_nothing_is_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match=r"ways=0 is not accepted; accepted: a whole number of at least 1"):
        Salted(0)


@pytest.mark.parametrize("text", ["KeyHash()", "RoundRobin()", "Sticky(100)", "Salted(2)", "Salted(2, only=[b'a', b'b'])"])
def test_a_partitioner_reads_as_it_was_made(text: str) -> None:
    made = eval(text, {"KeyHash": KeyHash, "RoundRobin": RoundRobin, "Sticky": Sticky, "Salted": Salted})

    assert repr(made) == text

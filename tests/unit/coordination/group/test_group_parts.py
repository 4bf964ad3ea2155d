"""The parts a group coordinator is made of: assignors, patterns, embedded bytes, deadlines, lists."""

import re
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.coordination.group.consumer.assignors import ASSIGNORS, MemberSpec, assign_range, assign_uniform
from headrace.coordination.group.conversion.subscription_bytes import (
    Assignment,
    MalformedProtocol,
    Subscription,
    read_assignment,
    read_subscription,
    read_topics,
    write_assignment,
)
from headrace.coordination.group.pattern import InvalidPattern, Pattern
from headrace.coordination.group.settings import GroupSettings
from headrace.coordination.group.timers import Timer, TimerKey, Timers
from tests.support.subscriptions import write_subscription
from tests.unit.coordination.group.group_driver import Driver, catalog, subscription, topic_id

T, U, V = (topic_id(name) for name in "tuv")


# --- assignors --------------------------------------------------------------------------------------------------------------


def counts(assignment: dict[str, dict[UUID, frozenset[int]]]) -> dict[str, int]:
    return {member: sum(map(len, topics.values())) for member, topics in assignment.items()}


def test_range_gives_runs_and_the_first_members_the_longer_ones() -> None:
    members = {name: MemberSpec(topics=frozenset({T, U})) for name in "cab"}

    assignment = assign_range(members, {T: 4, U: 3})

    assert assignment["a"] == {T: frozenset({0, 1}), U: frozenset({0})}
    assert assignment["b"] == {T: frozenset({2}), U: frozenset({1})}
    assert assignment["c"] == {T: frozenset({3}), U: frozenset({2})}


def test_range_takes_static_members_first_and_by_their_lasting_name() -> None:
    members = {
        "a": MemberSpec(topics=frozenset({T})),
        "z": MemberSpec(topics=frozenset({T}), instance_id="2"),
        "y": MemberSpec(topics=frozenset({T}), instance_id="3"),
    }

    assignment = assign_range(members, {T: 3})

    assert [min(assignment[name][T]) for name in "zya"] == [0, 1, 2]


def test_uniform_moves_only_what_it_must_when_a_member_comes() -> None:
    members = {
        "a": MemberSpec(topics=frozenset({T}), current={T: frozenset(range(5))}),
        "b": MemberSpec(topics=frozenset({T}), current={T: frozenset(range(5, 10))}),
        "c": MemberSpec(topics=frozenset({T})),
    }

    assignment = assign_uniform(members, {T: 10})

    assert sorted(counts(assignment).values()) == [3, 3, 4]
    assert assignment["a"][T] <= members["a"].current[T]
    assert assignment["b"][T] <= members["b"].current[T]


@st.composite
def groups(draw: st.DrawFn) -> tuple[dict[str, MemberSpec], dict[UUID, int]]:
    partition_counts = {topic: draw(st.integers(1, 9)) for topic in (T, U, V)}
    names = draw(st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=7, unique=True))
    same = draw(st.booleans())
    common = draw(st.sets(st.sampled_from([T, U, V]), min_size=1))
    members = {}
    for name in names:
        topics = common if same else draw(st.sets(st.sampled_from([T, U, V])))
        # What a member had before may be stale: partitions that are gone, topics it gave up, what another has too.
        current = draw(st.dictionaries(st.sampled_from([T, U, V]), st.frozensets(st.integers(0, 10), max_size=6)))
        members[name] = MemberSpec(topics=frozenset(topics), current=current)
    return members, partition_counts


@pytest.mark.slow
@given(groups(), st.sampled_from(sorted(ASSIGNORS)))
def test_every_partition_of_a_subscribed_topic_goes_to_exactly_one_subscriber(
    group: tuple[dict[str, MemberSpec], dict[UUID, int]], assignor: str
) -> None:
    members, partition_counts = group

    assignment = ASSIGNORS[assignor](members, partition_counts)

    given_out = [(topic, partition) for topics in assignment.values() for topic in topics for partition in topics[topic]]
    wanted = set().union(*(member.topics for member in members.values()))
    assert sorted(given_out) == sorted((topic, index) for topic in wanted for index in range(partition_counts[topic]))
    assert set(assignment) == set(members)
    for name, topics in assignment.items():
        assert set(topics) <= members[name].topics


@pytest.mark.slow
@given(groups())
def test_uniform_is_fair_among_members_that_read_the_same_and_stays_when_nothing_changes(
    group: tuple[dict[str, MemberSpec], dict[UUID, int]],
) -> None:
    members, partition_counts = group
    assignment = assign_uniform(members, partition_counts)
    again = {name: MemberSpec(topics=member.topics, current=assignment[name]) for name, member in members.items()}

    if len({member.topics for member in members.values()}) == 1:
        sizes = counts(assignment).values()
        assert max(sizes) - min(sizes) <= 1
    assert assign_uniform(again, partition_counts) == assignment


# --- patterns ---------------------------------------------------------------------------------------------------------------

PIECES = st.recursive(
    st.sampled_from(["a", "b", "-", ".", "[ab]", "[^a]", "\\d", "\\w", "[[:alpha:]]", "\\.", "^", "$", "\\b"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})"),
        inner.map(lambda piece: f"(?:{piece})*"),
        inner.map(lambda piece: f"({piece})+"),
        inner.map(lambda piece: f"(?:{piece})?"),
        inner.map(lambda piece: f"(?i:{piece})"),
        inner.map(lambda piece: f"(?:{piece}){{1,2}}"),
    ),
    max_leaves=6,
)


@given(PIECES, st.text("abAB1-._", max_size=6))
def test_a_pattern_matches_what_other_engines_match(pattern: str, name: str) -> None:
    other = re.fullmatch(pattern.replace("[[:alpha:]]", "[a-zA-Z]"), name, re.ASCII)

    assert Pattern(pattern).matches(name) == bool(other)


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("orders.*", "orders-eu", "my-orders"),
        ("(?i)ORDERS", "orders", "order"),
        (r"\Qa.b\E+", "a.bb"[:3], "axb"),
        ("a{2,3}", "aaa", "aaaa"),
        ("a{,3}", "a{,3}", "aa"),
        (r"\p{Lu}+", "ABC", "abc"),
        (r"\P{Lu}+", "abc", "ABC"),
        (r"[\d.]+", "1.2", "a"),
        (r"[^[:upper:]]+", "abc", "ABC"),
        (r"\x41\x{42}", "AB", "ab"),
        ("(?P<name>x)y", "xy", "x"),
        ("(?s).", "\n", ""),
        ("(?m)^a$", "a", "b"),
        ("[]a]+", "]a", "b"),
        ("[a-]+", "-a", "b"),
        (r"\101|\0", "\0", "A"),
        ("", "", "a"),
        ("a||b", "", "c"),
    ],
)
def test_patterns_have_the_syntax_of_re2(pattern: str, matching: str, other: str) -> None:
    if pattern.startswith(r"\101"):
        with pytest.raises(InvalidPattern):
            Pattern(pattern)
        return
    compiled = Pattern(pattern)

    assert compiled.matches(matching)
    assert not compiled.matches(other)


@pytest.mark.parametrize(
    "pattern",
    ["(", ")", "a)", "[a", "[z-a]", "*a", "a**", "(?=a)", "(?!a)", "(?<=a)", r"(a)\1", "a{1001}", "(?z)a", "(?P<1>a)", "\\",
     r"\y", r"[\b]", r"\p{Klingon}", r"\xZZ", "(" * 200 + ")" * 200, "((a{1000}){1000}){10}"],
)  # fmt: skip
def test_what_re2_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        Pattern(pattern)


def test_no_pattern_takes_exponential_time() -> None:
    assert not Pattern("(a*)*" * 10 + "(a|a)*b").matches("a" * 249)


# --- embedded bytes ---------------------------------------------------------------------------------------------------------


@given(
    st.integers(0, 3),
    st.lists(st.text(min_size=1, max_size=5), max_size=3),
    st.none() | st.binary(max_size=5),
    st.dictionaries(st.text(min_size=1, max_size=5), st.tuples(st.integers(0, 9)), max_size=2),
)
def test_a_subscription_is_read_as_it_was_written(
    version: int, topics: list[str], user_data: bytes | None, owned: dict[str, tuple[int]]
) -> None:
    written = Subscription(
        version=version,
        topics=tuple(topics),
        user_data=user_data,
        owned=owned if version >= 1 else {},
        rack_id="r" if version >= 3 else None,
    )

    data = write_subscription(written)

    assert read_subscription(data) == written
    assert read_topics(data) == frozenset(topics)
    for cut in range(len(data)):
        with pytest.raises(MalformedProtocol):
            read_subscription(data[:cut])


def test_an_assignment_is_read_as_it_was_written_and_a_newer_version_as_the_newest_known() -> None:
    assert read_assignment(write_assignment({"t": (1, 2)}, 1)) == Assignment(partitions={"t": (1, 2)})
    newer = b"\x00\x09" + subscription("t", version=3)[2:] + b"more"
    assert read_subscription(newer).topics == ("t",)


def test_bytes_that_lie_about_their_length_are_malformed() -> None:
    for data in (b"", b"\xff\xff\x00\x00\x00\x00", b"\x00\x00\x7f\xff\xff\xff", b"\x00\x00\x00\x00\x00\x01\xff\xff"):
        with pytest.raises(MalformedProtocol):
            read_topics(data)


# --- deadlines --------------------------------------------------------------------------------------------------------------


def test_a_deadline_that_is_moved_or_cancelled_does_not_fire() -> None:
    timers = Timers()
    a, b, c = (TimerKey(Timer.SESSION, "g", name) for name in "abc")
    timers.set(a, 1.0)
    timers.set(b, 2.0)
    timers.set(c, 3.0, "detail")
    timers.set(a, 4.0)
    timers.cancel(b)
    timers.set_if_absent(c, 1.0)

    assert timers.next_deadline() == 3.0
    assert timers.pop_due(2.9) is None
    assert timers.pop_due(9.0) == (c, "detail")
    assert timers.pop_due(9.0) == (a, None)
    assert timers.next_deadline() is None


def test_moved_deadlines_do_not_pile_up() -> None:
    timers = Timers()
    for number in range(10_000):
        timers.set(TimerKey(Timer.SESSION, "g", "m"), float(number))

    assert len(timers._heap) < 100
    assert timers.next_deadline() == 9_999.0


# --- lists ------------------------------------------------------------------------------------------------------------------


def test_groups_are_listed_by_state_and_kind_whatever_the_case() -> None:
    driver = Driver(GroupSettings(initial_rebalance_delay_ms=0), catalog(t=1))
    driver.stable_group(1)
    from headrace.coordination.group.requests import ConsumerHeartbeat
    from tests.unit.coordination.group.group_driver import GROUP

    joining = ConsumerHeartbeat(
        group_id="modern", member_id="a", member_epoch=0, rebalance_timeout_ms=1, owned={}, topic_names=frozenset({"t"})
    )
    driver.ask("consumer_heartbeat", joining)
    driver.ask("consumer_heartbeat", ConsumerHeartbeat(group_id="modern", member_id="a", member_epoch=-1))

    def names(**filters: list[str]) -> list[str]:
        return [group.group_id for group in driver.shard.list_groups(**filters)]

    assert names() == [GROUP, "modern"]
    assert names(states=["stable"]) == [GROUP]
    assert names(states=["EMPTY", "Dead"]) == ["modern"]
    assert names(kinds=["CONSUMER"]) == ["modern"]
    assert names(kinds=["share"]) == []
    assert names(kinds=["classic"], states=["empty"]) == []


def test_a_group_in_motion_is_described_without_its_protocol_but_with_what_its_members_had() -> None:
    driver = Driver(GroupSettings(initial_rebalance_delay_ms=0), catalog(t=1))
    (reply,) = driver.stable_group(1)

    described = driver.shard.describe_classic("readers")
    assert (described.state, described.protocol, described.protocol_type) == ("Stable", "range", "consumer")
    assert described.members[0].assignment == f"for {reply.member_id}".encode()
    driver.join(reply.member_id, topics=("u",))

    described = driver.shard.describe_classic("readers")
    assert (described.protocol, described.members[0].metadata) == ("", b"")
    assert described.members[0].assignment == f"for {reply.member_id}".encode()


def test_a_group_that_is_not_there_is_described_as_dead_and_newer_clients_are_told_why() -> None:
    driver = Driver(topics=catalog(t=1))

    assert driver.shard.describe_classic("x", tells_error=False).state == "Dead"
    assert driver.shard.describe_classic("x", tells_error=False).error.value == 0
    assert driver.shard.describe_classic("x").error_message == "Group x not found."
    driver.consumer_join("a")
    assert driver.shard.describe_classic("readers").error_message == "Group readers is not a classic group."
    assert driver.shard.describe_consumer("x").error_message == "Consumer group x not found."

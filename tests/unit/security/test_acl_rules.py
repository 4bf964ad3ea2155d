"""Rules and filters over them, as Kafka's AclBinding and AclBindingFilter."""

import pytest

from headrace.model.access.acls import (
    AclFilter,
    AclRule,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    check_filter,
    check_host,
    check_rule,
    read_address,
)
from headrace.model.access.principals import Principal, user
from headrace.model.errors import ErrorCode, RequestError

LITERAL, PREFIXED, ANY, MATCH = PatternType.LITERAL, PatternType.PREFIXED, PatternType.ANY, PatternType.MATCH


def rule(name: str = "orders", pattern: PatternType = LITERAL, **parts: object) -> AclRule:
    whole: dict[str, object] = {
        "principal": user("ann"),
        "operation": Operation.READ,
        "resource_type": ResourceType.TOPIC,
        "resource_name": name,
        "pattern_type": pattern,
    }
    return AclRule(**(whole | parts))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "pattern", "matching"),
    [
        # What Kafka's ResourcePatternFilter answers, over the rules below.
        (None, ANY, {"foo", "foo…", "fo…", "*", "bar"}),
        (None, MATCH, {"foo", "foo…", "fo…", "*", "bar"}),
        (None, LITERAL, {"foo", "*", "bar"}),
        (None, PREFIXED, {"foo…", "fo…"}),
        ("foo", ANY, {"foo", "foo…"}),
        ("foo", LITERAL, {"foo"}),
        ("foo", PREFIXED, {"foo…"}),
        ("foo", MATCH, {"foo", "foo…", "fo…", "*"}),
        ("foobar", MATCH, {"foo…", "fo…", "*"}),
        ("*", LITERAL, {"*"}),
        ("*", MATCH, {"*"}),
        ("*", ANY, {"*"}),
        ("f", MATCH, {"*"}),
        ("", MATCH, {"*"}),
    ],
)
def test_a_filter_finds_rules_by_name_and_pattern(name: str | None, pattern: PatternType, matching: set[str]) -> None:
    rules = {
        "foo": rule("foo"),
        "foo…": rule("foo", PREFIXED),
        "fo…": rule("fo", PREFIXED),
        "*": rule("*"),
        "bar": rule("bar"),
    }
    wanted = AclFilter(resource_name=name, pattern_type=pattern)

    assert {label for label, each in rules.items() if wanted.matches(each)} == matching


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AclFilter(), True),
        (AclFilter(resource_type=ResourceType.TOPIC), True),
        (AclFilter(resource_type=ResourceType.GROUP), False),
        (AclFilter(principal="User:ann"), True),
        (AclFilter(principal="User:bob"), False),
        (AclFilter(principal="User:*"), False),
        (AclFilter(host="10.0.0.0/8"), True),
        (AclFilter(host="10.0.0.1"), False),
        (AclFilter(host="*"), False),
        (AclFilter(operation=Operation.READ), True),
        (AclFilter(operation=Operation.ALL), False),
        (AclFilter(operation=Operation.DESCRIBE), False),
        (AclFilter(permission=Permission.ALLOW), True),
        (AclFilter(permission=Permission.DENY), False),
    ],
)
def test_a_filter_compares_every_part_as_it_is_written(wanted: AclFilter, found: bool) -> None:
    assert wanted.matches(rule(host="10.0.0.0/8")) == found


@pytest.mark.parametrize(
    "wrong",
    [
        {"resource_type": ResourceType.ANY},
        {"resource_type": ResourceType.UNKNOWN},
        {"pattern_type": MATCH},
        {"pattern_type": ANY},
        {"operation": Operation.ANY},
        {"operation": Operation.UNKNOWN},
        {"permission": Permission.ANY},
        {"permission": Permission.UNKNOWN},
        {"resource_name": ""},
        {"resource_type": ResourceType.CLUSTER, "resource_name": "mine"},
        {"principal": Principal("Group", "*")},
        {"host": "ann.example"},
        {"host": "10.0.0.1/8"},
        {"host": "10.0.0.0/33"},
        {"host": "2001:DB8::1"},
        {"host": ""},
    ],
)
def test_what_cannot_be_a_rule_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(RequestError) as refused:
        check_rule(rule(**wrong))  # type: ignore[arg-type]

    assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("host", ["*", "10.0.0.1", "10.0.0.0/8", "2001:db8::1", "2001:db8::/32"])
def test_a_host_is_everybody_an_address_or_a_network(host: str) -> None:
    check_host(host)
    check_rule(rule(host=host))


def test_a_rule_about_the_cluster_names_it_as_kafka_does() -> None:
    check_rule(rule("kafka-cluster", resource_type=ResourceType.CLUSTER, operation=Operation.ALTER))


@pytest.mark.parametrize("part", ["resource_type", "pattern_type", "operation", "permission"])
def test_a_filter_with_an_unknown_part_is_refused(part: str) -> None:
    kinds = {"resource_type": ResourceType, "pattern_type": PatternType, "operation": Operation, "permission": Permission}

    with pytest.raises(RequestError):
        check_filter(AclFilter(**{part: kinds[part](0)}))  # type: ignore[arg-type]

    check_filter(AclFilter())


def test_an_allowance_implies_what_it_cannot_be_used_without_and_a_denial_does_not() -> None:
    assert rule(operation=Operation.READ).operations == {Operation.READ, Operation.DESCRIBE}
    assert rule(operation=Operation.ALTER_CONFIGS).operations == {Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS}
    assert rule(operation=Operation.CREATE).operations == {Operation.CREATE}
    assert rule(operation=Operation.READ, permission=Permission.DENY).operations == {Operation.READ}
    assert Operation.ALL not in rule(operation=Operation.ALL).operations
    assert Operation.CLUSTER_ACTION in rule(operation=Operation.ALL).operations


def test_a_rule_reads_as_a_sentence() -> None:
    assert str(rule()) == "allow User:ann to READ TOPIC 'orders'"
    assert str(rule("*")) == "allow User:ann to READ TOPIC *"
    assert str(rule("or", PREFIXED, host="10.0.0.0/8", permission=Permission.DENY)) == (
        "deny User:ann to READ TOPIC 'or'… from 10.0.0.0/8"
    )


@pytest.mark.parametrize(
    ("address", "read"),
    [("10.0.0.1", "10.0.0.1"), ("::ffff:10.0.0.1", "10.0.0.1"), ("fe80::1%eth0", "fe80::1"), ("", None), ("unix", None)],
)
def test_an_address_is_read_as_what_it_stands_for(address: str, read: str | None) -> None:
    found = read_address(address)

    assert (str(found) if found else None) == read

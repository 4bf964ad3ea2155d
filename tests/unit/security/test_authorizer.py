"""Decisions from rules: a table of stories, and random ones against the rule read out word by word."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.access.acls import SUPPORTED, AclRule, Operation, PatternType, Permission, ResourceType, read_address
from headrace.model.access.principals import ANONYMOUS, EVERYBODY, Subject, group, user
from headrace.model.names import WRITTEN_BY_BROKERS
from headrace.security.authorization import authorizer as module
from headrace.security.authorization.authorizer import Authorizer, Reason
from headrace.security.authorization.index import AclIndex

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL
ANN = Subject(user("ann"), [group("ops")], "10.1.2.3")
BOB = Subject(user("bob"), [], "192.168.0.1")


def allow(who: str, operation: Operation, name: str, host: str = "*", kind: ResourceType = TOPIC) -> AclRule:
    """`orders…` is a prefix."""
    maker, _, label = who.rpartition(":")
    prefixed = name.endswith("…")
    return AclRule(
        principal=group(label) if maker == "Group" else user(label),
        host=host,
        operation=operation,
        resource_type=kind,
        resource_name=name.removesuffix("…"),
        pattern_type=PatternType.PREFIXED if prefixed else PatternType.LITERAL,
    )


def deny(who: str, operation: Operation, name: str, host: str = "*", kind: ResourceType = TOPIC) -> AclRule:
    return replace(allow(who, operation, name, host, kind), permission=Permission.DENY)


def authorizer(*rules: AclRule, **options: object) -> Authorizer:
    return Authorizer(AclIndex(rules), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rules", "operation", "name", "allowed"),
    [
        ([], READ, "orders", False),
        ([allow("ann", READ, "orders")], READ, "orders", True),
        ([allow("ann", READ, "orders")], WRITE, "orders", False),
        ([allow("ann", READ, "orders")], READ, "orders2", False),
        ([allow("ann", READ, "orders")], READ, "Orders", False),
        ([allow("bob", READ, "orders")], READ, "orders", False),
        ([allow("*", READ, "orders")], READ, "orders", True),
        ([allow("Group:ops", READ, "orders")], READ, "orders", True),
        ([allow("Group:dev", READ, "orders")], READ, "orders", False),
        ([allow("ops", READ, "orders")], READ, "orders", False),  # a user who is called like a group
        ([allow("Group:ann", READ, "orders")], READ, "orders", False),
        ([allow("ann", READ, "ord…")], READ, "orders", True),
        ([allow("ann", READ, "orders…")], READ, "orders", True),
        ([allow("ann", READ, "orders.…")], READ, "orders", False),
        ([allow("ann", READ, "*")], READ, "orders", True),
        ([allow("ann", READ, "*…")], READ, "orders", False),  # a prefix that is a star is a star
        ([allow("ann", READ, "*…")], READ, "*x", True),
        ([allow("ann", ALL, "orders")], Operation.ALTER_CONFIGS, "orders", True),
        ([allow("ann", READ, "orders")], DESCRIBE, "orders", True),
        ([allow("ann", WRITE, "orders")], DESCRIBE, "orders", True),
        ([allow("ann", Operation.DELETE, "orders")], DESCRIBE, "orders", True),
        ([allow("ann", Operation.ALTER, "orders")], DESCRIBE, "orders", True),
        ([allow("ann", Operation.CREATE, "orders")], DESCRIBE, "orders", False),
        ([allow("ann", Operation.DESCRIBE_CONFIGS, "orders")], DESCRIBE, "orders", False),
        ([allow("ann", Operation.ALTER_CONFIGS, "orders")], Operation.DESCRIBE_CONFIGS, "orders", True),
        ([allow("ann", DESCRIBE, "orders")], READ, "orders", False),
        ([allow("ann", READ, "orders"), deny("ann", READ, "orders")], READ, "orders", False),
        ([allow("ann", READ, "orders"), deny("*", READ, "ord…")], READ, "orders", False),
        ([allow("ann", READ, "orders"), deny("Group:ops", ALL, "*")], READ, "orders", False),
        ([allow("ann", READ, "orders"), deny("bob", READ, "orders")], READ, "orders", True),
        ([allow("ann", READ, "orders"), deny("ann", READ, "orders")], DESCRIBE, "orders", True),
        ([allow("ann", READ, "orders", "10.1.2.3")], READ, "orders", True),
        ([allow("ann", READ, "orders", "10.1.2.4")], READ, "orders", False),
        ([allow("ann", READ, "orders", "10.0.0.0/8")], READ, "orders", True),
        ([allow("ann", READ, "orders", "2001:db8::/32")], READ, "orders", False),
        ([allow("ann", READ, "orders"), deny("ann", READ, "orders", "10.1.0.0/16")], READ, "orders", False),
        ([allow("ann", READ, "orders", kind=GROUP)], READ, "orders", False),
    ],
)
def test_rules_decide(rules: list[AclRule], operation: Operation, name: str, allowed: bool) -> None:
    for order in (rules, rules[::-1]):
        assert authorizer(*order).allows(ANN, operation, TOPIC, name) == allowed


def test_an_explanation_names_the_rule_that_decided() -> None:
    denial = deny("Group:ops", WRITE, "ord…")
    rules = authorizer(allow("ann", ALL, "*"), denial, allow("ann", WRITE, "orders"))

    decision = rules.decide(ANN, WRITE, TOPIC, "orders")

    assert decision.rule == denial
    assert str(decision) == "no, by rule: deny Group:ops to WRITE TOPIC 'ord'…"
    assert rules.decide(ANN, WRITE, TOPIC, "bills").rule == allow("ann", ALL, "*")
    assert str(rules.decide(BOB, WRITE, TOPIC, "bills")) == "no: no rule allows it"


def test_the_most_exact_rule_is_named() -> None:
    exact = allow("ann", READ, "orders")

    decision = authorizer(allow("ann", READ, "*"), allow("ann", READ, "o…"), exact).decide(ANN, READ, TOPIC, "orders")

    assert decision.rule == exact


def test_a_super_user_may_do_what_is_denied() -> None:
    rules = authorizer(deny("*", ALL, "*"), super_users=[user("ann")])

    assert rules.decide(ANN, WRITE, TOPIC, "orders").reason is Reason.SUPER_USER
    assert rules.allows_some(ANN, WRITE, TOPIC)
    assert not rules.allows(BOB, WRITE, TOPIC, "orders")


def test_a_group_can_be_super_users() -> None:
    assert authorizer(super_users=[group("ops")]).allows(ANN, WRITE, TOPIC, "orders")
    assert not authorizer(super_users=[user("ops")]).allows(ANN, WRITE, TOPIC, "orders")


def test_everyone_is_allowed_only_where_no_rule_is_about_the_resource() -> None:
    rules = authorizer(allow("bob", READ, "orders"), allow("bob", READ, "bill…"), allow_everyone_if_no_acl_found=True)

    assert rules.decide(ANN, READ, TOPIC, "notes").reason is Reason.NO_RULES
    assert not rules.allows(ANN, READ, TOPIC, "orders")
    assert not rules.allows(ANN, READ, TOPIC, "bills")
    assert rules.allows(ANN, READ, GROUP, "orders")


def test_who_is_not_signed_in_is_a_user_like_any_other() -> None:
    rules = authorizer(allow("ANONYMOUS", READ, "orders"))

    assert rules.allows(Subject(ANONYMOUS), READ, TOPIC, "orders")
    assert not rules.allows(ANN, READ, TOPIC, "orders")


def test_without_an_address_only_rules_for_all_hosts_apply() -> None:
    rules = authorizer(allow("ann", READ, "orders", "0.0.0.0/0"), allow("ann", READ, "bills"))

    assert not rules.allows(Subject(user("ann")), READ, TOPIC, "orders")
    assert rules.allows(Subject(user("ann")), READ, TOPIC, "bills")


@pytest.mark.parametrize(
    ("rules", "allowed"),
    [
        ([], False),
        ([allow("ann", WRITE, "orders")], True),
        ([allow("ann", ALL, "orders")], True),
        ([allow("ann", READ, "orders")], False),
        ([allow("ann", WRITE, "ord…")], True),
        ([allow("ann", WRITE, "*")], True),
        ([allow("Group:ops", WRITE, "orders")], True),
        ([allow("ann", WRITE, "orders", kind=GROUP)], False),
        ([allow("ann", WRITE, "orders", "192.168.0.0/16")], False),
        ([allow("ann", WRITE, "*"), deny("ann", WRITE, "*")], False),
        ([allow("ann", WRITE, "*"), deny("ann", WRITE, "orders")], True),
        ([allow("ann", WRITE, "orders"), deny("ann", WRITE, "orders")], False),
        ([allow("ann", WRITE, "orders"), deny("ann", WRITE, "ord…")], False),
        ([allow("ann", WRITE, "ord…"), deny("ann", WRITE, "orders")], True),
        ([allow("ann", WRITE, "ord…"), deny("ann", WRITE, "ord…")], False),
        ([allow("ann", WRITE, "ord…"), deny("ann", WRITE, "o…")], False),
        ([allow("ann", WRITE, "o…"), deny("ann", WRITE, "ord…")], True),
        ([allow("ann", WRITE, "ord…"), deny("ann", WRITE, "ord")], True),
        ([allow("ann", WRITE, "orders"), deny("bob", WRITE, "*")], True),
    ],
)
def test_an_idempotent_producer_needs_to_write_some_topic(rules: list[AclRule], allowed: bool) -> None:
    assert authorizer(*rules).allows_some(ANN, WRITE, TOPIC) == allowed


def test_some_topic_is_there_for_everyone_unless_a_rule_is_about_all() -> None:
    assert authorizer(allow_everyone_if_no_acl_found=True).allows_some(ANN, WRITE, TOPIC)
    assert not authorizer(allow("bob", WRITE, "*"), allow_everyone_if_no_acl_found=True).allows_some(ANN, WRITE, TOPIC)


def test_authorized_operations_are_bits() -> None:
    rules = authorizer(allow("ann", READ, "orders"), allow("ann", ALL, "kafka-cluster", kind=CLUSTER))

    assert rules.authorized_operations(ANN, TOPIC, "orders") == 1 << READ | 1 << DESCRIBE
    assert rules.authorized_operations(ANN, CLUSTER, "kafka-cluster") == sum(1 << each for each in SUPPORTED[CLUSTER])
    assert rules.authorized_operations(BOB, TOPIC, "orders") == 0


def test_a_change_of_rules_makes_another_authorizer_and_leaves_the_old_one() -> None:
    rule = allow("ann", READ, "orders")
    before = authorizer()
    assert not before.allows(ANN, READ, TOPIC, "orders")

    after = before.changed(added=[rule])

    assert after.allows(ANN, READ, TOPIC, "orders")
    assert not before.allows(ANN, READ, TOPIC, "orders")
    assert not after.changed(removed=[rule]).allows(ANN, READ, TOPIC, "orders")


def test_what_is_remembered_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED_MAX", 10)
    rules = authorizer(allow("ann", ALL, "*"))

    for number in range(100):
        assert rules.allows(ANN, READ, TOPIC, f"t{number}")
        assert rules.allows(ANN, READ, TOPIC, "x" * 1000 + str(number))
        assert rules.allows_some(Subject(user(f"u{number}")), READ, TOPIC) is False
        assert len(rules._remembered) <= 10
        assert len(rules._remembered_by_type) <= 10


NAMES = st.sampled_from(["a", "ab", "abc", "b", "*", "ba"])
OPERATIONS = st.sampled_from([READ, WRITE, DESCRIBE, ALL, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS])
RULES = st.builds(
    AclRule,
    permission=st.sampled_from([Permission.ALLOW, Permission.DENY]),
    principal=st.sampled_from([user("ann"), user("bob"), group("ops"), EVERYBODY]),
    host=st.sampled_from(["*", "10.1.2.3", "10.0.0.0/8", "192.168.0.1"]),
    operation=OPERATIONS,
    resource_type=st.sampled_from([TOPIC, GROUP]),
    resource_name=NAMES,
    pattern_type=st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
)


def by_the_book(rules: list[AclRule], subject: Subject, operation: Operation, kind: ResourceType, name: str, open_: bool) -> bool:
    """Kafka's rule, rule by rule."""

    def is_about(rule: AclRule) -> bool:
        if rule.resource_type is not kind:
            return False
        if rule.pattern_type is PatternType.PREFIXED:
            return name.startswith(rule.resource_name)
        return rule.resource_name in (name, "*")

    def applies(rule: AclRule) -> bool:
        address, network = read_address(subject.address), rule.host.partition("/")[0][:3]
        at_host = rule.host == "*" or rule.host == subject.address or ("/" in rule.host and str(address).startswith(network))
        for_them = rule.principal in (subject.principal, *subject.groups, EVERYBODY)
        return at_host and for_them and operation in rule.operations

    about = [rule for rule in rules if is_about(rule)]
    deciding = [rule.permission for rule in about if applies(rule)]
    if Permission.DENY in deciding:
        return False
    return Permission.ALLOW in deciding or (open_ and not about)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(st.lists(RULES, max_size=12), st.sampled_from([ANN, BOB]), OPERATIONS.filter(lambda each: each is not ALL), st.booleans())
def test_the_index_decides_as_the_rules_read_one_by_one(
    rules: list[AclRule], subject: Subject, operation: Operation, open_: bool
) -> None:
    decides = authorizer(*rules, allow_everyone_if_no_acl_found=open_)

    for kind in (TOPIC, GROUP):
        for name in ("a", "ab", "abc", "abcd", "b", "c"):
            expected = by_the_book(rules, subject, operation, kind, name, open_)
            assert decides.allows(subject, operation, kind, name) == expected
            assert decides.allows(subject, operation, kind, name) == expected  # as remembered


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(RULES, max_size=10), st.lists(RULES, max_size=10), st.data())
def test_an_index_that_was_changed_is_the_index_of_the_rules_it_has(
    rules: list[AclRule], more: list[AclRule], data: st.DataObject
) -> None:
    removed = data.draw(st.lists(st.sampled_from(rules), max_size=5)) if rules else []

    changed = AclIndex(rules).changed(added=more, removed=[*removed, *more[:2]])
    afresh = AclIndex([rule for rule in rules if rule not in removed and rule not in more[:2]] + more)

    assert set(changed) == set(afresh)
    assert len(changed) == len(set(afresh)) == len(list(changed))
    assert changed._by_principal == afresh._by_principal
    assert {kind: lengths for kind, lengths in changed._prefix_lengths.items() if lengths} == afresh._prefix_lengths


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(RULES, max_size=8), st.sampled_from([ANN, BOB]))
def test_who_may_write_a_topic_may_write_some_topic(rules: list[AclRule], subject: Subject) -> None:
    decides = authorizer(*rules)
    names = ("a", "ab", "abc", "b", "ba", "bax", "abx", "ax", "bx", "zz", "*x")

    assert decides.allows_some(subject, WRITE, TOPIC) == any(decides.allows(subject, WRITE, TOPIC, name) for name in names)


@pytest.mark.parametrize(
    ("rules", "allowed"),
    [
        ([allow("ann", READ, "*")], False),
        ([allow("ann", ALL, "*")], False),
        ([allow("*", READ, "*")], False),
        ([allow("ann", READ, "__audit")], True),
        ([allow("Group:ops", READ, "__audit")], True),
        ([allow("ann", READ, "__audit…")], True),
        ([allow("ann", READ, "__audi…")], False),
        ([allow("ann", READ, "__…")], False),
        ([allow("ann", READ, "__…"), allow("Group:ops", READ, "__audit")], True),
        ([allow("ann", READ, "__audit"), deny("*", READ, "*")], False),
    ],
)
def test_the_audit_trail_needs_a_right_that_names_it(rules: list[AclRule], allowed: bool) -> None:
    assert authorizer(*rules).allows(ANN, READ, TOPIC, "__audit") is allowed


@pytest.mark.parametrize("topic", ["__audit", "__headrace_delayed", "__headrace_gateway"])
def test_what_holds_others_affairs_needs_a_right_that_names_it_to_be_read_and_none_to_be_seen(topic: str) -> None:
    everything, named = authorizer(allow("ann", ALL, "*"), allow("ann", ALL, "__…")), authorizer(allow("ann", READ, topic))

    assert everything.decide(ANN, READ, TOPIC, topic).reason is Reason.NOT_NAMED
    assert named.allows(ANN, READ, TOPIC, topic)
    assert everything.allows(ANN, DESCRIBE, TOPIC, topic), "who moves all replicas off a broker has to see them all"
    assert authorizer(allow("ann", ALL, "*")).allows(ANN, READ, TOPIC, "__headrace_schedules")


@pytest.mark.parametrize("topic", sorted(WRITTEN_BY_BROKERS))
def test_nobody_writes_what_brokers_write_a_super_user_neither(topic: str) -> None:
    rules = authorizer(allow("bob", WRITE, topic), super_users=[user("ann")])

    for somebody in (ANN, BOB):
        assert rules.decide(somebody, WRITE, TOPIC, topic).reason is Reason.WRITTEN_BY_BROKERS
        assert rules.depending_on_address(somebody, WRITE, TOPIC, topic) == []
    assert rules.allows(ANN, READ, TOPIC, topic)
    assert rules.allows(ANN, WRITE, TOPIC, "__headrace_schedules")
    assert rules.allows(ANN, WRITE, GROUP, topic)


def test_the_audit_trail_is_not_open_to_everybody_where_no_rule_is_about_it() -> None:
    lenient = authorizer(allow_everyone_if_no_acl_found=True)

    assert lenient.allows(ANN, READ, TOPIC, "orders")
    assert not lenient.allows(ANN, READ, TOPIC, "__audit")
    assert lenient.allows(ANN, READ, GROUP, "__audit")
    assert authorizer(super_users=[user("ann")]).allows(ANN, READ, TOPIC, "__audit")


def test_a_rule_that_does_not_allow_the_audit_trail_does_so_from_no_address() -> None:
    somewhere = Subject(user("ann"), [], "")
    everything, own = allow("ann", READ, "*", "10.0.0.0/8"), allow("ann", READ, "__audit", "10.0.0.0/8")

    assert authorizer(everything).depending_on_address(somewhere, READ, TOPIC, "__audit") == []
    assert authorizer(everything, own).depending_on_address(somewhere, READ, TOPIC, "__audit") == [own]
    assert authorizer(everything).depending_on_address(somewhere, READ, TOPIC, "orders") == [everything]

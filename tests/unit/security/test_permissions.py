"""The table of what each API checks, and the guard that asks it."""

import itertools

import pytest

from headrace.broker.routes import APIS
from headrace.model.access.acls import CLUSTER_NAME, SUPPORTED, AclRule, Operation, PatternType, ResourceType
from headrace.model.access.principals import Subject, user
from headrace.model.errors import ErrorCode
from headrace.security.authorization.authorizer import Authorizer
from headrace.security.authorization.guard import Denial, Guard
from headrace.security.authorization.index import AclIndex
from headrace.security.authorization.permissions import (
    PERMISSIONS,
    Audience,
    Check,
    Effect,
    check_of,
)
from headrace.wire.apis import ApiKey, declared_keys

CHECKS = [check for permissions in PERMISSIONS.values() for check in permissions.checks]
ANN = Subject(user("ann"), [], "10.0.0.1")


def name_of(check: Check) -> str:
    return f"{check.api.name}-{check.operation.name}-{check.resource_type.name}"


def test_every_api_that_the_broker_serves_has_a_row() -> None:
    missing = [ApiKey(key).name for key in APIS if key not in PERMISSIONS]

    assert not missing, "say in security/authorization/permissions.py what it checks"


def test_every_api_that_has_messages_has_a_row() -> None:
    assert not [key.name for key in declared_keys() if key not in PERMISSIONS]


def test_only_what_serves_to_sign_in_is_answered_before() -> None:
    before = {api for api, permissions in PERMISSIONS.items() if permissions.audience is Audience.ANYBODY}
    assert before == {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}


def test_what_brokers_say_among_themselves_needs_the_right_of_brokers() -> None:
    for key, served in APIS.items():
        if not served.public:
            assert PERMISSIONS[ApiKey(key)].audience is Audience.BROKERS
    for permissions in PERMISSIONS.values():
        if permissions.audience is Audience.BROKERS:
            assert [check.operation for check in permissions.checks] == [Operation.CLUSTER_ACTION]


def test_an_api_that_is_for_anybody_checks_nothing_and_the_others_say_what() -> None:
    unchecked = {api.name for api, permissions in PERMISSIONS.items() if not permissions.checks} - {
        "API_VERSIONS",
        "SASL_HANDSHAKE",
        "SASL_AUTHENTICATE",
    }

    assert unchecked == {
        "CREATE_DELEGATION_TOKEN",
        "DESCRIBE_DELEGATION_TOKEN",
        "RENEW_DELEGATION_TOKEN",
        "EXPIRE_DELEGATION_TOKEN",
        "GET_TELEMETRY_SUBSCRIPTIONS",
        "PUSH_TELEMETRY",
    }


@pytest.mark.parametrize("check", CHECKS, ids=name_of)
def test_a_check_is_found_by_what_it_is_about(check: Check) -> None:
    assert check_of(check.api, check.operation, check.resource_type) is check


def test_what_the_table_does_not_say_cannot_be_checked() -> None:
    with pytest.raises(KeyError):
        check_of(ApiKey.PRODUCE, Operation.READ, ResourceType.TOPIC)


@pytest.mark.parametrize("check", CHECKS, ids=name_of)
def test_a_check_asks_for_an_operation_that_such_a_resource_has(check: Check) -> None:
    # Kafka asks for DELETE of the cluster, too, and hands the right out to nobody by that name.
    odd = check.operation is Operation.DELETE and check.resource_type is ResourceType.CLUSTER

    assert odd or check.operation in SUPPORTED[check.resource_type]


@pytest.mark.parametrize("permissions", PERMISSIONS.values(), ids=[api.name for api in PERMISSIONS])
def test_a_row_that_falls_back_has_a_row_to_fall_back_to(permissions: object) -> None:
    checks = permissions.checks  # type: ignore[attr-defined]

    for check, following in itertools.pairwise(checks):
        assert check.effect is not Effect.FALLS_BACK or following.effect is not Effect.FALLS_BACK
    assert not checks or checks[-1].effect is not Effect.FALLS_BACK


def rule_for(check: Check, name: str) -> AclRule:
    return AclRule(
        principal=user("ann"),
        operation=check.operation,
        resource_type=check.resource_type,
        resource_name=name,
        pattern_type=PatternType.LITERAL,
    )


@pytest.mark.parametrize("check", CHECKS, ids=name_of)
def test_each_right_alone_opens_its_row_and_without_it_the_row_is_shut(check: Check) -> None:
    name = CLUSTER_NAME if check.resource_type is ResourceType.CLUSTER else "this"
    denials: list[Denial] = []
    shut = Guard(Authorizer(AclIndex()), denials.append)
    open_ = Guard(Authorizer(AclIndex([rule_for(check, name)])), denials.append)

    assert open_.allows(ANN, check, name)
    assert open_.allows(ANN, check, name)
    assert open_.allows(Subject(user("bob")), check, name) is False
    denials.clear()
    assert not shut.allows(ANN, check, name)

    assert len(denials) == (check.effect is Effect.REFUSES)
    assert not shut.allows(ANN, check, name)
    assert "AUTHORIZATION_FAILED" in check.error.name


def test_without_an_authorizer_everybody_may_do_everything() -> None:
    guard = Guard()

    assert all(guard.allows(Subject(), check, "x") for check in CHECKS)
    assert guard.authorized_operations(Subject(), ResourceType.GROUP, "g") == sum(
        1 << each for each in SUPPORTED[ResourceType.GROUP]
    )


def test_a_denial_names_the_rule_that_decided() -> None:
    check = check_of(ApiKey.PRODUCE, Operation.WRITE, ResourceType.TOPIC)
    denials: list[Denial] = []
    guard = Guard(Authorizer(AclIndex()), denials.append)

    assert [guard.allows(ANN, check, name) for name in ("a", "b")] == [False, False]

    assert [denial.name for denial in denials] == ["a", "b"]
    assert {str(denial.decision) for denial in denials} == {"no: no rule allows it"}


def test_a_list_that_is_filtered_denies_nobody_anything() -> None:
    check = check_of(ApiKey.LIST_TRANSACTIONS, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)
    denials: list[Denial] = []
    guard = Guard(Authorizer(AclIndex([rule_for(check, "mine")])), denials.append)

    assert guard.listed(ANN, check, ["mine", "yours"]) == ["mine"]
    topics = check_of(ApiKey.METADATA, Operation.DESCRIBE, ResourceType.TOPIC)
    assert guard.listed(ANN, topics, ["orders"]) == []
    assert Guard().listed(ANN, topics, ["orders", "bills"]) == ["orders", "bills"]
    assert guard.authorized_operations(ANN, ResourceType.TRANSACTIONAL_ID, "yours") == 0

    assert not denials


def test_an_idempotent_producer_needs_to_write_some_topic_and_no_more() -> None:
    check = check_of(ApiKey.INIT_PRODUCER_ID, Operation.WRITE, ResourceType.TOPIC)
    denials: list[Denial] = []

    assert Guard(Authorizer(AclIndex([rule_for(check, "anything")]))).allows(ANN, check)
    assert not Guard(Authorizer(AclIndex()), denials.append).allows(ANN, check)
    assert check.error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert denials[0].name == "*"


def test_the_rules_that_hold_are_those_of_this_moment() -> None:
    check = check_of(ApiKey.PRODUCE, Operation.WRITE, ResourceType.TOPIC)
    guard = Guard(Authorizer(AclIndex()))
    assert guard.authorizer is not None
    assert not guard.allows(ANN, check, "orders")

    guard.authorizer = guard.authorizer.changed(added=[rule_for(check, "orders")])

    assert guard.allows(ANN, check, "orders")

"""The same rules and questions put to Kafka's own StandardAuthorizer (4.3.1): `decisions_by_kafka.jsonl` holds its answers.

Each line is a set of rules, questions with answers, and filters with the rules that they find.  A question without a name is
about any resource of the type.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.model.access.acls import AclFilter, AclRule, Operation, PatternType, Permission, ResourceType
from headrace.model.access.principals import Subject, parse_principal, user
from headrace.security.authorization.authorizer import Authorizer
from headrace.security.authorization.index import AclIndex

STORIES = [json.loads(line) for line in (Path(__file__).parent / "decisions_by_kafka.jsonl").read_text().splitlines()]


def rules_of(story: dict[str, Any]) -> list[AclRule]:
    return [
        AclRule(
            permission=Permission[permission],
            principal=parse_principal(principal),
            host=host,
            operation=Operation[operation],
            resource_type=ResourceType[kind],
            resource_name=name,
            pattern_type=PatternType[pattern],
        )
        for permission, principal, host, operation, kind, name, pattern in story["rules"]
    ]


@pytest.mark.parametrize("number", range(len(STORIES)))
def test_decisions_are_kafkas(number: int) -> None:
    story = STORIES[number]
    rules = Authorizer(AclIndex(rules_of(story)), [user("root")], allow_everyone_if_no_acl_found=story["open"])

    for name, host, operation, kind, resource, allowed in story["asked"]:
        subject, wanted = Subject(user(name), [], host), Operation[operation]
        found = (
            rules.decide(subject, wanted, ResourceType[kind], resource)
            if resource
            else rules.decide_some(subject, wanted, ResourceType[kind])
        )
        assert found.allowed == allowed, (name, host, operation, kind, resource, str(found))


@pytest.mark.parametrize("number", range(len(STORIES)))
def test_filters_find_what_kafkas_find(number: int) -> None:
    rules = rules_of(STORIES[number])

    for kind, name, pattern, principal, host, operation, permission, found in STORIES[number]["found"]:
        wanted = AclFilter(
            resource_type=ResourceType[kind],
            resource_name=name,
            pattern_type=PatternType[pattern],
            principal=principal,
            host=host,
            operation=Operation[operation],
            permission=Permission[permission],
        )
        assert [index for index, rule in enumerate(rules) if wanted.matches(rule)] == found


def test_a_rule_about_all_is_also_about_names_that_begin_with_a_star() -> None:
    """Kafka 4.3.1 takes the literal `*` for a beginning of `*x` there, and passes it over: a DENY of all spares that group."""
    rules = Authorizer(
        AclIndex(
            AclRule(
                permission=permission,
                principal=user("ann"),
                operation=Operation.READ,
                resource_type=ResourceType.GROUP,
                resource_name=name,
            )
            for permission, name in ((Permission.DENY, "*"), (Permission.ALLOW, "*x"))
        )
    )

    assert not rules.allows(Subject(user("ann")), Operation.READ, ResourceType.GROUP, "*x")

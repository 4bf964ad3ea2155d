"""Making, finding and removing rules of who may do what."""

from collections.abc import Iterable
from typing import Final

from headrace.controller.access.entries import acl_key, encode_rule
from headrace.controller.entries import ConditionalWrite, Delete, Operation, Put
from headrace.controller.image import ClusterImage
from headrace.model.access.acls import AclFilter, AclRule, check_filter

OPERATIONS_MAX: Final = 100  # a store takes no more at once


def create_acls(rules: Iterable[AclRule]) -> list[ConditionalWrite]:
    """Make rules, each of which was checked.  No condition is needed: the key is the rule, so others make the same.
    One that there is already is written again: it may be gone by now where this broker has not heard of it."""
    return _writes(Put(key, encode_rule(rule)) for key, rule in {acl_key(rule): rule for rule in rules}.items())


def delete_acls(image: ClusterImage, wanted: AclFilter) -> tuple[list[AclRule], list[ConditionalWrite]]:
    """The rules that a filter finds, and how to remove them.  Raises RequestError."""
    check_filter(wanted)
    found = {key: rule for key, rule in image.acls.items() if wanted.matches(rule)}
    return list(found.values()), _writes(Delete(key) for key in found)


def describe_acls(image: ClusterImage, wanted: AclFilter) -> list[AclRule]:
    """The rules that a filter finds, those of a resource together.  Raises RequestError."""
    check_filter(wanted)
    found = [rule for rule in image.acls.values() if wanted.matches(rule)]
    return sorted(
        found, key=lambda rule: (rule.resource_type, rule.resource_name, rule.pattern_type, rule.principal, rule.operation)
    )


def _writes(operations: Iterable[Operation]) -> list[ConditionalWrite]:
    listed = list(operations)
    return [
        ConditionalWrite((), tuple(listed[start : start + OPERATIONS_MAX])) for start in range(0, len(listed), OPERATIONS_MAX)
    ]

"""Rules of who may do what, by way of librdkafka, so that they can be made wherever a client can sign in.

Its errors are the caller's to translate."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ConfigResource,
    ResourcePatternType,
)
from confluent_kafka.admin import ResourceType as ClientResourceType

from headrace.client.librdkafka import new_admin
from headrace.model.access.acls import AclFilter, AclRule, Operation, PatternType, Permission, ResourceType
from headrace.model.access.principals import parse_principal

SECONDS_MAX: Final = 15.0


class RuleAdmin:
    """Makes, finds and removes rules."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        """`properties` are librdkafka's."""
        self._client = new_admin(properties)

    def create(self, rules: Iterable[AclRule]) -> None:
        """Make rules; those that are there already stay."""
        for made in self._client.create_acls([_binding(rule) for rule in rules]).values():
            made.result(SECONDS_MAX)

    def find(self, wanted: AclFilter) -> list[AclRule]:
        """The rules that a filter finds."""
        return [_rule(binding) for binding in self._client.describe_acls(_filter(wanted)).result(SECONDS_MAX)]

    def remove(self, filters: Iterable[AclFilter]) -> list[AclRule]:
        """Remove the rules that filters find; which those were."""
        answers = self._client.delete_acls([_filter(wanted) for wanted in filters]).values()
        return [_rule(binding) for answer in answers for binding in answer.result(SECONDS_MAX)]

    def broker_settings(self) -> dict[str, str]:
        """The settings of one broker, on which decisions depend, too."""
        broker = min(self._client.list_topics(timeout=SECONDS_MAX).brokers)
        (answer,) = self._client.describe_configs([ConfigResource(ConfigResource.Type.BROKER, str(broker))]).values()
        return {name: entry.value or "" for name, entry in answer.result(SECONDS_MAX).items()}


def _binding(rule: AclRule) -> AclBinding:
    return AclBinding(
        ClientResourceType(rule.resource_type),
        rule.resource_name,
        ResourcePatternType(rule.pattern_type),
        str(rule.principal),
        rule.host,
        AclOperation(rule.operation),
        AclPermissionType(rule.permission),
    )


def _filter(wanted: AclFilter) -> AclBindingFilter:
    return AclBindingFilter(
        ClientResourceType(wanted.resource_type),
        wanted.resource_name,
        ResourcePatternType(wanted.pattern_type),
        wanted.principal,
        wanted.host,
        AclOperation(wanted.operation),
        AclPermissionType(wanted.permission),
    )


def _rule(binding: AclBinding) -> AclRule:
    return AclRule(
        permission=Permission(binding.permission_type.value),
        principal=parse_principal(binding.principal),
        host=binding.host,
        operation=Operation(binding.operation.value),
        resource_type=ResourceType(binding.restype.value),
        resource_name=binding.name,
        pattern_type=PatternType(binding.resource_pattern_type.value),
    )

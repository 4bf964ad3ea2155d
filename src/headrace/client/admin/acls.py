"""Rules of who may do what, by way of librdkafka, so that they can be made wherever a client can sign in."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
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

from headrace.client.librdkafka import attempt, new_admin
from headrace.model.access.acls import AclFilter, AclRule, Operation, PatternType, Permission, ResourceType
from headrace.model.access.principals import parse_principal

SECONDS_MAX: Final = 15.0


class RuleAdmin:
    """Makes, finds and removes rules."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        """`properties` are librdkafka's."""
        self._client = new_admin(properties)
        self._bootstrap = str(properties["bootstrap.servers"])

    def create(self, rules: Iterable[AclRule]) -> None:
        """Make rules; those that are there already stay."""
        bindings = [_binding(rule) for rule in rules]
        self._each("make the rules", lambda: self._client.create_acls(bindings).values())

    def find(self, wanted: AclFilter) -> list[AclRule]:
        """The rules that a filter finds."""
        (found,) = self._each("list the rules", lambda: [self._client.describe_acls(_filter(wanted))])
        return [_rule(binding) for binding in found]

    def remove(self, filters: Iterable[AclFilter]) -> list[AclRule]:
        """Remove the rules that filters find; which those were."""
        bindings = [_filter(wanted) for wanted in filters]
        removed = self._each("remove the rules", lambda: self._client.delete_acls(bindings).values())
        return [_rule(binding) for found in removed for binding in found]

    def broker_settings(self) -> dict[int, dict[str, str]]:
        """The settings of each broker that is there, on which decisions depend, too."""
        brokers = attempt("list the brokers", self._bootstrap, lambda: self._client.list_topics(timeout=SECONDS_MAX).brokers)
        found = self._each("read the settings of the brokers", lambda: self._ask_for_settings(sorted(brokers)))
        return {
            broker: {name: entry.value or "" for name, entry in entries.items()}
            for broker, entries in zip(sorted(brokers), found, strict=True)
        }

    def _ask_for_settings(self, brokers: Iterable[int]) -> list[Future[Any]]:
        """One call for each: librdkafka asks one broker at a time."""
        wanted = [ConfigResource(ConfigResource.Type.BROKER, str(broker)) for broker in brokers]
        return [answer for each in wanted for answer in self._client.describe_configs([each]).values()]

    def _each(self, action: str, ask: Callable[[], Iterable[Future[Any]]]) -> list[Any]:
        """The answers to one request; the first error among them is raised."""
        return attempt(action, self._bootstrap, lambda: [answer.result(SECONDS_MAX) for answer in ask()])


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

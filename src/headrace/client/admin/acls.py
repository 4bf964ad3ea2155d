"""Rules of who may do what, over the wire: made, found and removed."""

from collections.abc import Iterable

from headrace.client.admin.wire_admin import WireAdmin, raise_for
from headrace.model.access.acls import AclFilter, AclRule, Operation, PatternType, Permission, ResourceType
from headrace.model.access.principals import parse_principal
from headrace.wire.messages.create_acls import AclCreation, CreateAclsRequest
from headrace.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsMatchingAcl, DeleteAclsRequest
from headrace.wire.messages.describe_acls import AclDescription, DescribeAclsRequest, DescribeAclsResource


def create_rules(admin: WireAdmin, rules: Iterable[AclRule]) -> None:
    """Make rules; those that are there already stay."""
    wanted = tuple(rules)
    reply = admin.call_controller(CreateAclsRequest(creations=tuple(map(_creation, wanted))))
    for rule, result in zip(wanted, reply.results, strict=True):
        raise_for(result.error_code, str(rule), result.error_message)


def find_rules(admin: WireAdmin, wanted: AclFilter) -> list[AclRule]:
    """The rules that a filter finds."""
    reply = admin.call(
        DescribeAclsRequest(
            resource_type_filter=wanted.resource_type,
            resource_name_filter=wanted.resource_name,
            pattern_type_filter=wanted.pattern_type,
            principal_filter=wanted.principal,
            host_filter=wanted.host,
            operation=wanted.operation,
            permission_type=wanted.permission,
        )
    )
    raise_for(reply.error_code, "rules", reply.error_message)
    return [_rule(resource, acl) for resource in reply.resources for acl in resource.acls]


def remove_rules(admin: WireAdmin, filters: Iterable[AclFilter]) -> list[AclRule]:
    """Remove the rules that filters find; which those were."""
    asked = tuple(
        DeleteAclsFilter(
            resource_type_filter=wanted.resource_type,
            resource_name_filter=wanted.resource_name,
            pattern_type_filter=wanted.pattern_type,
            principal_filter=wanted.principal,
            host_filter=wanted.host,
            operation=wanted.operation,
            permission_type=wanted.permission,
        )
        for wanted in filters
    )
    reply = admin.call_controller(DeleteAclsRequest(filters=asked))
    for result in reply.filter_results:
        raise_for(result.error_code, "rules", result.error_message)
    return [_rule(acl, acl) for result in reply.filter_results for acl in result.matching_acls]


def _creation(rule: AclRule) -> AclCreation:
    return AclCreation(
        resource_type=rule.resource_type,
        resource_name=rule.resource_name,
        resource_pattern_type=rule.pattern_type,
        principal=str(rule.principal),
        host=rule.host,
        operation=rule.operation,
        permission_type=rule.permission,
    )


def _rule(resource: DescribeAclsResource | DeleteAclsMatchingAcl, acl: AclDescription | DeleteAclsMatchingAcl) -> AclRule:
    return AclRule(
        permission=Permission(acl.permission_type),
        principal=parse_principal(acl.principal),
        host=acl.host,
        operation=Operation(acl.operation),
        resource_type=ResourceType(resource.resource_type),
        resource_name=resource.resource_name,
        pattern_type=PatternType(resource.pattern_type),
    )

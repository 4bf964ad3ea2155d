"""DescribeAcls: the rules that a filter finds, those of a resource together."""

from itertools import groupby

from headrace.broker.access.rules_on_wire import DISABLED, filter_of
from headrace.broker.network.dispatch import RequestContext
from headrace.controller.access.acls import describe_acls
from headrace.controller.image import CurrentImage
from headrace.model.access.acls import AclRule, PatternType, ResourceType
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


def handle(request: DescribeAclsRequest, context: RequestContext, image: CurrentImage) -> DescribeAclsResponse:
    try:
        if context.guard.authorizer is None:
            raise DISABLED
        rules = describe_acls(image(), filter_of(request))
    except RequestError as error:
        return DescribeAclsResponse(error_code=error.code, error_message=error.message, resources=())
    resources = (
        DescribeAclsResource(
            resource_type=resource_type,
            resource_name=name,
            pattern_type=pattern_type,
            acls=tuple(map(_description, those)),
        )
        for (resource_type, name, pattern_type), those in groupby(rules, key=_resource)
    )
    return DescribeAclsResponse(error_code=ErrorCode.NONE, resources=tuple(resources))


def _resource(rule: AclRule) -> tuple[ResourceType, str, PatternType]:
    return rule.resource_type, rule.resource_name, rule.pattern_type


def _description(rule: AclRule) -> AclDescription:
    return AclDescription(
        principal=str(rule.principal), host=rule.host, operation=rule.operation, permission_type=rule.permission
    )

"""CreateAcls: new rules of who may do what, each made or refused by itself.  Any broker makes them; all hold to them soon."""

from headrace.broker.access.rules_on_wire import DISABLED, rule_of
from headrace.broker.network.dispatch import RequestContext
from headrace.controller.access.acls import create_acls
from headrace.metadata.cluster import ClusterMetadata
from headrace.model.access.acls import AclRule
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse


async def handle(request: CreateAclsRequest, context: RequestContext, cluster: ClusterMetadata) -> CreateAclsResponse:
    read = [_read(creation, context) for creation in request.creations]
    rules = [each for each in read if isinstance(each, AclRule)]
    failure = None
    try:
        await cluster.submit(lambda image: create_acls(rules))
    except RequestError as error:
        failure = error
    return CreateAclsResponse(results=tuple(_result(failure if isinstance(each, AclRule) else each) for each in read))


def _read(creation: AclCreation, context: RequestContext) -> AclRule | RequestError:
    if context.guard.authorizer is None:
        return DISABLED
    try:
        return rule_of(creation)
    except RequestError as error:
        return error


def _result(error: RequestError | None) -> AclCreationResult:
    if error is None:
        return AclCreationResult(error_code=ErrorCode.NONE)
    return AclCreationResult(error_code=error.code, error_message=error.message)

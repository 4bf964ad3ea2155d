"""DeleteAcls: removes the rules that filters find, and tells which those were; each filter is answered by itself."""

from headrace.broker.access.rules_on_wire import DISABLED, filter_of
from headrace.broker.network.dispatch import RequestContext
from headrace.controller.access.acls import delete_acls
from headrace.controller.entries import ConditionalWrite
from headrace.controller.image import ClusterImage
from headrace.metadata.cluster import ClusterMetadata
from headrace.model.access.acls import AclFilter, AclRule
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


async def handle(request: DeleteAclsRequest, context: RequestContext, cluster: ClusterMetadata) -> DeleteAclsResponse:
    results = []
    for asked in request.filters:
        try:
            if context.guard.authorizer is None:
                raise DISABLED
            removed = await _delete(cluster, filter_of(asked))
        except RequestError as error:
            results.append(DeleteAclsFilterResult(error_code=error.code, error_message=error.message, matching_acls=()))
        else:
            results.append(DeleteAclsFilterResult(error_code=ErrorCode.NONE, matching_acls=tuple(map(_removed, removed))))
    return DeleteAclsResponse(filter_results=tuple(results))


async def _delete(cluster: ClusterMetadata, wanted: AclFilter) -> list[AclRule]:
    removed: list[AclRule] = []

    def plan(image: ClusterImage) -> list[ConditionalWrite]:
        removed[:], writes = delete_acls(image, wanted)
        return writes

    # A filter may find what was made a moment ago at another broker.
    await cluster.catch_up()
    await cluster.submit(plan)
    return removed


def _removed(rule: AclRule) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_code=ErrorCode.NONE,
        resource_type=rule.resource_type,
        resource_name=rule.resource_name,
        pattern_type=rule.pattern_type,
        principal=str(rule.principal),
        host=rule.host,
        operation=rule.operation,
        permission_type=rule.permission,
    )

"""AlterClientQuotas: sets and removes limits; each entity is answered by itself."""

from headrace.broker.network.dispatch import RequestContext
from headrace.controller.quotas import alter
from headrace.metadata.cluster import ClusterMetadata
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    EntryData,
)


async def handle(
    request: AlterClientQuotasRequest, context: RequestContext, cluster: ClusterMetadata
) -> AlterClientQuotasResponse:
    entries = []
    for entry in request.entries:
        code, message = ErrorCode.NONE, None
        try:
            await _alter(cluster, entry, validate_only=request.validate_only)
        except RequestError as error:
            code, message = error.code, error.message
        entries.append(AlterClientQuotasResponseEntryData(error_code=code, error_message=message, entity=entry.entity))
    return AlterClientQuotasResponse(entries=tuple(entries))


async def _alter(cluster: ClusterMetadata, entry: EntryData, *, validate_only: bool) -> None:
    entity = {part.entity_type: part.entity_name for part in entry.entity}
    if len(entity) != len(entry.entity):
        raise RequestError(ErrorCode.INVALID_REQUEST, "An entity type is used twice.")
    changes = {change.key: None if change.remove else change.value for change in entry.ops}
    if validate_only:
        alter(cluster.image, entity, changes)
    else:
        await cluster.submit(lambda image: [alter(image, entity, changes)])

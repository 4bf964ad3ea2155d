"""DescribeClientQuotas: the limits of users, client ids, addresses and (ours) topics that a filter matches."""

from collections.abc import Mapping

from headrace.broker.network.dispatch import RequestContext
from headrace.controller.image import CurrentImage
from headrace.controller.quotas import parse_entity
from headrace.model.errors import ErrorCode
from headrace.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

ANY = 2


def handle(request: DescribeClientQuotasRequest, context: RequestContext, image: CurrentImage) -> DescribeClientQuotasResponse:
    kinds = [component.entity_type for component in request.components]
    if len(set(kinds)) != len(kinds):
        message = "An entity type is used twice in the filter."
        return DescribeClientQuotasResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=message, entries=None)
    entries = []
    for name, limits in sorted(image().quotas.items()):
        entity = parse_entity(name)
        if _matches(entity, request):
            entries.append(_entry(entity, limits))
    return DescribeClientQuotasResponse(error_code=ErrorCode.NONE, entries=tuple(entries))


def _matches(entity: Mapping[str, str | None], request: DescribeClientQuotasRequest) -> bool:
    if request.strict and len(entity) != len(request.components):
        return False
    return all(_matches_part(entity, component) for component in request.components)


def _matches_part(entity: Mapping[str, str | None], component: ComponentData) -> bool:
    if component.entity_type not in entity:
        return False
    name = entity[component.entity_type]
    match component.match_type:
        case 0:  # exactly this name
            return name is not None and name == component.match
        case 1:  # the default
            return name is None
        case _:
            return component.match_type == ANY


def _entry(entity: Mapping[str, str | None], limits: Mapping[str, str]) -> EntryData:
    return EntryData(
        entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()),
        values=tuple(ValueData(key=quota, value=float(limit)) for quota, limit in sorted(limits.items())),
    )

"""DescribeClientQuotas: the quotas of users, client ids and addresses."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, array, boolean, float64, int8, int16, int32, string

DESCRIBE_CLIENT_QUOTAS = Api(key=48, versions=range(2), flexible_from=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentData:
    """What to match in one kind of entity: exactly (0), the default (1) or any (2)."""

    entity_type: Annotated[str, string]
    match_type: Annotated[int, int8]
    match: Annotated[str | None, string]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClientQuotasRequest:
    """A filter.  v1 is the first flexible version."""

    api: ClassVar[Api] = DESCRIBE_CLIENT_QUOTAS
    components: Annotated[tuple[ComponentData, ...], array(ComponentData)]
    strict: Annotated[bool, boolean]


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityData:
    """A part of an entity: its kind and name; a null name is the default."""

    entity_type: Annotated[str, string]
    entity_name: Annotated[str | None, string]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueData:
    """One quota."""

    key: Annotated[str, string]
    value: Annotated[float, float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryData:
    """An entity and its quotas."""

    entity: Annotated[tuple[EntityData, ...], array(EntityData)]
    values: Annotated[tuple[ValueData, ...], array(ValueData)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClientQuotasResponse:
    """The quotas that match."""

    api: ClassVar[Api] = DESCRIBE_CLIENT_QUOTAS
    throttle_time_ms: Annotated[int, int32] = 0
    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None
    entries: Annotated[tuple[EntryData, ...] | None, array(EntryData)]

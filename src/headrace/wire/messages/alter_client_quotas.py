"""AlterClientQuotas: changes quotas of users, client ids and addresses."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, array, boolean, float64, int16, int32, string

ALTER_CLIENT_QUOTAS = Api(key=49, versions=range(2), flexible_from=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityData:
    """A part of an entity: its kind and name; a null name is the default."""

    entity_type: Annotated[str, string]
    entity_name: Annotated[str | None, string]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpData:
    """A quota to set or to remove."""

    key: Annotated[str, string]
    value: Annotated[float, float64]
    remove: Annotated[bool, boolean]


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryData:
    """An entity and the changes to it."""

    entity: Annotated[tuple[EntityData, ...], array(EntityData)]
    ops: Annotated[tuple[OpData, ...], array(OpData)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterClientQuotasRequest:
    """The changes.  v1 is the first flexible version."""

    api: ClassVar[Api] = ALTER_CLIENT_QUOTAS
    entries: Annotated[tuple[EntryData, ...], array(EntryData)]
    validate_only: Annotated[bool, boolean]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterClientQuotasResponseEntryData:
    """What became of one entity."""

    error_code: Annotated[int, int16]
    error_message: Annotated[str | None, string] = None
    entity: Annotated[tuple[EntityData, ...], array(EntityData)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterClientQuotasResponse:
    """For each entity, whether it was done."""

    api: ClassVar[Api] = ALTER_CLIENT_QUOTAS
    throttle_time_ms: Annotated[int, int32] = 0
    entries: Annotated[tuple[AlterClientQuotasResponseEntryData, ...], array(AlterClientQuotasResponseEntryData)]

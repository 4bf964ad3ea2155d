"""GetTelemetrySubscriptions: a client asks which of its metrics the cluster wants (KIP-714)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar
from uuid import UUID

from headrace.wire.schema import Api, array, boolean, int8, int16, int32, string, uuid

GET_TELEMETRY_SUBSCRIPTIONS = Api(key=71, versions=range(1), flexible_from=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTelemetrySubscriptionsRequest:
    """A client, by an id that it was given before, or zero."""

    api: ClassVar[Api] = GET_TELEMETRY_SUBSCRIPTIONS
    client_instance_id: Annotated[UUID, uuid]


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTelemetrySubscriptionsResponse:
    """The id to use and the metrics wanted; none, if nobody wants any."""

    api: ClassVar[Api] = GET_TELEMETRY_SUBSCRIPTIONS
    throttle_time_ms: Annotated[int, int32] = 0
    error_code: Annotated[int, int16]
    client_instance_id: Annotated[UUID, uuid]
    subscription_id: Annotated[int, int32]
    accepted_compression_types: Annotated[tuple[int, ...], array(int8)]
    push_interval_ms: Annotated[int, int32]
    telemetry_max_bytes: Annotated[int, int32]
    delta_temporality: Annotated[bool, boolean]
    requested_metrics: Annotated[tuple[str, ...], array(string)]

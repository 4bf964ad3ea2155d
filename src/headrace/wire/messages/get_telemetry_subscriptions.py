"""GetTelemetrySubscriptions: a client asks which of its own metrics somebody wants (KIP-714)."""

from typing import Annotated, ClassVar
from uuid import UUID

from headrace.declaring import dataclass
from headrace.wire.schema import ZERO_UUID, Api, array, boolean, int8, int16, int32, string, uuid

GET_TELEMETRY_SUBSCRIPTIONS = Api(key=71, versions=range(1), flexible_from=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTelemetrySubscriptionsRequest:
    """From a client that has a name, or gets one with the answer."""

    api: ClassVar[Api] = GET_TELEMETRY_SUBSCRIPTIONS
    client_instance_id: Annotated[UUID, uuid] = ZERO_UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTelemetrySubscriptionsResponse:
    """Prefixes of the metrics that are wanted; none mean that nothing is, and `*` that all are."""

    api: ClassVar[Api] = GET_TELEMETRY_SUBSCRIPTIONS
    throttle_time_ms: Annotated[int, int32] = 0
    error_code: Annotated[int, int16]
    client_instance_id: Annotated[UUID, uuid] = ZERO_UUID
    subscription_id: Annotated[int, int32] = 0
    accepted_compression_types: Annotated[tuple[int, ...], array(int8)] = ()
    push_interval_ms: Annotated[int, int32] = 0
    telemetry_max_bytes: Annotated[int, int32] = 0
    delta_temporality: Annotated[bool, boolean] = False
    requested_metrics: Annotated[tuple[str, ...], array(string)] = ()

"""PushTelemetry: a client tells its own metrics (KIP-714)."""

from typing import Annotated, ClassVar
from uuid import UUID

from headrace.declaring import dataclass
from headrace.wire.schema import Api, binary, boolean, int8, int16, int32, uuid

PUSH_TELEMETRY = Api(key=72, versions=range(1), flexible_from=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PushTelemetryRequest:
    """OpenTelemetry's MetricsData, as protobuf and compressed.  With `terminating` it is the client's last."""

    api: ClassVar[Api] = PUSH_TELEMETRY
    client_instance_id: Annotated[UUID, uuid]
    subscription_id: Annotated[int, int32]
    terminating: Annotated[bool, boolean]
    compression_type: Annotated[int, int8]
    metrics: Annotated[bytes, binary]


@dataclass(frozen=True, slots=True, kw_only=True)
class PushTelemetryResponse:
    """Whether it was taken."""

    api: ClassVar[Api] = PUSH_TELEMETRY
    throttle_time_ms: Annotated[int, int32] = 0
    error_code: Annotated[int, int16]

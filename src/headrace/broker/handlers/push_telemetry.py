"""PushTelemetry: a client's own metrics (KIP-714), unpacked in a thread."""

import asyncio

from headrace.broker.network.dispatch import RequestContext
from headrace.broker.telemetry.telemetry import ClientTelemetry, unpacked
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse


async def handle(
    request: PushTelemetryRequest, context: RequestContext, telemetry: ClientTelemetry, loop: asyncio.AbstractEventLoop
) -> PushTelemetryResponse:
    code = ErrorCode.NONE
    try:
        instance = telemetry.pushed_by(request, context)
        if request.metrics:
            data, limit = bytes(request.metrics), telemetry.max_bytes
            points = await loop.run_in_executor(None, unpacked, request.compression_type, data, limit)
            telemetry.instances.take(instance, points)
    except RequestError as error:
        code = error.code
    telemetry.pushes[code] += 1
    return PushTelemetryResponse(error_code=code)

"""GetTelemetrySubscriptions: which of its own metrics a client is asked for (KIP-714)."""

from headrace.broker.network.dispatch import RequestContext
from headrace.broker.telemetry.telemetry import ACCEPTED_CODECS, ClientTelemetry
from headrace.model.errors import ErrorCode, RequestError
from headrace.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse


def handle(
    request: GetTelemetrySubscriptionsRequest, context: RequestContext, telemetry: ClientTelemetry
) -> GetTelemetrySubscriptionsResponse:
    try:
        instance = telemetry.asked_by(request.client_instance_id, context)
    except RequestError as error:
        return GetTelemetrySubscriptionsResponse(error_code=error.code)
    return GetTelemetrySubscriptionsResponse(
        error_code=ErrorCode.NONE,
        client_instance_id=instance.instance_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=ACCEPTED_CODECS,
        push_interval_ms=instance.interval_ms,
        telemetry_max_bytes=telemetry.max_bytes,
        # All there is, each time: a push that is lost, or goes to another broker, costs nothing.
        delta_temporality=False,
        requested_metrics=instance.metrics,
    )

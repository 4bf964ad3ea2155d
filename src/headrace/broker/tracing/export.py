"""From requests that are over to OpenTelemetry's spans, in a thread of its own.

The provider is the process's own, where somebody has set one (`opentelemetry-instrument headrace serve`, or a program that has
a broker inside); else one that exports by OTLP.  Always: nothing of OpenTelemetry is imported before there is something to trace,
and what comes faster than spans are made is dropped and counted.
"""

import logging
import queue
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from headrace.broker.metrics.figures import TraceFigures
from headrace.model.errors import RequestError
from headrace.records.record import read_records
from headrace.wire.codec import decode_at
from headrace.wire.errors import WireError
from headrace.wire.framing import read_request_header
from headrace.wire.messages.produce import ProduceRequest

if TYPE_CHECKING:
    from opentelemetry.trace import Link

    from headrace.broker.tracing.trail import Ended

logger = logging.getLogger(__name__)

WAITING_MAX = 2000
LINKS_MAX = 128
CLOSE_SECONDS_MAX = 5.0
PHASES = ("queue", "work", "wait", "send")


class SpanThread:
    """Made when the first span is wanted."""

    def __init__(self, broker_id: int, endpoint: str | None, figures: TraceFigures) -> None:
        self._broker_id = broker_id
        self._endpoint = endpoint
        self._figures = figures
        self._waiting: queue.Queue[Ended | None] = queue.Queue(WAITING_MAX)
        self._thread = threading.Thread(target=self._run, name="headrace-spans", daemon=True)
        self._thread.start()

    def take(self, ended: "Ended") -> None:
        """From the loop; it never waits."""
        try:
            self._waiting.put_nowait(ended)
            self._figures.spans += 1
        except queue.Full:
            self._figures.dropped += 1

    def close(self) -> None:
        """Return when all that was taken is exported, or after a while."""
        try:
            self._waiting.put(None, timeout=CLOSE_SECONDS_MAX)
        except queue.Full:
            return
        self._thread.join(CLOSE_SECONDS_MAX)

    def _run(self) -> None:
        try:
            maker = SpanMaker(self._broker_id, self._endpoint)
        except ImportError:
            logger.error("headrace.trace.sample.ratio needs OpenTelemetry; install it: pip install 'headrace[otel]'")
            self._drop_all()
            return
        while (ended := self._waiting.get()) is not None:
            try:
                maker.make(ended)
            except Exception:
                logger.exception("a span of %s could not be made", ended)
        maker.close()

    def _drop_all(self) -> None:
        while self._waiting.get() is not None:
            self._figures.dropped += 1


class SpanMaker:
    """Knows OpenTelemetry."""

    def __init__(self, broker_id: int, endpoint: str | None) -> None:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider

        self._broker_id = broker_id
        provider = trace.get_tracer_provider()
        self._own: TracerProvider | None = None
        if not isinstance(provider, TracerProvider):
            provider = self._own = _provider(broker_id, endpoint)
        self._tracer = provider.get_tracer("headrace.broker")

    def make(self, ended: "Ended") -> None:
        """A span of a request, and one inside for each phase that took time."""
        from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

        end_ns = ended.at_ms * 1_000_000
        times = [*(end_ns - round(seconds * 1e9) for seconds in ended.ago), end_ns]
        span = self._tracer.start_span(
            ended.api, kind=SpanKind.SERVER, attributes=self._facts(ended), links=list(links_of(ended)), start_time=times[0]
        )
        context = set_span_in_context(span)
        for phase, begin, end in zip(PHASES, times, times[1:], strict=False):
            if end > begin:
                self._tracer.start_span(phase, context=context, start_time=begin).end(end)
        if ended.errors or ended.is_given_up:
            span.set_status(Status(StatusCode.ERROR, "its connection ended first" if ended.is_given_up else ended.errors[0]))
        span.end(end_ns)

    def _facts(self, ended: "Ended") -> dict[str, Any]:
        facts: dict[str, Any] = {
            "messaging.system": "kafka",
            "messaging.client.id": ended.client_id,
            "network.peer.address": ended.host,
            "user.name": ended.user,
            "headrace.broker.id": self._broker_id,
            "headrace.request.id": ended.request_id,
            "headrace.request.version": ended.api_version,
        }
        if ended.port is not None:
            facts["network.peer.port"] = ended.port
        if ended.places:
            facts["headrace.places"] = ended.places
        if ended.errors:
            facts["error.type"] = ended.errors[0]
        return facts

    def close(self) -> None:
        if self._own is not None:
            self._own.shutdown()


def _provider(broker_id: int, endpoint: str | None) -> Any:
    """Named by OTEL_SERVICE_NAME and its like; `endpoint` counts more than OTEL_EXPORTER_OTLP_ENDPOINT."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    ours = Resource({"service.name": "headrace", "service.instance.id": str(broker_id)})
    told = OTELResourceDetector().detect()
    provider = TracerProvider(resource=Resource.create().merge(ours).merge(told), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
    return provider


def links_of(ended: "Ended") -> Iterator["Link"]:
    """To the spans in which the records of a Produce request were sent, as their headers tell."""
    from opentelemetry import trace
    from opentelemetry.trace import Link
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    seen: set[tuple[int, int]] = set()
    for told in traceparents(ended.frame):
        context = TraceContextTextMapPropagator().extract({"traceparent": told})
        found = trace.get_current_span(context).get_span_context()
        if found.is_valid and (found.trace_id, found.span_id) not in seen:
            seen.add((found.trace_id, found.span_id))
            yield Link(found)
            if len(seen) == LINKS_MAX:
                return


def traceparents(frame: bytes | None) -> Iterator[str]:
    """What the records of a whole Produce request say; nothing where they cannot be read."""
    if frame is None:
        return
    try:
        (_, version, _, _), position = read_request_header(frame)
        request, _ = decode_at(ProduceRequest, frame, version, position)
        batches = [data.records for topic in request.topic_data for data in topic.partition_data if data.records]
        for batch in batches:
            for record in read_records(batch):
                yield from (value.decode("ascii", "replace") for name, value in record.headers if name == "traceparent" and value)
    except (RequestError, WireError, ValueError):
        return

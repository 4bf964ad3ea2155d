"""Traces of the SDK, with OpenTelemetry's own SDK: what is sent, worked on and committed, and which of it belongs together."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from opentelemetry import context, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from headrace import (
    AsyncConsumer,
    AsyncProducer,
    BatchFailed,
    Consumer,
    DeliveryFailed,
    PriorityConsumer,
    Producer,
    Record,
)
from tests.support.waiting import until

FOREIGN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Traces:
    """A provider, and the spans that ended."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]

    def the(self, name: str) -> ReadableSpan:
        (found,) = self.named(name)
        return found


@pytest.fixture
def traces() -> Iterator[Traces]:
    found = Traces()
    yield found
    found.provider.shutdown()
    assert not trace.get_current_span(context.get_current()).get_span_context().is_valid


def facts(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def id_of(span: ReadableSpan) -> tuple[int, int]:
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


def parent_of(span: ReadableSpan) -> tuple[int, int]:
    return (0, 0) if span.parent is None else (span.parent.trace_id, span.parent.span_id)


def links_of(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


def traceparent(span: ReadableSpan) -> bytes:
    assert span.context is not None
    return b"00-%032x-%016x-%02x" % (*id_of(span), span.context.trace_flags)


def send(bootstrap: str, topic: str, values: Sequence[str], traces: Traces) -> None:
    with Producer(bootstrap, linger=0, tracing=traces.provider) as producer:
        for value in values:
            producer.send(topic, value)


def test_a_record_carries_the_context_of_the_span_that_sent_it(bootstrap: str, topic: str, traces: Traces) -> None:
    with Producer(bootstrap, client_id="till", tracing=traces.provider) as producer:
        delivery = producer.send(topic, "one", headers={"kept": "yes"}).result(20)
    with Consumer(topic, bootstrap=bootstrap, tracing=False) as consumer:
        (record,) = consumer.to_end()

    span = traces.the(f"send {topic}")
    assert record.headers == [("kept", b"yes"), ("traceparent", traceparent(span))]
    assert span.kind is SpanKind.PRODUCER
    host, port = bootstrap.split(":")
    assert facts(span) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": str(delivery.partition),
        "messaging.kafka.offset": delivery.offset,
        "messaging.message.body.size": 3,
        "messaging.client.id": "till",
        "server.address": host,
        "server.port": int(port),
    }


def test_what_is_sent_while_a_record_is_worked_on_is_in_the_same_trace(bootstrap: str, topic: str, traces: Traces) -> None:
    send(bootstrap, topic, ["a", "b"], traces)
    settings: dict[str, Any] = {"bootstrap": bootstrap, "group": topic, "tracing": traces.provider}
    with Producer(bootstrap, tracing=traces.provider) as producer, Consumer(topic, **settings) as consumer:
        for record in consumer.to_end():
            producer.send(f"{topic}-out", record.value)

    sent, worked, passed = (traces.named(name) for name in (f"send {topic}", f"process {topic}", f"send {topic}-out"))
    assert [parent_of(span) for span in worked] == [id_of(span) for span in sent]
    assert [links_of(span) for span in worked] == [[id_of(span)] for span in sent]
    assert sorted(map(parent_of, passed)) == sorted(map(id_of, worked))
    assert {span.kind for span in worked} == {SpanKind.CONSUMER}
    first = facts(worked[0])
    assert (first["messaging.operation.type"], first["messaging.consumer.group.name"]) == ("process", topic)
    assert (first["messaging.kafka.offset"], first["messaging.destination.partition.id"]) == (0, "0")


def test_a_commit_is_a_span_whether_it_is_waited_for_or_not(bootstrap: str, topic: str, traces: Traces) -> None:
    send(bootstrap, topic, ["a", "b"], traces)
    settings: dict[str, Any] = {"bootstrap": bootstrap, "group": topic, "tracing": traces.provider, "commit_interval": 60}
    with Consumer(topic, **settings) as consumer:
        assert consumer.poll(20) is not None
        consumer.commit()
        waited_for = traces.the(f"commit {topic}")
        assert consumer.poll(20) is not None
        consumer.commit(wait=False)
        until(lambda: consumer.poll(0.05) is None and len(traces.named(f"commit {topic}")) == 2)

    assert waited_for.kind is SpanKind.CLIENT
    assert facts(waited_for)["messaging.operation.type"] == "settle"
    assert [facts(span)["messaging.kafka.offset"] for span in traces.named(f"commit {topic}")] == [1, 2]


def test_a_batch_is_one_span_with_a_link_to_each_of_its_records(bootstrap: str, topic: str, traces: Traces) -> None:
    send(bootstrap, topic, ["a", "b", "c"], traces)
    with Consumer(topic, bootstrap=bootstrap, tracing=traces.provider) as consumer:
        assert len(consumer.batch(3, 20)) == 3

    worked = traces.the(f"process {topic}")
    assert links_of(worked) == [id_of(span) for span in traces.named(f"send {topic}")]
    assert worked.parent is None
    assert facts(worked)["messaging.batch.message_count"] == 3


def test_many_records_share_the_context_of_one_span(bootstrap: str, topic: str, traces: Traces) -> None:
    with Producer(bootstrap, tracing=traces.provider) as producer:
        producer.send_many(topic, (str(number) for number in range(1500))).result(30)
    with Consumer(topic, bootstrap=bootstrap, tracing=False) as consumer:
        headers = {tuple(record.headers) for record in consumer.to_end()}

    span = traces.the(f"send {topic}")
    assert headers == {(("traceparent", traceparent(span)),)}
    assert facts(span)["messaging.batch.message_count"] == 1500


def test_a_record_that_is_passed_on_keeps_its_own_context(bootstrap: str, topic: str, traces: Traces) -> None:
    with Producer(bootstrap, tracing=traces.provider) as producer:
        producer.send(topic, "one", headers={"traceparent": FOREIGN})
    with Consumer(topic, bootstrap=bootstrap, tracing=traces.provider) as consumer:
        (record,) = consumer.to_end()

    sent, worked = traces.the(f"send {topic}"), traces.the(f"process {topic}")
    made_in = (0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331)
    assert record.headers == [("traceparent", FOREIGN.encode())]
    assert (links_of(sent), sent.kind) == ([made_in], SpanKind.CLIENT)
    assert (parent_of(worked), links_of(worked)) == (made_in, [made_in])


def test_a_span_of_the_readers_own_is_linked_and_left_as_it_is(bootstrap: str, topic: str, traces: Traces) -> None:
    send(bootstrap, topic, ["a"], traces)
    tracer = traces.provider.get_tracer("test")
    with Consumer(topic, bootstrap=bootstrap, tracing=traces.provider) as consumer:
        with tracer.start_as_current_span("job") as job:
            assert consumer.poll(20) is not None
        assert consumer.poll(0) is None

    worked = traces.the(f"process {topic}")
    assert parent_of(worked) == id_of(traces.the(f"send {topic}"))
    assert (job.get_span_context().trace_id, job.get_span_context().span_id) in links_of(worked)


def test_what_fails_says_so_in_its_span(bootstrap: str, topic: str, traces: Traces) -> None:
    with Producer(bootstrap, tracing=traces.provider, librdkafka={"message.max.bytes": 1000}) as producer:
        with pytest.raises(DeliveryFailed):
            producer.send(topic, b"x" * 2000)
        producer.send(topic, "fine").result(20)
        with pytest.raises(DeliveryFailed):
            producer.send_many(topic, [b"fine", b"x" * 2000]).result(20)
    consumer = Consumer(topic, bootstrap=bootstrap, tracing=traces.provider)
    with pytest.raises(RuntimeError, match="no"), consumer:
        raise RuntimeError(f"no to {consumer.poll(20)}")

    sent, (worked,) = traces.named(f"send {topic}"), traces.named(f"process {topic}")
    assert [span.status.status_code for span in sent[:2]] == [StatusCode.ERROR, StatusCode.UNSET]
    assert facts(sent[0])["error.type"] == "MSG_SIZE_TOO_LARGE"
    assert worked.status.status_code is StatusCode.ERROR
    assert facts(worked)["error.type"] == "RuntimeError"


def test_a_transaction_is_committed_in_a_span(bootstrap: str, topic: str, traces: Traces) -> None:
    send(bootstrap, topic, ["a"], traces)
    settings: dict[str, Any] = {"bootstrap": bootstrap, "group": topic, "delivery": "exactly_once", "tracing": traces.provider}
    with (
        Producer(bootstrap, transactional_id=topic, tracing=traces.provider) as producer,
        Consumer(topic, **settings) as consumer,
    ):
        assert consumer.poll(20) is not None
        with producer.transaction(consumer) as transaction:
            transaction.send(f"{topic}-out", "x")

    committed, worked = traces.the(f"commit {topic}"), traces.the(f"process {topic}")
    assert parent_of(committed) == parent_of(traces.the(f"send {topic}-out")) == id_of(worked)
    assert facts(committed)["messaging.kafka.offset"] == 1


def test_callbacks_run_in_a_span_until_the_future_they_return_is_done(bootstrap: str, topic: str, traces: Traces) -> None:
    send(bootstrap, topic, ["now", "later", "fails"], traces)
    later: Future[None] = Future()
    seen: list[str] = []

    with Producer(bootstrap, linger=0, tracing=traces.provider) as producer:

        def handle(record: Record[Any, str]) -> Future[None] | None:
            seen.append(record.value)
            producer.send(f"{topic}-out", record.value).result(20)
            if record.value == "fails":
                raise ValueError("bad")
            return later if record.value == "later" else None

        settings: dict[str, Any] = {"bootstrap": bootstrap, "group": topic, "values": str, "tracing": traces.provider}
        with (
            Consumer(topic, **settings) as consumer,
            consumer.on_message(handle, on_error=lambda record, error: None),
        ):
            until(lambda: len(seen) == 3 and len(traces.named(f"process {topic}")) == 2)
            later.set_result(None)
            until(lambda: len(traces.named(f"process {topic}")) == 3)

    worked = {facts(span)["messaging.kafka.offset"]: span for span in traces.named(f"process {topic}")}
    assert worked[2].status.status_code is StatusCode.ERROR
    assert sorted(map(parent_of, traces.named(f"send {topic}-out"))) == sorted(map(id_of, worked.values()))


def test_asyncio_traces_the_same(bootstrap: str, topic: str, traces: Traces) -> None:
    async def main() -> None:
        settings: dict[str, Any] = {"bootstrap": bootstrap, "tracing": traces.provider}
        async with AsyncProducer(bootstrap, tracing=traces.provider) as producer:
            await producer.send(topic, "one")
            async with AsyncConsumer(topic, **settings) as consumer:
                async for record in consumer:
                    await producer.send(f"{topic}-out", record.value)
                    break
            pushed = asyncio.Event()

            async def handle(record: Record[Any, Any]) -> None:
                await producer.send(f"{topic}-end", record.value)
                pushed.set()

            async with AsyncConsumer(f"{topic}-out", group=topic, **settings) as consumer, consumer.on_message(handle):
                await asyncio.wait_for(pushed.wait(), 20)

    asyncio.run(main())
    names = (f"send {topic}", f"process {topic}", f"send {topic}-out", f"process {topic}-out", f"send {topic}-end")
    chain = [traces.the(name) for name in names]
    assert [parent_of(span) for span in chain] == [(0, 0), *map(id_of, chain[:-1])]
    assert traces.named(f"commit {topic}-out")


def test_records_by_priority_are_worked_on_when_they_are_handed_out(bootstrap: str, topic: str, traces: Traces) -> None:
    send(bootstrap, topic, ["a"], traces)
    send(bootstrap, f"{topic}-2", ["b"], traces)
    weights = {topic: 9, f"{topic}-2": 1}
    with PriorityConsumer(weights, bootstrap=bootstrap, group=topic, tracing=traces.provider) as consumer:
        first = consumer.poll(20)
        assert first is not None
        handed_out = trace.get_current_span().get_span_context()
        assert consumer.poll(20) is not None

    worked = [*traces.named(f"process {topic}"), *traces.named(f"process {topic}-2")]
    assert len(worked) == 2
    assert (handed_out.trace_id, handed_out.span_id) in [id_of(span) for span in worked if span.name.endswith(first.topic)]


def test_a_failed_batch_is_still_told_by_close(bootstrap: str, topic: str, traces: Traces) -> None:
    """The span looks at how it ended, which does not count as somebody's looking."""
    with pytest.raises(BatchFailed), Producer("127.0.0.1:1", connect_timeout=0.2, tracing=traces.provider) as producer:
        producer.send_many(topic, ["a"])

    assert traces.the(f"send {topic}").status.status_code is StatusCode.ERROR


def test_spans_arrive_by_otlp(bootstrap: str, topic: str) -> None:
    received: list[ExportTraceServiceRequest] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as collector:
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        provider = TracerProvider(shutdown_on_exit=False)
        endpoint = f"http://127.0.0.1:{collector.server_port}/v1/traces"
        provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint=endpoint, compression=None)))
        with Producer(bootstrap, tracing=provider) as producer:
            producer.send(topic, "one")
        provider.shutdown()
        collector.shutdown()

    (scope,) = received[0].resource_spans[0].scope_spans
    assert (scope.scope.name, [span.name for span in scope.spans]) == ("headrace", [f"send {topic}"])

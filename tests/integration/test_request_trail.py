"""A request can be followed: by its id in the log, from its client to the follower that copies what it wrote; and by spans."""

import json
import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider

from headrace import Producer
from headrace.cli.node.log_lines import HumanLines, JsonLines
from headrace.metrics.log_lines import REQUEST_LOG
from headrace.model.errors import ErrorCode
from headrace.testing import Broker
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.messages.metadata import MetadataRequest
from tests.integration.memory_cluster import MemoryCluster, play
from tests.integration.test_broker_loggers import SET, alter
from tests.support.metrics import AT_ANY_PORT, Watch
from tests.support.raw import RawClient, ask_until_created, batch, produce
from tests.support.waiting import until, until_async

OF_A_BROKER = 4
RATIO = "headrace.trace.sample.ratio"
Lines = Callable[[], list[str]]


@pytest.fixture
def request_lines(caplog: pytest.LogCaptureFixture) -> Iterator[Lines]:
    """Of the log of requests, as far as a test turns it on."""
    logger = logging.getLogger(REQUEST_LOG)
    before = logger.level
    yield lambda: [record.getMessage() for record in caplog.records if record.name == REQUEST_LOG]
    logger.setLevel(before)


def address_of(client: RawClient) -> str:
    return ":".join(map(str, client.socket.getsockname()[:2]))


def test_each_request_is_a_line_while_somebody_wants_it(request_lines: Lines) -> None:
    with Broker() as broker, RawClient(broker.bootstrap) as client:
        ask_until_created(client, "t")
        assert request_lines() == []

        alter(client, (REQUEST_LOG, SET, "DEBUG"))
        client.call(produce("t", batch(b"one", b"two")), 9)
        client.call(produce("missing", batch(b"one"), partition=7), 9)
        wrote, failed = (line for line in request_lines() if line.startswith("Produce"))
        alter(client, (REQUEST_LOG, SET, "INFO"))
        client.call(MetadataRequest(topics=()), 12)

        assert re.match(rf"Produce v9 request {address_of(client)}/\d+ of 'raw' as ANONYMOUS: [\d.]+ ms \(queue [\d.]+, ", wrote)
        assert wrote.endswith("; wrote t-0 from 0")
        assert failed.endswith("; UNKNOWN_TOPIC_OR_PARTITION")
        assert not [line for line in request_lines() if line.startswith("Metadata")]


def test_what_a_client_wrote_is_found_at_the_follower_by_ids(request_lines: Lines) -> None:
    async def story() -> None:
        async with MemoryCluster(2) as cluster:
            await cluster.create_topic("t", 1, 2)
            await cluster.until(lambda: len(cluster.image.topics["t"].partitions[0].isr) == 2)
            leader = cluster.image.topics["t"].partitions[0].leader
            logging.getLogger(REQUEST_LOG).setLevel(logging.DEBUG)
            for broker in cluster.brokers.values():
                broker.trail.adjust()
            # The fetch that waits has begun before, and is not followed.
            await cluster.produce(leader, "t", "before")
            await until_async(lambda: any(line.startswith("wrote t-0 from 0") for line in request_lines()))
            await cluster.produce(leader, "t", "one", "two")
            await until_async(lambda: any(line.startswith("wrote t-0 from 1") for line in request_lines()))

            asked = cluster.client.last_request(leader, "")
            assert any(f"Produce v9 request {asked} of 'test'" in line and "wrote t-0 from 1" in line for line in request_lines())
            told = next(line for line in request_lines() if line.startswith("wrote t-0 from 1"))
            found = re.fullmatch(rf"wrote t-0 from 1 to 2, read from broker {leader} by request (\S+)", told)
            assert found is not None
            served = f"request {found[1]} of 'broker-{3 - leader}'"
            await until_async(lambda: any(served in line and "read t-0 from 1 to 2" in line for line in request_lines()))

    play(story)


def test_a_line_logged_on_the_way_names_the_request() -> None:
    told: list[tuple[str, dict[str, Any]]] = []

    class Both(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.append((HumanLines(coloured=False).format(record), json.loads(JsonLines(1).format(record))))

    handler = Both()
    logger = logging.getLogger("headrace.broker.administration.logger_levels")
    logger.addHandler(handler)
    try:
        with Broker() as broker, RawClient(broker.bootstrap) as client:
            alter(client, ("headrace.broker.cluster", SET, "WARN"))
            logging.getLogger("headrace.broker.cluster").setLevel(logging.NOTSET)
            name = rf"IncrementalAlterConfigs request {address_of(client)}/\d+ of 'raw'"
    finally:
        logger.removeHandler(handler)
    (human, as_json) = told[0]
    assert re.search(rf"is now WARN \[{name}\]$", human)
    assert re.fullmatch(name, as_json["request"])


@contextmanager
def collector() -> Iterator[tuple[str, list[Any]]]:
    """Somebody who takes spans by OTLP: its address, and the spans."""
    spans: list[Any] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
            for resource in request.resource_spans:
                named = {each.key: each.value.string_value for each in resource.resource.attributes}
                spans.extend((named, span) for scope in resource.scope_spans for span in scope.spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1/traces", spans
        server.shutdown()


def facts(span: Any) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


def test_a_broker_exports_spans_of_its_requests_with_links_to_those_of_the_records() -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    with collector() as (address, spans):
        settings = {**AT_ANY_PORT, "headrace.trace.sample.ratio": "1", "headrace.trace.otlp.endpoint": address}
        with Broker(settings=settings) as broker:
            watch = Watch(broker)
            with (
                Producer(broker.bootstrap, client_id="till", tracing=provider, linger=0) as producer,
                provider.get_tracer("test").start_as_current_span("sale") as sale,
            ):
                producer.send("t", "one").result(20)
            assert watch.moved("headrace_trace_spans_total") > 0
            assert watch.now("headrace_trace_spans_dropped_total") == 0
        # They are exported when the broker ends, if not before.
        by_name = {span.name: (named, span) for named, span in spans}

    named, span = by_name["Produce"]
    assert (named["service.name"], named["service.instance.id"]) == ("headrace", "1")
    assert [link.trace_id.hex() for link in span.links] == [f"{sale.get_span_context().trace_id:032x}"]
    assert facts(span)["messaging.client.id"] == "till"
    assert re.fullmatch(r"127\.0\.0\.1:\d+/\d+", facts(span)["headrace.request.id"])
    inside = {each.name for _, each in spans if each.parent_span_id == span.span_id}
    assert "work" in inside <= {"queue", "work", "wait", "send"}


def test_spans_are_a_sample_and_the_ratio_is_set_while_it_runs() -> None:
    with Broker(settings=AT_ANY_PORT) as broker, RawClient(broker.bootstrap) as client:
        watch = Watch(broker)

        def ask(times: int) -> float:
            for _ in range(times):
                client.call(MetadataRequest(topics=()), 12)
            return watch.moved("headrace_trace_spans_total")

        assert ask(20) == 0
        for ratio, spans in (("0.25", 10), ("0", 10)):
            change = AlterableConfig(name=RATIO, config_operation=SET, value=ratio)
            resource = AlterConfigsResource(resource_type=OF_A_BROKER, resource_name="1", configs=(change,))
            (answer,) = client.call(IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False), 1).responses
            assert answer.error_code == ErrorCode.NONE
            until(lambda: broker.run(lambda real: real.trail.is_on) == (ratio != "0"))  # noqa: B023
            assert ask(40) == spans

"""Metrics of requests and of the connections that they come by."""

import socket
import struct

import pytest

from headrace.model.errors import ErrorCode
from headrace.testing import Broker
from headrace.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from headrace.wire.messages.metadata import MetadataRequest
from tests.support.metrics import AT_ANY_PORT, PRODUCE_VERSION, Watch, fetch, write
from tests.support.raw import RawClient, batch, frame, produce
from tests.support.waiting import until


def test_requests_and_their_time(broker: Broker, client: RawClient) -> None:
    watch = Watch(broker)
    for _ in range(5):
        client.call(MetadataRequest(topics=()), 12)

    assert watch.moved("headrace_requests_total", api="Metadata") == 5
    assert watch.moved("headrace_network_received_bytes_total") > 0
    assert watch.moved("headrace_network_sent_bytes_total") > 0
    for phase in ("queue", "work", "wait", "send"):
        named = {"api": "Metadata", "phase": phase}
        assert watch.moved("headrace_request_phase_seconds" + "_count", **named) == 5
        assert watch.moved("headrace_request_phase_seconds" + "_bucket", le="+Inf", **named) == 5
    assert watch.moved("headrace_request_phase_seconds" + "_sum", api="Metadata", phase="work") > 0


def test_a_request_that_waits_is_in_flight_and_its_wait_is_told(broker: Broker, client: RawClient, topic: str) -> None:
    watch = Watch(broker)
    client.send(frame(fetch(topic, max_wait_ms=500), 12))
    until(lambda: watch.moved("headrace_requests_in_flight", api="Fetch") == 1)
    client.receive()

    assert watch.moved("headrace_requests_in_flight", api="Fetch") == 0
    assert watch.moved("headrace_request_phase_seconds_sum", api="Fetch", phase="wait") >= 0.4
    assert watch.moved("headrace_request_phase_seconds_sum", api="Fetch", phase="work") < 0.4


def test_frames_that_arrive_together_wait_for_each_other(broker: Broker, client: RawClient) -> None:
    watch = Watch(broker)
    client.send(frame(MetadataRequest(topics=None), 12) * 20)
    for _ in range(20):
        client.receive()

    assert watch.moved("headrace_requests_total", api="Metadata") == 20
    assert watch.moved("headrace_request_phase_seconds_sum", api="Metadata", phase="queue") > 0


def test_a_request_whose_client_has_gone(broker: Broker, topic: str) -> None:
    watch = Watch(broker)
    with RawClient(broker.bootstrap) as client:
        client.send(frame(fetch(topic, max_wait_ms=30_000), 12))
        until(lambda: watch.moved("headrace_requests_in_flight", api="Fetch") == 1)

    until(lambda: watch.moved("headrace_requests_given_up_total", api="Fetch") == 1)
    assert watch.moved("headrace_requests_in_flight", api="Fetch") == 0


def test_errors_by_api(broker: Broker, client: RawClient) -> None:
    watch = Watch(broker)
    assert write(client, "nowhere", batch(b"one")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    client.call(fetch("nowhere"), 12)
    client.call(fetch("nowhere"), 12)

    error = "UNKNOWN_TOPIC_OR_PARTITION"
    assert watch.moved("headrace_append_failures_total", error=error) == 1
    assert watch.moved("headrace_request_errors_total", api="Produce", error=error) == 1
    assert watch.moved("headrace_request_errors_total", api="Fetch", error=error) == 2
    assert watch.moved("headrace_append_failures_total") == 1


def test_connections_and_those_who_make_them(broker: Broker) -> None:
    watch = Watch(broker)
    named = {"client_id": "somebody", "user": "ANONYMOUS"}
    with RawClient(broker.bootstrap, client_id="somebody") as client:
        client.call(MetadataRequest(topics=()), 12)

        assert watch.moved("headrace_connections", listener="PLAINTEXT") == 1
        assert watch.moved("headrace_connections_opened_total", listener="PLAINTEXT") == 1
        assert watch.now("headrace_client_connections", **named) == 1
        assert watch.now("headrace_client_requests_total", **named) == 1
        received = watch.now("headrace_client_received_bytes_total", **named)
        sent = watch.now("headrace_client_sent_bytes_total", **named)
        assert received > 0
        assert sent > 0
    until(lambda: watch.moved("headrace_connections") == 0)

    assert watch.now("headrace_client_requests_total", **named) == 1
    assert watch.now("headrace_client_received_bytes_total", **named) == received
    assert watch.now("headrace_client_sent_bytes_total", **named) == sent


def test_connections_that_are_not_kept(broker: Broker) -> None:
    watch = Watch(broker)
    with RawClient(broker.bootstrap) as client:
        client.send(struct.pack(">ihhi", 8, 32_000, 0, 1))
        assert client.is_closed_by_broker()

    assert watch.moved("headrace_requests_unreadable_total") == 1
    assert watch.moved("headrace_connections_cut_off_total") == 1


def test_connections_that_are_refused() -> None:
    with Broker(settings={**AT_ANY_PORT, "max.connections": 1}) as broker:
        watch = Watch(broker)
        with RawClient(broker.bootstrap) as first:
            first.call(MetadataRequest(topics=()), 12)
            with socket.create_connection(first.socket.getpeername()) as second:
                assert second.recv(1) == b""

        assert watch.moved("headrace_connections_refused_total") == 1


def test_a_request_that_fails_in_the_broker(broker: Broker, client: RawClient) -> None:
    watch = Watch(broker)
    assert broker.broker is not None
    server = broker.broker.server

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    start, server.start = server.start, fail
    client.send(frame(MetadataRequest(topics=()), 12))
    assert client.is_closed_by_broker()
    server.start = start

    assert watch.moved("headrace_requests_failed_total") == 1


def test_memory_of_connections(broker: Broker, client: RawClient) -> None:
    watch = Watch(broker)
    client.send(frame(produce("t", batch(bytes(100_000))), PRODUCE_VERSION)[:-10])

    until(lambda: watch.moved("headrace_connections_memory_bytes", kind="requests") > 50_000)
    assert broker.broker is not None
    assert watch.now("headrace_connections_memory_limit_bytes") == broker.broker.server.memory.limit


def test_time_for_which_clients_had_to_wait(client: RawClient, topic: str, broker: Broker) -> None:
    watch = Watch(broker)
    entity = EntityData(entity_type="client-id", entity_name="greedy")
    limit = OpData(key="producer_byte_rate", value=1000.0, remove=False)
    client.call(AlterClientQuotasRequest(entries=(EntryData(entity=(entity,), ops=(limit,)),), validate_only=False), 1)
    until(lambda: broker.run(lambda real: real.parts.quotas.active))
    with RawClient(broker.bootstrap, client_id="greedy") as greedy:
        told_ms = greedy.call(produce(topic, batch(bytes(30_000))), PRODUCE_VERSION).throttle_time_ms

    assert told_ms > 0
    assert watch.moved("headrace_throttled_seconds_total", quota="produce") == pytest.approx(told_ms / 1000, abs=0.01)

"""The small client for calls that librdkafka lacks: it finds the right broker, and nothing a broker sends can hang or fool it."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headrace.client.admin.wire_admin import WireAdmin
from headrace.client.broker_connection import BrokerConnection, Endpoint
from headrace.client.errors import BrokerError, BrokerTimeout
from headrace.wire.codec import encode
from headrace.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.describe_cluster import DescribeClusterRequest


@pytest.fixture
def admin(bootstrap: str) -> Iterator[WireAdmin]:
    with WireAdmin(bootstrap) as client:
        yield client


def test_any_broker_the_controller_and_every_broker_can_be_asked(admin: WireAdmin) -> None:
    question = DescribeClusterRequest(include_cluster_authorized_operations=False)

    anyone = admin.call(question)
    controller = admin.call_controller(question)
    everyone = admin.call_every_broker(question)

    assert anyone.error_code == controller.error_code == 0
    assert set(everyone) == set(admin.brokers()) == {broker.broker_id for broker in anyone.brokers}


def test_the_leader_of_a_partition_is_found_and_a_missing_one_is_named(admin: WireAdmin, topic: str) -> None:
    new = CreatableTopic(name=topic, num_partitions=1, replication_factor=1, assignments=(), configs=())
    reply = admin.call_controller(CreateTopicsRequest(topics=(new,), timeout_ms=10_000))

    assert [each.error_code for each in reply.topics] == [0]
    assert admin.leader_of(topic, 0) in admin.brokers()
    with pytest.raises(BrokerError, match=f"{topic} has no partition 5"):
        admin.leader_of(topic, 5)
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        admin.leader_of(f"{topic}-absent", 0)


@pytest.mark.parametrize("kind", ["group", "transaction"])
def test_the_coordinator_of_a_key_is_one_of_the_brokers(admin: WireAdmin, kind: str) -> None:
    assert admin.coordinator_of("some-key", kind) in admin.brokers().values()  # type: ignore[arg-type]


def test_a_broker_that_is_not_up_is_named_with_those_that_are(admin: WireAdmin) -> None:
    with pytest.raises(BrokerTimeout, match="broker 999 is not up; up are"):
        admin.call(DescribeClusterRequest(include_cluster_authorized_operations=False), broker=999)


def test_an_address_where_nobody_listens_is_named() -> None:
    with pytest.raises(BrokerTimeout, match=r"no broker answers at 127\.0\.0\.1:1"):
        WireAdmin("127.0.0.1:1").brokers()


@contextmanager
def answering(*replies: bytes) -> Iterator[Endpoint]:
    """A server that answers each request with the next of these bytes, and then closes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                for reply in replies:
                    if connection.recv(65536):
                        connection.sendall(reply)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield Endpoint("127.0.0.1", server.getsockname()[1])
        thread.join(5)


def frame(body: bytes, correlation_id: int = 1) -> bytes:
    return struct.pack(">ii", len(body) + 4, correlation_id) + body


def versions(*known: tuple[int, int, int]) -> bytes:
    keys = tuple(ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in known)
    return frame(encode(ApiVersionsResponse(error_code=0, api_keys=keys), 0))


@pytest.mark.parametrize(
    "reply",
    [b"", struct.pack(">i", 2**31 - 1), struct.pack(">i", -5), frame(b"\0"), frame(b"\0" * 6, correlation_id=9)],
    ids=["nothing", "two gibibytes", "negative length", "cut short", "another request's"],
)
def test_a_wrong_reply_is_an_error_and_the_connection_is_given_up(reply: bytes) -> None:
    with answering(reply) as endpoint, pytest.raises(BrokerTimeout, match="did not answer API_VERSIONS"):
        BrokerConnection(endpoint, client_id="test", timeout_s=2)


def test_an_api_or_a_version_the_broker_does_not_know_is_said_so() -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=False)

    with answering(versions((3, 0, 9))) as endpoint:
        unknown = BrokerConnection(endpoint, client_id="test", timeout_s=2)
        with pytest.raises(BrokerError, match="does not know DESCRIBE_CLUSTER"):
            unknown.call(request)
        unknown.close()
    with answering(versions((60, 50, 60))) as endpoint:
        too_new = BrokerConnection(endpoint, client_id="test", timeout_s=2)
        with pytest.raises(BrokerError, match="speaks versions 50 to 60"):
            too_new.call(request)
        too_new.close()

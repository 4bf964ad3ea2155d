"""Who did not get in is in the audit trail: the name that was given, the address, the mechanism and the reason."""

import ssl
from pathlib import Path

import pytest

from headrace.broker.sign_in.sign_in import MECHANISM_CHARACTERS_MAX
from headrace.model.access.principals import NAME_CHARACTERS_MAX
from headrace.model.errors import ErrorCode
from headrace.model.names import AUDIT
from headrace.testing import Broker
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from headrace.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.integration.memory_cluster import MemoryCluster, play
from tests.support.audit import await_event, events_in, resources_of
from tests.support.raw import RawClient
from tests.support.users import take_client_ids_for_users


def test_a_sign_in_that_failed_is_recorded_with_the_name_that_was_given() -> None:
    settings = {
        "headrace.audit": "on",
        "sasl.enabled.mechanisms": "PLAIN",
        "headrace.sasl.plain.without.tls": True,
        "connection.failed.authentication.delay.ms": 0,
    }
    with Broker(users={"ann": "right"}, settings=settings) as broker, RawClient(broker.bootstrap) as client:
        client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        refused = client.call(SaslAuthenticateRequest(auth_bytes=b"\0ann\0wrong"), 2)

        event = await_event(broker, lambda event: event["class_uid"] == 3002)

    assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert event["user"]["uid"] == "User:ann"
    assert event["src_endpoint"]["ip"] == "127.0.0.1"
    assert (event["auth_protocol"], event["status_id"]) == ("PLAIN", 2)
    assert event["status_detail"] == "the user or the password is wrong"
    assert "wrong" not in str(event).replace(event["status_detail"], "")


def test_of_a_name_that_is_too_long_for_anybody_no_more_is_kept_than_a_name_may_have() -> None:
    with Broker(users={"ann": "right"}, settings={"headrace.audit": "on"}) as broker:
        for mechanism in ("SCRAM-SHA-256", "x" * 30_000):
            with RawClient(broker.bootstrap) as client:
                if client.call(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == ErrorCode.NONE:
                    client.call(SaslAuthenticateRequest(auth_bytes=b"n,,n=" + b"a" * 5000 + b",r=abc"), 2)
                    client.call(SaslAuthenticateRequest(auth_bytes=b"c=biws,r=abc,p=YWJj"), 2)

        by_scram = await_event(broker, lambda event: event.get("auth_protocol") == "SCRAM-SHA-256")
        by_other = await_event(broker, lambda event: event.get("auth_protocol", "").startswith("xx"))

    assert by_scram["user"]["uid"] == "User:" + "a" * NAME_CHARACTERS_MAX
    assert len(by_other["auth_protocol"]) <= MECHANISM_CHARACTERS_MAX


def test_a_mechanism_that_is_not_offered_is_a_sign_in_that_failed() -> None:
    with Broker(users={"ann": "right"}, settings={"headrace.audit": "on"}) as broker, RawClient(broker.bootstrap) as client:
        client.call(SaslHandshakeRequest(mechanism="GSSAPI"), 1)

        event = await_event(broker, lambda event: event["class_uid"] == 3002)

    assert (event["auth_protocol"], "UNSUPPORTED_SASL_MECHANISM" in event["status_detail"]) == ("GSSAPI", True)


def test_to_ask_which_mechanisms_there_are_is_no_sign_in() -> None:
    with Broker(users={"ann": "right"}, settings={"headrace.audit": "on"}) as broker:
        for mechanism in ("", "GSSAPI"):
            with RawClient(broker.bootstrap) as client:
                reply = client.call(SaslHandshakeRequest(mechanism=mechanism), 1)
                assert reply.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM

        event = await_event(broker, lambda event: event["class_uid"] == 3002)

    assert event["auth_protocol"] == "GSSAPI"


def test_one_who_shows_no_certificate_that_is_trusted_is_recorded(tmp_path: Path) -> None:
    settings = {"headrace.audit": "on", "ssl.client.auth": "required", "ssl.enabled.protocols": "TLSv1.2"}
    with Broker(tls=True, settings=settings) as broker:
        context = ssl.create_default_context(cafile=broker.client_config()["ssl.ca.location"])
        with RawClient(broker.bootstrap) as client, pytest.raises((ssl.SSLError, OSError)):
            context.wrap_socket(client.socket, server_hostname="localhost")

        event = await_event(broker, lambda event: event["class_uid"] == 3002)

    assert (event["auth_protocol"], event["src_endpoint"]["ip"]) == ("TLS", "127.0.0.1")
    assert event["status_detail"] == "peer did not return a certificate"
    assert event["unmapped"]["listener"] == "SSL"


def test_brokers_write_the_trail_where_there_are_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever of them leads it, and whichever carries out the act."""
    take_client_ids_for_users(monkeypatch)
    settings = {"authorizer": "acl", "super.users": "User:test;User:broker-1;User:broker-2"}

    async def story() -> None:
        async with MemoryCluster(2, settings) as cluster:
            for broker_id in (1, 2):
                topic = CreatableTopic(name=f"t{broker_id}", num_partitions=1, replication_factor=1, assignments=(), configs=())
                reply = await cluster.call(broker_id, CreateTopicsRequest(topics=(topic,), timeout_ms=5000), 7)
                assert reply.topics[0].error_code == ErrorCode.NONE
            leader = cluster.image.topics[AUDIT].partitions[0].leader

            assert [resources_of(event) for event in events_in(cluster.brokers[leader])] == [["TOPIC t1"], ["TOPIC t2"]]

    play(story)

"""SASL listeners: who gets in by which mechanism, who does not, and what a failure costs."""

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka import KafkaConsumer

from headrace.broker.app import Broker as RealBroker
from headrace.broker.cluster.peers import PeerUnreachable
from headrace.broker.sign_in import credentials, sign_in
from headrace.broker.sign_in.peer import PeerSignIn
from headrace.controller.access.entries import encode_credential, scram_key
from headrace.controller.entries import Put
from headrace.model.access.scram import ScramCredential, credential_of, password_matches, salted_password
from headrace.model.access.scram import ScramMechanism as Mechanism
from headrace.model.broker_settings import BrokerConfig
from headrace.model.errors import ErrorCode
from headrace.model.settings import SettingError
from headrace.testing import Broker
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.metadata import MetadataRequest
from headrace.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from headrace.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.integration.memory_cluster import MemoryCluster, play
from tests.support.certificates import Authority
from tests.support.issuer import AUDIENCE, ISSUER, Issuer
from tests.support.raw import RawClient, frame
from tests.support.sasl import handshake, say, scram
from tests.support.waiting import until

APIS = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
ALL = MetadataRequest(topics=())


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("sasl"))


@pytest.fixture(scope="module")
def issuer(authority: Authority) -> Issuer:
    return Issuer(authority.folder)


def settings_of(authority: Authority, issuer: Issuer) -> dict[str, object]:
    return {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
        "ssl.keystore.location": str(authority.of_broker()),
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{issuer.file}",
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "headrace.sasl.oauthbearer.groups.claim.name": "groups",
        "connection.failed.authentication.delay.ms": 1,
    }


def add_user(broker: Broker, name: str, password: str, listener: str = "PLAINTEXT") -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstraps[listener]})
    alterations = [
        UserScramCredentialUpsertion(name, ScramCredentialInfo(mechanism, 4096), password.encode())
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
    ]
    for future in admin.alter_user_scram_credentials(alterations).values():
        future.result(20)


@pytest.fixture(scope="module")
def broker(authority: Authority, issuer: Issuer) -> Iterator[Broker]:
    with Broker(settings=settings_of(authority, issuer)) as running:
        add_user(running, "ann", "secret")
        yield running


def principals(broker: Broker) -> set[str]:
    return broker.run(lambda real: {str(each.principal) for each in real.server.connections})


def librdkafka(broker: Broker, authority: Authority, mechanism: str, listener: str, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstraps[listener],
        "security.protocol": listener,
        "ssl.ca.location": str(authority.file),
        "sasl.mechanism": mechanism,
        "sasl.username": "ann",
        "sasl.password": "secret",
        **more,
    }


@pytest.mark.parametrize(
    ("mechanism", "listener"),
    [
        ("SCRAM-SHA-256", "SASL_PLAINTEXT"),
        ("SCRAM-SHA-512", "SASL_PLAINTEXT"),
        ("SCRAM-SHA-512", "SASL_SSL"),
        ("PLAIN", "SASL_SSL"),
    ],
)
def test_librdkafka_signs_in_and_is_known(broker: Broker, authority: Authority, mechanism: str, listener: str) -> None:
    producer = Producer(librdkafka(broker, authority, mechanism, listener))
    producer.produce("signed-in", b"one")

    assert producer.flush(20) == 0
    assert "User:ann" in principals(broker)


def test_librdkafka_signs_in_with_a_token(broker: Broker, authority: Authority, issuer: Issuer) -> None:
    config = librdkafka(broker, authority, "OAUTHBEARER", "SASL_PLAINTEXT")
    del config["sasl.username"], config["sasl.password"]
    token = issuer.token(groups=["admins"], sub="bob")
    producer = Producer({**config, "oauth_cb": lambda _: (token, time.time() + 3000)})
    producer.produce("signed-in", b"one")

    assert producer.flush(20) == 0
    assert "User:bob" in principals(broker)
    groups = broker.run(lambda real: [str(group) for each in real.server.connections for group in each.subject.groups])
    assert "Group:admins" in groups


@pytest.mark.usefixtures("foreign_garbage")
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"])
def test_kafka_python_signs_in(broker: Broker, authority: Authority, mechanism: str) -> None:
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstraps["SASL_SSL"],
        security_protocol="SASL_SSL",
        ssl_cafile=str(authority.file),
        sasl_mechanism=mechanism,
        sasl_plain_username="ann",
        sasl_plain_password="secret",
    )
    try:
        assert consumer.topics() is not None
    finally:
        consumer.close()


@pytest.mark.usefixtures("foreign_garbage")
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_aiokafka_signs_in(broker: Broker, mechanism: str) -> None:
    async def ask() -> Any:
        client = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=broker.bootstraps["SASL_PLAINTEXT"],
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username="ann",
            sasl_plain_password="secret",
        )
        await client.start()
        try:
            return await client.topics()
        finally:
            await client.stop()

    assert asyncio.run(ask()) is not None


# -- those who do not get in


@pytest.fixture
def client(broker: Broker) -> Iterator[RawClient]:
    with RawClient(broker.bootstraps["SASL_PLAINTEXT"]) as connected:
        yield connected


def test_who_signs_in_is_answered_and_before_it_nothing_else_is(client: RawClient) -> None:
    assert client.call(APIS, 3).error_code == 0
    reply, _ = scram(client, "ann", "secret")

    assert reply.error_code == 0
    assert client.call(ALL, 12).brokers


def test_a_request_before_signing_in_ends_the_connection(client: RawClient) -> None:
    client.send(frame(ALL, 12))

    assert client.is_closed_by_broker()


def test_many_requests_before_signing_in_are_one_line_that_names_the_api(caplog: pytest.LogCaptureFixture) -> None:
    with Broker(users={"ann": "secret"}) as broker:
        for _ in range(5):
            with RawClient(broker.bootstrap) as client:
                client.send(frame(ALL, 12))
                assert client.is_closed_by_broker()

    told = [each for each in caplog.messages if "sign-in" in each]
    assert told == ["closed the connection from 127.0.0.1: Metadata was asked before sign-in"]


def test_a_request_amid_signing_in_ends_the_connection(client: RawClient) -> None:
    handshake(client, "SCRAM-SHA-256")
    say(client, b"n,,n=ann,r=abcdefgh")
    client.send(frame(ALL, 12))

    assert client.is_closed_by_broker()


@pytest.mark.parametrize("more", [APIS, SaslAuthenticateRequest(auth_bytes=b"\0ann\0secret")])
def test_whoever_sends_more_before_a_token_is_answered_is_cut_off(broker: Broker, authority: Authority, more: Any) -> None:
    with RawClient(broker.bootstraps["SASL_SSL"]) as client:
        client.socket = authority.context().wrap_socket(client.socket, server_hostname="localhost")
        handshake(client, "PLAIN")
        client.send(frame(SaslAuthenticateRequest(auth_bytes=b"\0ann\0secret"), 2) + frame(more, 2))

        assert client.is_closed_by_broker()


def test_passwords_are_checked_beside_the_loop(broker: Broker, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []

    def matches(mechanism: Mechanism, credential: ScramCredential, password: str) -> bool:
        threads.append(threading.current_thread().name)
        return password_matches(mechanism, credential, password)

    monkeypatch.setattr(credentials, "password_matches", matches)
    with RawClient(broker.bootstraps["SASL_SSL"]) as client:
        client.socket = authority.context().wrap_socket(client.socket, server_hostname="localhost")
        handshake(client, "PLAIN")

        assert say(client, b"\0ann\0secret").error_code == ErrorCode.NONE

    # More than once where a client of an earlier test is still trying.
    assert {name.partition("_")[0] for name in threads} == {"sign-in"}


@pytest.mark.parametrize(("name", "password"), [("ann", "hunter2"), ("nobody", "hunter2")])
def test_a_wrong_name_and_a_wrong_password_are_told_alike_and_end_the_connection(
    client: RawClient, caplog: pytest.LogCaptureFixture, name: str, password: str
) -> None:
    reply, _ = scram(client, name, password)

    assert reply.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "invalid credentials with SASL mechanism SCRAM-SHA-256" in reply.error_message
    assert client.is_closed_by_broker()
    assert "a sign-in from 127.0.0.1 by SCRAM-SHA-256 failed (" in caplog.text
    assert password not in caplog.text


def test_what_was_said_once_is_of_no_use_a_second_time(broker: Broker, client: RawClient) -> None:
    _, final = scram(client, "ann", "secret")
    with RawClient(broker.bootstraps["SASL_PLAINTEXT"]) as other:
        handshake(other, "SCRAM-SHA-256")
        say(other, b"n,,n=ann,r=abcdefgh")

        assert say(other, final).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_mechanism_that_is_not_offered_is_refused_and_the_others_are_named(client: RawClient) -> None:
    reply = handshake(client, "PLAIN")

    assert reply.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert set(reply.mechanisms) == {"SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"}
    assert client.is_closed_by_broker()


def test_a_message_before_the_handshake_is_out_of_order(client: RawClient) -> None:
    assert say(client, b"n,,n=ann,r=abcdefgh").error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.is_closed_by_broker()


def test_signing_in_where_nobody_is_asked_is_out_of_order(broker: Broker) -> None:
    with RawClient(broker.bootstraps["PLAINTEXT"]) as client:
        assert handshake(client, "SCRAM-SHA-256").error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert say(client, b"").error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert client.call(ALL, 12).brokers


def test_a_first_message_cut_off_anywhere_lets_nobody_in(broker: Broker) -> None:
    whole = b"n,,n=ann,r=abcdefgh"
    for length in range(len(whole) - 1):
        with RawClient(broker.bootstraps["SASL_PLAINTEXT"]) as client:
            handshake(client, "SCRAM-SHA-256")
            say(client, whole[:length])
            client.send(frame(ALL, 12))
            assert client.is_closed_by_broker(), length


def test_a_request_cut_off_anywhere_lets_nobody_in_and_the_broker_goes_on(broker: Broker) -> None:
    whole = frame(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
    for length in range(len(whole)):
        with RawClient(broker.bootstraps["SASL_PLAINTEXT"]) as client:
            client.send(whole[:length])
    with RawClient(broker.bootstraps["SASL_PLAINTEXT"]) as client:
        assert scram(client, "ann", "secret")[0].error_code == 0


@pytest.mark.parametrize("claims", [{"iss": "https://other.example"}, {"aud": "others"}, {"exp": 1}, {"sub": "a\nb"}])
def test_a_token_that_is_not_for_us_lets_nobody_in(client: RawClient, issuer: Issuer, claims: dict[str, Any]) -> None:
    handshake(client, "OAUTHBEARER")
    told = say(client, f"n,,\x01auth=Bearer {issuer.token(**claims)}\x01\x01".encode())

    assert b"invalid_token" in told.auth_bytes
    assert say(client, b"\x01").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.is_closed_by_broker()


@pytest.mark.parametrize("hangs_up", [True, False])
def test_a_token_that_is_refused_counts_once_also_when_its_owner_hangs_up(broker: Broker, issuer: Issuer, hangs_up: bool) -> None:
    def failures(real: RealBroker) -> int:
        assert real.sign_ins is not None
        return real.sign_ins.failures.recent("127.0.0.1", real.loop.time())

    before = broker.run(failures)
    with RawClient(broker.bootstraps["SASL_PLAINTEXT"]) as client:
        handshake(client, "OAUTHBEARER")
        assert say(client, f"n,,\x01auth=Bearer {issuer.token(aud='others')}\x01\x01".encode()).auth_bytes
        if not hangs_up:
            assert say(client, b"\x01").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED

    assert broker.run(failures) == before + 1


def test_a_user_that_is_removed_does_not_get_in_any_more(broker: Broker, authority: Authority) -> None:
    add_user(broker, "leaver", "secret")
    admin = AdminClient({"bootstrap.servers": broker.bootstraps["PLAINTEXT"]})
    described = admin.describe_user_scram_credentials(["leaver"])["leaver"].result(20)
    assert [(info.mechanism.value, info.iterations) for info in described.scram_credential_infos] == [(1, 4096), (2, 4096)]
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        admin.alter_user_scram_credentials([UserScramCredentialDeletion("leaver", mechanism)])["leaver"].result(20)

    with RawClient(broker.bootstraps["SASL_PLAINTEXT"]) as client:
        assert scram(client, "leaver", "secret")[0].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    with pytest.raises(KafkaException, match="no SCRAM credentials"):
        admin.describe_user_scram_credentials(["leaver"])["leaver"].result(20)


# -- settings


def test_what_is_read_of_strangers_is_limited_as_is_set(authority: Authority, issuer: Issuer) -> None:
    given = {**settings_of(authority, issuer), "sasl.server.max.receive.size": 1000}
    with Broker(settings=given) as broker:
        add_user(broker, "ann", "secret")
        with RawClient(broker.bootstraps["SASL_PLAINTEXT"]) as client:
            client.send((1001).to_bytes(4, "big"))
            assert client.is_closed_by_broker()
        with RawClient(broker.bootstraps["SASL_PLAINTEXT"]) as client:
            scram(client, "ann", "secret")
            assert client.call(ApiVersionsRequest(client_software_name="x" * 2000, client_software_version="1"), 3)


def test_who_does_not_sign_in_again_in_time_is_cut_off(authority: Authority, issuer: Issuer) -> None:
    with Broker(settings={**settings_of(authority, issuer), "connections.max.reauth.ms": 60_000}) as broker:
        add_user(broker, "ann", "secret")
        clients = [RawClient(broker.bootstraps["SASL_PLAINTEXT"]) for _ in range(2)]
        for client in clients:
            assert scram(client, "ann", "secret")[0].session_lifetime_ms == 60_000
        broker.clock.advance(50)
        assert scram(clients[0], "ann", "secret")[0].error_code == 0
        broker.clock.advance(50)

        assert clients[0].call(ALL, 12).brokers
        clients[1].send(frame(ALL, 12))
        assert clients[1].is_closed_by_broker()


def test_a_failed_sign_in_costs_the_time_that_is_set(authority: Authority, issuer: Issuer) -> None:
    given = {**settings_of(authority, issuer), "connection.failed.authentication.delay.ms": 300}
    with Broker(settings=given) as broker, RawClient(broker.bootstraps["SASL_PLAINTEXT"]) as client:
        began = time.monotonic()
        scram(client, "ann", "wrong")

        assert time.monotonic() - began >= 0.3


def test_where_many_failed_everybody_waits_a_moment_and_nobody_is_locked_out(authority: Authority, issuer: Issuer) -> None:
    given = {**settings_of(authority, issuer), "connection.failed.authentication.delay.ms": 5}
    with Broker(settings=given) as broker:
        add_user(broker, "ann", "secret")

        def fail(real: RealBroker) -> None:
            assert real.sign_ins is not None
            for _ in range(12):
                real.sign_ins.failures.on_failure("127.0.0.1", real.loop.time())

        broker.run(fail)
        took = []
        for _ in range(2):
            with RawClient(broker.bootstraps["SASL_PLAINTEXT"]) as client:
                began = time.monotonic()
                assert scram(client, "ann", "secret")[0].error_code == 0
                took.append(time.monotonic() - began)

        assert took[1] >= 0.3, "the turn of the first lasts 0.64 s"


def test_plain_without_tls_is_for_those_who_ask_for_it(
    authority: Authority, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    given = {**settings_of(authority, issuer), "sasl.enabled.mechanisms": "PLAIN"}
    with pytest.raises(SettingError, match="nobody could sign in at SASL_PLAINTEXT"):
        Broker(settings=given).start()
    with Broker(settings={**given, "headrace.sasl.plain.without.tls": True}) as broker:
        add_user(broker, "ann", "secret")
        with RawClient(broker.bootstraps["SASL_PLAINTEXT"]) as client:
            handshake(client, "PLAIN")
            assert say(client, b"\0ann\0secret").error_code == 0
        with RawClient(broker.bootstraps["SASL_PLAINTEXT"]) as client:
            handshake(client, "PLAIN")
            assert say(client, b"\0ann\0wrong").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "can read the passwords" in caplog.text


def test_tokens_are_read_as_is_set_and_keys_fetched_as_often(authority: Authority, tmp_path: Path) -> None:
    issuer = Issuer(tmp_path)
    given = {
        **settings_of(authority, issuer),
        "sasl.oauthbearer.sub.claim.name": "name",
        "sasl.oauthbearer.clock.skew.seconds": 3600,
        "sasl.oauthbearer.jwks.endpoint.refresh.ms": 100,
    }
    issuer.file.rename(tmp_path / "later.json")
    with Broker(settings=given) as broker:

        def signs_in(token: str) -> bool:
            with RawClient(broker.bootstraps["SASL_PLAINTEXT"]) as client:
                handshake(client, "OAUTHBEARER")
                reply = say(client, f"n,,\x01auth=Bearer {token}\x01\x01".encode())
                return bool(reply.error_code == 0 and not reply.auth_bytes)

        token = issuer.token(name="ann", sub=7, iat=time.time() + 600)
        assert not signs_in(token)
        (tmp_path / "later.json").rename(issuer.file)
        until(lambda: signs_in(token), "the keys are fetched")


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("sasl.oauthbearer.jwks.endpoint.url", "http://issuer.example/keys", "write https://"),
        ("sasl.oauthbearer.jwks.endpoint.url", None, "OAUTHBEARER needs sasl.oauthbearer.jwks.endpoint.url"),
        ("sasl.oauthbearer.expected.issuer", None, "OAUTHBEARER needs sasl.oauthbearer.expected.issuer"),
        ("sasl.oauthbearer.expected.audience", None, "OAUTHBEARER needs sasl.oauthbearer.expected.audience"),
    ],
)
def test_tokens_that_could_not_be_checked_are_not_offered(
    authority: Authority, issuer: Issuer, name: str, value: str | None, complaint: str
) -> None:
    given = {**settings_of(authority, issuer), name: value}

    with pytest.raises(SettingError, match=complaint):
        Broker(settings={name: value for name, value in given.items() if value is not None}).start()


def test_who_does_not_sign_in_for_a_minute_is_sent_away(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign_in, "SECONDS_MAX", 0.0)
    with RawClient(broker.bootstraps["SASL_PLAINTEXT"]) as client:
        client.call(APIS, 3)
        broker.run(lambda real: real.server._sweep())

        assert client.is_closed_by_broker()


def stored_user(name: str, password: str) -> Put:
    """What is kept for a user, as it is kept."""
    salt = b"0123456789abcdef"
    salted = salted_password(Mechanism.SHA_256, password, salt, 4096)
    return Put(scram_key(name, Mechanism.SHA_256), encode_credential(credential_of(Mechanism.SHA_256, salted, salt, 4096)))


@pytest.mark.parametrize("password", ["right", "wrong"])
def test_brokers_sign_in_at_each_other(tmp_path: Path, password: str) -> None:
    (tmp_path / "password").write_text(f"{password}\nand what else somebody wrote there\n")
    (tmp_path / "password").chmod(0o600)
    given = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
        "headrace.sasl.inter.broker.user": "a=broker,",
        "headrace.sasl.inter.broker.password.file": str(tmp_path / "password"),
    }

    async def call() -> None:
        cluster = MemoryCluster(2, settings=given)
        await cluster.store.transact([], [stored_user("a=broker,", "right")])
        async with cluster:
            asking = cluster.brokers[1].parts.peers.call(2, ALL, 12, timeout=10)
            if password == "right":
                assert (await asking).brokers
            else:
                with pytest.raises(PeerUnreachable, match="invalid credentials"):
                    await asking

    play(call)


def test_a_password_of_a_broker_that_others_may_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("right\n")
    file.chmod(0o644)
    given = {"headrace.sasl.inter.broker.user": "broker", "headrace.sasl.inter.broker.password.file": str(file)}

    with pytest.raises(SettingError, match=f"password.file {file} holds a secret, and others may read it; run: chmod 600"):
        PeerSignIn(BrokerConfig(given))

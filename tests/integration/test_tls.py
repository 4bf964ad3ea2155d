"""TLS listeners: who gets in, who does not, and what changes without a restart."""

import asyncio
import gc
import shutil
import socket
import ssl
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from cryptography.hazmat.primitives import serialization
from typer.testing import CliRunner

from headrace.broker.tls import listening, tls
from headrace.cli.main import app
from headrace.model.settings import SettingError
from headrace.testing import Broker
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.metadata import MetadataRequest
from tests.integration.memory_cluster import MemoryCluster, play
from tests.support.certificates import Authority
from tests.support.raw import RawClient, frame
from tests.support.waiting import until

APIS = ApiVersionsRequest(client_software_name="raw", client_software_version="1")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


def settings_of(authority: Authority) -> dict[str, str]:
    return {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.keystore.location": str(authority.of_broker()),
        "ssl.truststore.location": str(authority.file),
    }


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Iterator[Broker]:
    given = {"ssl.client.auth": "requested", "ssl.principal.mapping.rules": "RULE:^CN=([a-z]+),.*$/$1/U"}
    with Broker(settings={**settings_of(authority), **given}) as running:
        yield running


class TlsClient(RawClient):
    """The same by TLS."""

    def __init__(self, bootstrap: str, context: ssl.SSLContext, timeout: float = 10.0) -> None:
        super().__init__(bootstrap, timeout)
        self.socket = context.wrap_socket(self.socket, server_hostname="localhost")


def librdkafka(bootstrap: str, authority: Authority, client: Path | None = None) -> dict[str, Any]:
    config: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": str(authority.file),
    }
    if client is not None:
        config |= {"ssl.certificate.location": str(client), "ssl.key.location": str(client)}
    return config


def principals(broker: Broker) -> set[str]:
    return broker.run(lambda real: {str(each.principal) for each in real.server.connections})


def test_large_records_come_back_by_tls_as_they_were_sent(broker: Broker, authority: Authority, topic: str) -> None:
    config = librdkafka(broker.bootstraps["SSL"], authority)
    values = [bytes([number]) * 900_000 for number in range(10)]
    producer = Producer(config)
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(20) == 0
    consumer = Consumer({**config, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes | None] = []
    until(lambda: found.extend(message.value() for message in consumer.consume(10, 0.1)) or len(found) >= 10, "all are read")
    consumer.close()

    assert found == values


def test_a_certificates_name_becomes_a_principal_by_the_rules(broker: Broker, authority: Authority) -> None:
    client = authority.of_client("ann")
    with TlsClient(broker.bootstraps["SSL"], authority.context(client)) as connected:
        connected.call(APIS, 3)

        assert "User:ANN" in principals(broker)


def test_who_shows_no_certificate_where_it_is_requested_is_anonymous(broker: Broker, authority: Authority) -> None:
    with TlsClient(broker.bootstraps["SSL"], authority.context()) as connected:
        connected.call(APIS, 3)

        assert "User:ANONYMOUS" in principals(broker)


def test_a_certificate_that_no_rule_takes_is_nobodys(broker: Broker, authority: Authority) -> None:
    with TlsClient(broker.bootstraps["SSL"], authority.context(authority.of_client("UNKNOWN 1"))) as connected:
        assert connected.is_closed_by_broker()


def is_refused(bootstrap: str, context: ssl.SSLContext) -> bool:
    """With TLS 1.3 a client hears of it when it reads."""
    try:
        with TlsClient(bootstrap, context) as client:
            client.call(APIS, 3)
    except (ssl.SSLError, ConnectionError):
        return True
    return False


def test_certificates_of_another_authority_or_out_of_date_are_refused(
    broker: Broker, authority: Authority, tmp_path: Path
) -> None:
    bootstrap = broker.bootstraps["SSL"]
    strangers = Authority(tmp_path, "strangers")
    expired = authority.of_client("ann", "expired", not_after=datetime.now(UTC) - timedelta(days=1))
    foreign = authority.context(strangers.of_client("ann", "foreign"))

    assert is_refused(bootstrap, foreign)
    assert is_refused(bootstrap, authority.context(expired))
    assert is_refused(bootstrap, strangers.context())
    assert not is_refused(bootstrap, authority.context(authority.of_client("ann")))


def test_plain_text_on_a_tls_port_and_tls_on_a_plain_port_end_the_connection(broker: Broker, authority: Authority) -> None:
    with RawClient(broker.bootstraps["SSL"]) as plain:
        plain.send(frame(MetadataRequest(topics=()), 12))
        assert plain.is_closed_by_broker()
    with pytest.raises((ssl.SSLError, ConnectionError)):
        TlsClient(broker.bootstraps["PLAINTEXT"], authority.context())


def test_old_versions_of_tls_are_refused_and_the_versions_are_those_that_are_set(authority: Authority) -> None:
    with Broker(settings={**settings_of(authority), "ssl.enabled.protocols": "TLSv1.3"}) as broker:
        older = authority.context()
        older.maximum_version = ssl.TLSVersion.TLSv1_2

        assert is_refused(broker.bootstraps["SSL"], older)
        assert not is_refused(broker.bootstraps["SSL"], authority.context())


def test_a_certificate_is_demanded_where_it_is_required(authority: Authority) -> None:
    given = {**settings_of(authority), "ssl.client.auth": "required", "ssl.principal.mapping.rules": "DEFAULT"}
    with Broker(settings=given) as broker:
        client = authority.of_client("ann")

        assert is_refused(broker.bootstraps["SSL"], authority.context())
        with TlsClient(broker.bootstraps["SSL"], authority.context(client)) as connected:
            connected.call(APIS, 3)
            assert any(name.startswith("User:CN=ann,OU=") for name in principals(broker))


def serial_of(bootstrap: str, context: ssl.SSLContext) -> Any:
    with TlsClient(bootstrap, context) as client:
        assert isinstance(client.socket, ssl.SSLSocket)
        return (client.socket.getpeercert() or {})["serialNumber"]


def test_new_certificates_are_taken_up_while_connections_go_on_and_broken_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tls, "LOOK_SECONDS", 0.02)
    authority = Authority(tmp_path)
    given = {**settings_of(authority), "ssl.client.auth": "required"}
    with Broker(settings=given) as broker:
        bootstrap, ann = broker.bootstraps["SSL"], authority.of_client("ann")
        context = authority.context(ann)
        before = serial_of(bootstrap, context)
        with TlsClient(bootstrap, context) as kept:
            (tmp_path / "broker.pem").write_text("not a certificate")
            until(lambda: "the old ones stay" in caplog.text, "the broken file is told of")
            assert serial_of(bootstrap, context) == before

            authority.of_broker()
            until(lambda: serial_of(bootstrap, context) != before, "the new certificate is shown")

            others = Authority(tmp_path, "others")
            shutil.copy(others.file, authority.file)
            until(lambda: is_refused(bootstrap, context), "who was signed by the authority that went is refused")
            assert kept.call(APIS, 3).error_code == 0


def test_a_new_key_that_everybody_may_read_is_taken_up_once_they_may_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tls, "LOOK_SECONDS", 0.02)
    authority = Authority(tmp_path)
    given, context = settings_of(authority), authority.context()
    keystore, new = Path(given["ssl.keystore.location"]), authority.of_broker("new")
    new.chmod(0o644)
    with Broker(settings=given) as broker:
        before = serial_of(broker.bootstraps["SSL"], context)
        new.rename(keystore)
        until(lambda: f"run: chmod 640 {keystore}" in caplog.text, "it is told what to do")
        keystore.chmod(0o640)

        until(lambda: serial_of(broker.bootstraps["SSL"], context) != before, "it is taken up")


def test_a_certificate_about_to_expire_is_warned_about(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    soon = authority.of_broker("soon", not_after=datetime.now(UTC) + timedelta(days=3))
    with Broker(settings={**settings_of(authority), "ssl.keystore.location": str(soon)}) as broker:
        condition = broker.run(lambda real: real.condition())

        assert condition.ready
        assert "the TLS certificate of SSL expires at" in str(condition.reasons)
        until(lambda: "the TLS certificate of SSL expires at" in caplog.text, "the log says so")
        shown = CliRunner().invoke(
            app, ["cluster", "status", "--bootstrap", broker.bootstraps["PLAINTEXT"]], env={"COLUMNS": "200"}
        )
        assert "the TLS certificate of SSL expires at" in " ".join(shown.output.split())
        # Once a day, and not each time that somebody looks.
        broker.run(lambda real: [real.tls._warn_of_expiry() for _ in range(3)] if real.tls else None)
        assert caplog.text.count("the TLS certificate of SSL expires at") == 1


def idle_at(bootstrap: str, address: str) -> socket.socket:
    """Somebody who connects from an address of its own, and says nothing."""
    host, port = bootstrap.split(":")
    return socket.create_connection((host, int(port)), source_address=(address, 0))


def test_too_many_handshakes_wait_outside_and_are_let_in_when_the_others_have_gone(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    with Broker(settings=settings_of(authority)) as broker:
        broker.run(lambda real: setattr(real.tls.handshakes, "_most", 3) if real.tls else None)
        idle = [idle_at(broker.bootstraps["SSL"], f"127.0.0.{number}") for number in (2, 3, 4)]
        until(lambda: broker.run(lambda real: real.tls.handshakes.are_too_many if real.tls else None), "the bound is reached")
        waiting = RawClient(broker.bootstraps["SSL"], timeout=5)
        for each in idle:
            each.close()

        waiting.socket = authority.context().wrap_socket(waiting.socket, server_hostname="localhost")
        assert waiting.call(APIS, 3).error_code == 0
        until(lambda: "handshakes failed, the last one from 127.0.0." in caplog.text, "they are counted")


def test_a_handshake_that_fails_is_told_with_its_address_and_the_reason(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    with Broker(settings=settings_of(authority)) as broker:
        with RawClient(broker.bootstraps["SSL"]) as client:
            client.send(b"GET / HTTP/1.1\r\n\r\n")
            assert client.is_closed_by_broker()
        until(lambda: "1 TLS handshake failed, the last one from 127.0.0.1 at SSL: http request" in caplog.text, "it is told")


def test_one_address_takes_half_of_the_places_for_handshakes_and_others_get_in(authority: Authority) -> None:
    with Broker(settings=settings_of(authority)) as broker:
        broker.run(lambda real: setattr(real.tls.handshakes, "_most", 6) if real.tls else None)
        idle = [idle_at(broker.bootstraps["SSL"], "127.0.0.2") for _ in range(6)]
        turned_away = until(
            lambda: broker.run(lambda real: real.tls.handshakes.turned_away if real.tls else 0) >= 3, "those beyond it are told"
        )

        assert turned_away
        assert sum(each.recv(1) == b"" for each in idle[3:]) == 3
        with TlsClient(broker.bootstraps["SSL"], authority.context()) as other:
            assert other.call(APIS, 3).error_code == 0
        for each in idle:
            each.close()


def test_a_handshake_has_a_time_limit(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "HANDSHAKE_SECONDS_MAX", 0.1)
    with Broker(settings=settings_of(authority)) as broker, RawClient(broker.bootstraps["SSL"]) as silent:
        assert silent.is_closed_by_broker()


def test_who_waits_for_others_of_its_address_has_a_time_limit_too(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "AT_ONCE_PER_ADDRESS", 1)
    with Broker(settings=settings_of(authority)) as broker:
        first = idle_at(broker.bootstraps["SSL"], "127.0.0.2")
        until(lambda: broker.run(lambda real: real.tls.handshakes.under_way if real.tls else 0) == 1, "it has begun")
        monkeypatch.setattr(listening, "HANDSHAKE_SECONDS_MAX", 0.1)
        second = idle_at(broker.bootstraps["SSL"], "127.0.0.2")
        second.settimeout(8)

        assert second.recv(1) == b"", "it is let go although the one before it is still there"
        assert broker.run(lambda real: real.tls.handshakes.under_way if real.tls else 0) == 1
        first.close()
        second.close()


def of_tls() -> Counter[str]:
    """What connections by TLS are made of, of ours and of uvloop's."""
    gc.collect()
    names = ("SecureConnection", "SlicedTransport", "SSLProtocol")
    return Counter(type(each).__name__ for each in gc.get_objects() if type(each).__name__ in names)


def test_connections_that_have_gone_leave_nothing_behind(authority: Authority) -> None:
    with Broker(settings=settings_of(authority)) as broker:
        before = of_tls()
        for _ in range(3):
            with ExitStack() as stack:
                for _ in range(10):
                    client = stack.enter_context(RawClient(broker.bootstraps["SSL"]))
                    client.socket = authority.context().wrap_socket(client.socket, server_hostname="localhost")
                    client.call(APIS, 3)
                assert of_tls()["SecureConnection"] >= before["SecureConnection"] + 10

        until(lambda: of_tls() == before, "all of them are gone")


def test_an_encrypted_key_needs_its_password(authority: Authority, tmp_path: Path) -> None:
    whole = authority.of_broker("plain").read_bytes()
    key = serialization.load_pem_private_key(whole, None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"secret")
    )
    path = tmp_path / "encrypted.pem"
    path.write_bytes(encrypted + whole[whole.index(b"-----BEGIN CERTIFICATE") :])
    path.chmod(0o600)
    given = {**settings_of(authority), "ssl.keystore.location": str(path)}

    with Broker(settings={**given, "ssl.key.password": "secret"}) as broker:
        assert not is_refused(broker.bootstraps["SSL"], authority.context())
    with pytest.raises(SettingError, match=r"ssl\.keystore\.location=.* cannot be used"):
        Broker(settings={**given, "ssl.key.password": "wrong"}).start()


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"ssl.keystore.location": None}, "ssl.keystore.location is not set"),
        ({"ssl.keystore.location": "/nowhere.pem"}, "cannot be used: No such file"),
        ({"ssl.truststore.location": "/nowhere.pem"}, "ssl.truststore.location=/nowhere.pem cannot be used"),
        ({"ssl.truststore.location": None, "ssl.client.auth": "required"}, "ssl.client.auth needs ssl.truststore.location"),
        ({"ssl.client.auth": "required", "ssl.principal.mapping.rules": "RULE:(/x/"}, "ssl.principal.mapping.rules"),
        ({"ssl.keystore.type": "JKS"}, "ssl.keystore.type"),
        ({"ssl.truststore.type": "JKS"}, "ssl.truststore.type"),
    ],
)
def test_a_broker_whose_tls_cannot_work_does_not_start(authority: Authority, given: dict[str, Any], complaint: str) -> None:
    settings = {name: value for name, value in {**settings_of(authority), **given}.items() if value is not None}

    with pytest.raises(SettingError) as caught:
        Broker(settings=settings).start()

    assert complaint in str(caught.value)


def test_a_key_that_everybody_may_read_is_refused_with_what_to_do_and_one_for_a_group_is_not(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    given = settings_of(authority)
    keystore = Path(given["ssl.keystore.location"])
    keystore.chmod(0o644)

    with pytest.raises(SettingError, match=f"ssl.keystore.location {keystore} holds a secret, .*; run: chmod 640 {keystore}"):
        Broker(settings=given).start()

    keystore.chmod(0o640)
    with Broker(settings=given) as broker:
        assert not is_refused(broker.bootstraps["SSL"], authority.context())


@pytest.mark.parametrize("checks_hosts", ["https", ""])
def test_brokers_talk_by_tls_and_check_each_others_hosts_where_that_is_set(tmp_path: Path, checks_hosts: str) -> None:
    authority = Authority(tmp_path)
    given = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.client.auth": "required",
        "ssl.keystore.location": str(authority.of_broker() if checks_hosts else authority.of_client("a broker", "broker")),
        "ssl.truststore.location": str(authority.file),
        "ssl.endpoint.identification.algorithm": checks_hosts,
    }

    async def replicate() -> None:
        async with MemoryCluster(2, settings=given) as cluster:
            config = librdkafka(str(cluster.brokers[1].address), authority, tmp_path / "broker.pem")
            config["ssl.endpoint.identification.algorithm"] = "none"

            def produce() -> int:
                admin = AdminClient(config)
                admin.create_topics([NewTopic("t", 2, 2)])["t"].result(20)
                producer = Producer({**config, "acks": "all"})
                for partition in range(2):
                    producer.produce("t", b"one", partition=partition)
                return producer.flush(20)

            assert await asyncio.to_thread(produce) == 0

    play(replicate)

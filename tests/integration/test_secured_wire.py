"""Our own connections to brokers, beside librdkafka's: over TLS, signed in, and with a sentence for each thing that is wrong."""

import asyncio
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import Admin, BrokerTimeout, DeliveryFailed, Producer, SecurityFailed
from headrace.cli.main import run
from headrace.client.admin.wire_admin import WireAdmin
from headrace.client.broker_connection import BrokerConnection, Endpoint
from headrace.client.brokers.connection import connect
from headrace.client.contact import address_of
from headrace.host.certificates import DevelopmentAuthority
from headrace.testing import Broker
from tests.support.certificates import Authority
from tests.support.issuer import ISSUER, Issuer

LISTENERS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("wire"))


@pytest.fixture(scope="module")
def issuer(authority: Authority) -> Issuer:
    return Issuer(authority.folder)


@pytest.fixture(scope="module")
def broker(authority: Authority, issuer: Issuer) -> Iterator[Broker]:
    settings = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in LISTENERS),
        "ssl.keystore.location": str(authority.of_broker()),
        "ssl.truststore.location": str(authority.file),
        "ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{issuer.file}",
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": "headrace",
        "connection.failed.authentication.delay.ms": 1,
    }
    with Broker(settings=settings, users={"ann": "secret"}) as running:
        yield running


def config_of(authority: Authority, protocol: str, mechanism: str = "SCRAM-SHA-512", **more: Any) -> dict[str, Any]:
    config = {"security.protocol": protocol}
    if "SSL" in protocol:
        config["ssl.ca.location"] = str(authority.file)
    if "SASL" in protocol:
        config |= {"sasl.mechanism": mechanism, "sasl.username": "ann", "sasl.password": "secret"}
    return {**config, **more}


def brokers_by(broker: Broker, listener: str, config: dict[str, Any]) -> set[int]:
    with WireAdmin(broker.bootstraps[listener], config, timeout_s=5) as admin:
        return set(admin.brokers())


@pytest.mark.parametrize(
    ("listener", "mechanism"),
    [
        ("PLAINTEXT", ""),
        ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
        ("SASL_SSL", "SCRAM-SHA-256"),
        ("SASL_SSL", "SCRAM-SHA-512"),
        ("SASL_SSL", "PLAIN"),
    ],
)
def test_a_call_is_answered_however_one_gets_in(broker: Broker, authority: Authority, listener: str, mechanism: str) -> None:
    assert brokers_by(broker, listener, config_of(authority, listener, mechanism)) == {1}


def test_a_client_shows_its_certificate(broker: Broker, authority: Authority) -> None:
    certificate = str(authority.of_client("ann"))

    assert brokers_by(broker, "SSL", config_of(authority, "SSL", **{"ssl.certificate.location": certificate})) == {1}
    with pytest.raises(
        (SecurityFailed, BrokerTimeout), match=r"a certificate of its clients.* certificate_file|\(certificate_file\)"
    ):
        brokers_by(broker, "SSL", config_of(authority, "SSL"))


def test_a_token_lets_its_bearer_in_and_a_stale_one_does_not(broker: Broker, authority: Authority, issuer: Issuer) -> None:
    config = config_of(authority, "SASL_SSL", "OAUTHBEARER", oauth_cb=lambda _: (issuer.token(), time.time() + 60))
    assert brokers_by(broker, "SASL_SSL", config) == {1}

    config["oauth_cb"] = lambda _: (issuer.token(exp=1), time.time() + 60)
    with pytest.raises(SecurityFailed, match=r"rejected the bearer of this token \(OAUTHBEARER\)"):
        brokers_by(broker, "SASL_SSL", config)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"])
def test_a_wrong_password_is_one_sentence_without_the_password(broker: Broker, authority: Authority, mechanism: str) -> None:
    wrong = config_of(authority, "SASL_SSL", mechanism, **{"sasl.password": "not-this-one"})

    with pytest.raises(SecurityFailed, match=f"rejected user ann \\({mechanism}\\); check user name and password") as told:
        brokers_by(broker, "SASL_SSL", wrong)
    assert "not-this-one" not in str(told.value)


def test_a_mechanism_that_is_not_taken_is_named_with_those_that_are() -> None:
    with Broker(users={"ann": "secret"}) as broker:
        config = {**broker.client_config(), "sasl.mechanism": "PLAIN"}
        with pytest.raises(SecurityFailed, match="does not take sasl_mechanism PLAIN; it takes SCRAM-SHA-256, SCRAM-SHA-512"):
            WireAdmin(broker.bootstrap, config).brokers()


def test_who_has_no_credentials_is_told_so_and_does_not_try_kerberos(broker: Broker) -> None:
    """As the gateway of `headrace serve --http` comes, which has none of its own."""
    endpoint = Endpoint(*address_of(broker.bootstraps["SASL_PLAINTEXT"]))

    with pytest.raises(SecurityFailed, match="wants its clients to sign in, and no credentials are given"):
        asyncio.run(connect(endpoint, {"security.protocol": "SASL_PLAINTEXT"}, client_id="nobody"))


@pytest.mark.parametrize(
    ("listener", "protocol", "kind", "said"),
    [
        ("SSL", "PLAINTEXT", SecurityFailed, "speaks TLS, and this client plain text; set security_protocol to SSL or SASL_SSL"),
        ("SASL_SSL", "SASL_PLAINTEXT", SecurityFailed, "speaks TLS, and this client plain text"),
        ("PLAINTEXT", "SSL", SecurityFailed, "does not speak TLS; use a TLS listener, or security_protocol PLAINTEXT"),
        ("SASL_PLAINTEXT", "SASL_SSL", SecurityFailed, "does not speak TLS"),
        ("SASL_PLAINTEXT", "PLAINTEXT", BrokerTimeout, "it may want its clients to sign in"),
        ("PLAINTEXT", "SASL_PLAINTEXT", SecurityFailed, "does not use SASL"),
        ("SSL", "SASL_SSL", (SecurityFailed, BrokerTimeout), r"a certificate of its clients|\(certificate_file\)"),
    ],
)
def test_the_wrong_protocol_is_named(
    broker: Broker,
    authority: Authority,
    listener: str,
    protocol: str,
    kind: type[Exception] | tuple[type[Exception], ...],
    said: str,
) -> None:
    with pytest.raises(kind, match=said):
        brokers_by(broker, listener, config_of(authority, protocol))


@pytest.mark.parametrize(
    ("listener", "protocol", "said"),
    [("SASL_SSL", "PLAINTEXT", "speaks TLS, and this client plain text"), ("PLAINTEXT", "SSL", "does not speak TLS")],
)
def test_the_sdk_says_at_once_that_one_side_speaks_tls_only(
    broker: Broker, authority: Authority, listener: str, protocol: str, said: str
) -> None:
    config = config_of(authority, protocol)
    with Admin(broker.bootstraps[listener], librdkafka=config) as admin, pytest.raises(SecurityFailed, match=said):
        admin.topics()


def test_an_authority_that_is_not_known_is_not_trusted(broker: Broker, authority: Authority) -> None:
    stranger = Authority(authority.folder, "stranger")
    config = config_of(authority, "SASL_SSL", **{"ssl.ca.location": str(stranger.file)})

    with pytest.raises(SecurityFailed, match=r"not signed by an authority that this client trusts .*ca_file"):
        brokers_by(broker, "SASL_SSL", config)


def test_a_command_without_a_certificate_is_not_told_to_start_a_broker(
    broker: Broker, authority: Authority, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = ["--bootstrap", broker.bootstraps["SSL"], "-X", "security.protocol=SSL", "-X", f"ssl.ca.location={authority.file}"]

    assert run(["topic", "list", *ours]) == 1
    said = capsys.readouterr().err
    assert "certificate_file" in said
    assert "headrace serve" not in said


def test_a_certificate_of_another_host_is_refused_unless_one_says_not_to_look(tmp_path: Path) -> None:
    elsewhere = DevelopmentAuthority(tmp_path)
    certificate = elsewhere.issue_broker(["elsewhere.example"])
    with Broker(tls=True, settings={"ssl.keystore.location": str(certificate)}) as broker:
        config = {"security.protocol": "SSL", "ssl.ca.location": str(elsewhere.file)}
        with pytest.raises(SecurityFailed, match=r"the certificate of 127\.0\.0\.1:\d+ is another host's"):
            WireAdmin(broker.bootstrap, config).brokers()
        for unchecked in ({"ssl.endpoint.identification.algorithm": "none"}, {"enable.ssl.certificate.verification": False}):
            with WireAdmin(broker.bootstrap, {**config, **unchecked}) as admin:
                assert set(admin.brokers()) == {1}


def test_a_session_that_ends_soon_is_not_used_any_more(broker: Broker, authority: Authority) -> None:
    with Broker(users={"ann": "secret"}, settings={"connections.max.reauth.ms": 1_000}) as short:
        connection = BrokerConnection(Endpoint(*address_of(short.bootstrap)), short.client_config(), client_id="t", timeout_s=5)
        _, good_until = connection.taken_over()
        assert good_until is not None
        assert good_until - time.monotonic() <= 0.8
        connection.close()


def test_the_sdk_says_at_once_that_a_password_is_wrong(broker: Broker, authority: Authority) -> None:
    wrong = config_of(authority, "SASL_SSL", **{"sasl.password": "not-this-one"})
    bootstrap = broker.bootstraps["SASL_SSL"]
    said = re.escape(f"{bootstrap} rejected user ann (SCRAM-SHA-512)")

    began = time.monotonic()
    with Admin(bootstrap, librdkafka=wrong) as admin, pytest.raises(SecurityFailed, match=said):
        admin.topics()
    producer = Producer(bootstrap, librdkafka=wrong)
    with pytest.raises(DeliveryFailed, match=said) as failed:
        producer.send("t", "one").result(20)
    assert isinstance(failed.value.__cause__, SecurityFailed)
    producer.close(timeout=0)
    assert time.monotonic() - began < 15

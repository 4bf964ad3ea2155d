"""Listeners with settings of their own (`listener.name.NAME.…`): certificates, who is asked for one, how people sign in; SNI."""

import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.tls import tls
from headrace.broker.tls.contexts import Contexts, load
from headrace.model.broker_settings import BrokerConfig
from headrace.model.errors import ErrorCode
from headrace.model.settings import SettingError
from headrace.testing import Broker
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.certificates import Authority
from tests.support.raw import RawClient
from tests.support.waiting import until

APIS = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
BROKER = 4


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("listeners"))


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Iterator[Broker]:
    given = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", "OUTSIDE", "INSIDE", "PEOPLE", "KNOWN")),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTSIDE:SSL,INSIDE:SSL,PEOPLE:SASL_SSL,KNOWN:SSL",
        "listener.name.known.ssl.client.auth": "required",
        "ssl.keystore.location": authority.of_host("outside.example"),
        "headrace.ssl.sni.keystore.locations": f"{authority.of_host('other.example')},{authority.of_host('*.many.example')}",
        "ssl.truststore.location": authority.file,
        "listener.name.inside.ssl.keystore.location": authority.of_host("inside.example"),
        "listener.name.inside.headrace.ssl.sni.keystore.locations": "",
        "listener.name.inside.ssl.client.auth": "required",
        "listener.name.inside.ssl.enabled.protocols": "TLSv1.3",
        "listener.name.inside.ssl.principal.mapping.rules": "RULE:^CN=([a-z]+),.*$/inside-$1/",
        "listener.name.people.ssl.client.auth": "required",
        "listener.name.people.sasl.enabled.mechanisms": "SCRAM-SHA-256",
    }
    with Broker(settings=given) as running:
        yield running


def shaken(bootstrap: str, authority: Authority, host: str, client: Path | None = None, **limits: Any) -> ssl.SSLSocket:
    context = authority.context(client)
    for name, value in limits.items():
        setattr(context, name, value)
    address = bootstrap.split(":")
    return context.wrap_socket(socket.create_connection((address[0], int(address[1])), timeout=10), server_hostname=host)


def call_by(wrapped: ssl.SSLSocket, bootstrap: str, request: Any, version: int) -> Any:
    with RawClient(bootstrap) as client:
        client.socket.close()
        client.socket = wrapped
        return client.call(request, version)


@pytest.mark.parametrize("host", ["outside.example", "other.example", "a.many.example"])
def test_whichever_host_clients_ask_for_their_own_certificates_are_checked(
    broker: Broker, authority: Authority, tmp_path: Path, host: str
) -> None:
    bootstrap = broker.bootstraps["KNOWN"]
    with shaken(bootstrap, authority, host, authority.of_client("ann")) as client:
        assert call_by(client, bootstrap, APIS, 3).error_code == 0
    for other in (None, Authority(tmp_path).of_client("ann")):
        with pytest.raises((ssl.SSLError, ConnectionError)), shaken(bootstrap, authority, host, other) as client:
            call_by(client, bootstrap, APIS, 3)


@pytest.mark.parametrize("host", ["outside.example", "other.example", "a.many.example", "OTHER.example"])
def test_a_client_is_shown_the_certificate_of_the_host_that_it_asks_for(broker: Broker, authority: Authority, host: str) -> None:
    with shaken(broker.bootstraps["OUTSIDE"], authority, host) as client:
        assert client.getpeercert()


@pytest.mark.parametrize("host", ["inside.example", "third.example", "a.b.many.example"])
def test_another_host_gets_the_first_certificate_and_the_client_sees_that_it_is_not_for_it(
    broker: Broker, authority: Authority, host: str
) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(broker.bootstraps["OUTSIDE"], authority, host)


def test_a_listener_has_its_own_certificate_versions_and_rules(broker: Broker, authority: Authority) -> None:
    inside, client = broker.bootstraps["INSIDE"], authority.of_client("ann")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        shaken(inside, authority, "inside.example", client, maximum_version=ssl.TLSVersion.TLSv1_2)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        call_by(shaken(inside, authority, "inside.example"), inside, APIS, 3)
    with RawClient(inside) as known:
        known.socket.close()
        known.socket = shaken(inside, authority, "inside.example", client)
        assert known.call(APIS, 3).error_code == 0
        principals = broker.run(lambda real: {str(each.principal) for each in real.server.connections})
    with shaken(broker.bootstraps["OUTSIDE"], authority, "outside.example") as unknown:
        assert call_by(unknown, inside, APIS, 3).error_code == 0

    assert "User:inside-ann" in principals


def test_a_listener_has_its_own_mechanisms_and_may_ask_for_a_certificate_as_well(broker: Broker, authority: Authority) -> None:
    people = broker.bootstraps["PEOPLE"]
    with pytest.raises((ssl.SSLError, ConnectionError)):
        call_by(shaken(people, authority, "outside.example"), people, APIS, 3)
    with shaken(people, authority, "outside.example", authority.of_client("ann")) as client:
        reply = call_by(client, people, SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 1)

    assert (reply.error_code, reply.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ("SCRAM-SHA-256",))


def alter(client: RawClient, name: str, value: str) -> Any:
    configs = (AlterableConfig(name=name, config_operation=0, value=value),)
    resource = AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=configs)
    return client.call(IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False), 1).responses[0]


def test_a_running_broker_takes_another_keystore_for_a_listener_if_it_can_be_used(
    broker: Broker, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "LOOK_SECONDS", 0.02)
    name, new = "listener.name.outside.ssl.keystore.location", authority.of_host("new.example")
    with RawClient(broker.bootstraps["PLAINTEXT"]) as client:
        assert alter(client, name, "/nowhere.pem").error_code == ErrorCode.INVALID_REQUEST
        assert alter(client, name, str(new)).error_code == 0
        resource = DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=(name,))
        (shown,) = client.call(DescribeConfigsRequest(resources=(resource,)), 4).results[0].configs

    assert (shown.value, shown.is_sensitive, shown.read_only) == (str(new), False, False)
    until(lambda: is_for(broker.bootstraps["OUTSIDE"], authority, "new.example"), "the new certificate is shown", seconds=10)


def test_the_files_of_a_listener_are_tried_beside_the_loop(
    broker: Broker, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def noted(config: BrokerConfig, client_auth: str) -> Contexts:
        threads.append(threading.get_ident())
        return load(config, client_auth)

    monkeypatch.setattr(tls, "load", noted)
    with RawClient(broker.bootstraps["PLAINTEXT"]) as client:
        name = "listener.name.known.ssl.keystore.location"
        assert alter(client, name, str(authority.of_host("known.example"))).error_code == 0

    assert threads
    assert broker.run(lambda real: threading.get_ident()) not in threads


def is_for(bootstrap: str, authority: Authority, host: str) -> bool:
    try:
        shaken(bootstrap, authority, host).close()
    except ssl.SSLCertVerificationError:
        return False
    return True


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("listener.name.outside.ssl.client.auth", "required", "is read when the broker starts"),
        ("listener.name.outside.ssl.key.password", "secret", "is read when the broker starts"),
        ("listener.name.plaintext.ssl.keystore.location", "/x", "there is no listener PLAINTEXT with TLS"),
        ("listener.name.outside.ssl.client.auth", "perhaps", "is not one of"),
        ("ssl.keystore.location", "/x", "is read when the broker starts"),
    ],
)
def test_what_a_running_broker_cannot_change_at_a_listener_is_refused(
    broker: Broker, name: str, value: str, complaint: str
) -> None:
    with RawClient(broker.bootstraps["PLAINTEXT"]) as client:
        refused = alter(client, name, value)

    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert complaint in refused.error_message


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("listener.name.inside.num.partitions", "what can be set for one listener is ssl.keystore.type"),
        ("listener.name.INSIDE.ssl.client.auth", "written in small letters"),
        ("listener.name..ssl.client.auth", "what can be set for one listener"),
    ],
)
def test_a_name_that_no_listener_can_have_is_refused(name: str, complaint: str) -> None:
    with pytest.raises(SettingError, match=complaint):
        BrokerConfig({name: "required"})


def test_settings_for_a_listener_that_is_not_there_are_refused() -> None:
    with pytest.raises(SettingError, match="TYPO is not among the listeners, PLAINTEXT"):
        Broker(settings={"listener.name.typo.ssl.client.auth": "required"}).start()

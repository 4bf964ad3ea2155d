"""The settings around listeners, read together."""

import pytest

from headrace.model.broker_settings import BrokerConfig
from headrace.model.listeners import Address, Listener, parse_address, read_listeners
from headrace.model.settings import SettingError

TWO = "CLIENT://127.0.0.1:9092,REPLICATION://127.0.0.1:9093"
MAP = "CLIENT:PLAINTEXT,REPLICATION:PLAINTEXT"


def read(**given: str) -> tuple[Listener, ...]:
    return read_listeners(BrokerConfig({name.replace("_", "."): text for name, text in given.items()})).each


def complaint(**given: str) -> str:
    with pytest.raises(SettingError) as caught:
        read(**given)
    return str(caught.value)


def test_an_address_alone_is_the_listener_plaintext() -> None:
    (listener,) = read(listeners="127.0.0.1:9092")

    assert (listener.name, listener.security_protocol) == ("PLAINTEXT", "PLAINTEXT")
    assert listener.address == listener.advertised == ("127.0.0.1", 9092)


def test_a_named_listener_is_mapped_to_its_protocol() -> None:
    client, replication = read(
        listeners=TWO.lower(), listener_security_protocol_map=MAP, inter_broker_listener_name="replication"
    )

    assert (client.name, client.address.port) == ("CLIENT", 9092)
    assert (replication.name, replication.address.port) == ("REPLICATION", 9093)


def test_brokers_use_the_listener_they_are_told_or_plaintext_or_the_only_one() -> None:
    def inter_broker(**given: str) -> str:
        return read_listeners(BrokerConfig({name.replace("_", "."): text for name, text in given.items()})).inter_broker

    both = "PLAINTEXT,CLIENT".replace("PLAINTEXT", "PLAINTEXT:PLAINTEXT").replace(",CLIENT", ",CLIENT:PLAINTEXT")
    assert inter_broker(listeners="h:1") == "PLAINTEXT"
    assert inter_broker(listeners="CLIENT://h:1", listener_security_protocol_map="CLIENT:PLAINTEXT") == "CLIENT"
    assert inter_broker(listeners="CLIENT://h:1,h:2", listener_security_protocol_map=both) == "PLAINTEXT"
    assert (
        inter_broker(listeners="CLIENT://h:1,h:2", listener_security_protocol_map=both, inter_broker_listener_name="client")
        == "CLIENT"
    )
    assert "inter.broker.listener.name is not set" in complaint(listeners=TWO, listener_security_protocol_map=MAP)


@pytest.mark.parametrize(
    ("protocol", "has_tls", "has_sasl"),
    [("PLAINTEXT", False, False), ("ssl", True, False), ("SASL_PLAINTEXT", False, True), ("SASL_SSL", True, True)],
)
def test_a_listener_has_the_protocol_that_it_is_mapped_to(protocol: str, has_tls: bool, has_sasl: bool) -> None:
    for listeners in (f"{protocol}://h:1", "A://h:1"):
        given = {"listeners": listeners, "listener.security.protocol.map": f"A:{protocol},{protocol}:{protocol}"}
        (listener,) = read_listeners(BrokerConfig(given)).each

        assert (listener.has_tls, listener.has_sasl) == (has_tls, has_sasl)


@pytest.mark.parametrize("scheme", ["HTTP", "kafka", "TCP"])
def test_a_scheme_without_a_mapping_is_refused(scheme: str) -> None:
    said = complaint(listeners=f"{scheme}://127.0.0.1:9092")

    assert f"{scheme.upper()} has no security protocol" in said
    assert f"such as {scheme.upper()}:SASL_SSL, or call it one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL" in said


@pytest.mark.parametrize("address", ["0.0.0.0:9092", "[::]:9092", "PLAINTEXT://0.0.0.0:9092"])
def test_all_addresses_cannot_be_told_to_clients(address: str) -> None:
    assert "--advertise HOST:PORT" in complaint(listeners=address)
    assert "nobody can be sent to" in complaint(listeners=address, advertised_listeners="0.0.0.0:9092")
    (listener,) = read(listeners=address, advertised_listeners="broker.example:9092")
    assert listener.advertised == ("broker.example", 9092)


def test_no_host_listens_everywhere_and_tells_the_name_of_the_machine() -> None:
    (listener,) = read(listeners=":9092")

    assert listener.address == listener.advertised == ("", 9092)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"listeners": "A://h:9092,B://h:9092"}, "A and B have the same port, 9092"),
        ({"listeners": "A://h:9092,A://h:9093"}, "A is used twice"),
        ({"listeners": "h:9092,h:9093"}, "PLAINTEXT is used twice"),
        ({"listeners": ""}, "names no address"),
        ({"listeners": " , "}, "names no address"),
        ({"listeners": "h"}, "'h' is not an address"),
        ({"listeners": "h:65536"}, "is not an address"),
        ({"listeners": "h:-1"}, "is not an address"),
        ({"listeners": "://h:1"}, "is not a listener's name"),
        ({"listeners": "A B://h:1"}, "is not a listener's name"),
        ({"listeners": "h:1/path"}, "is not an address"),
        (
            {"listeners": "CLIENT://h:1,B://h:2", "listener_security_protocol_map": "CLIENT:PLAINTEXT,B:PLAINTEXT"}
            | {"advertised_listeners": "localhost:29131", "inter_broker_listener_name": "B"},
            "localhost:29131 names none of the listeners, CLIENT, B; write CLIENT://localhost:29131",
        ),
        ({"listeners": "h:1", "advertised_listeners": "A://h:1"}, "A is not among the listeners, PLAINTEXT"),
        ({"listeners": "h:1", "advertised_listeners": "h"}, "advertised.listeners: 'h' is not an address"),
        ({"listeners": "h:1", "inter_broker_listener_name": "A"}, "inter.broker.listener.name: A is not among the listeners"),
        ({"listeners": "h:1", "listener_security_protocol_map": "A:PLAINTEXT"}, "PLAINTEXT has no security protocol"),
        ({"listeners": "h:1", "listener_security_protocol_map": "PLAINTEXT:TLS"}, "TLS is not a security protocol"),
        ({"listeners": "h:1", "listener_security_protocol_map": "PLAINTEXT"}, "'PLAINTEXT' is not NAME:PROTOCOL"),
        ({"listeners": "h:1", "listener_security_protocol_map": "PLAINTEXT:SSL,PLAINTEXT:PLAINTEXT"}, "PLAINTEXT is used twice"),
    ],
)
def test_contradictions_are_refused_in_a_sentence(given: dict[str, str], expected: str) -> None:
    said = complaint(**given)

    assert expected in said
    assert "\n" not in said


def test_ipv4_and_ipv6_may_share_a_port_and_free_ports_are_all_different() -> None:
    names = {"listener_security_protocol_map": "A:PLAINTEXT,B:PLAINTEXT", "inter_broker_listener_name": "A"}

    assert len(read(listeners="A://127.0.0.1:9092,B://[::1]:9092", **names)) == 2
    assert len(read(listeners="A://h:0,B://h:0", **names)) == 2


def test_a_listener_that_is_not_advertised_is_told_as_it_is_set() -> None:
    client, replication = read(
        listeners=TWO,
        listener_security_protocol_map=MAP,
        inter_broker_listener_name="REPLICATION",
        advertised_listeners="CLIENT://broker.example:19092",
    )

    assert client.advertised == ("broker.example", 19092)
    assert replication.advertised == ("127.0.0.1", 9093)


def test_an_ipv6_address_is_read_and_written_in_brackets() -> None:
    assert parse_address("[::1]:9092") == ("::1", 9092)
    assert str(Address("::1", 9092)) == "[::1]:9092"
    assert str(Address("127.0.0.1", 9092)) == "127.0.0.1:9092"


def test_what_of_a_listener_has_no_effect_keeps_no_broker_from_starting() -> None:
    """Kafka's tools set such, and it is stored."""
    name = "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config"
    config = BrokerConfig({}, {name: "x", "listener.name.sasl_ssl.ssl.keystore.location": "other.pem"})

    assert config.of_listener("SASL_SSL")["ssl.keystore.location"] == "other.pem"

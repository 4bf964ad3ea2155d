"""Looking for a broker: what is said of a port where there is none."""

import logging
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from headrace import Admin, BrokerTimeout, SecurityFailed
from headrace.cli.connection import require_reachable
from headrace.cli.failure import Failure
from headrace.client.broker_connection import BrokerConnection, Endpoint
from headrace.client.contact import SILENT, FirstContact, look_for_broker
from headrace.client.security.probes import TLS_ALERT

TLS_HANDSHAKE = b"\x16"
Serve = Callable[[socket.socket], object]


@contextmanager
def server(serve: Serve) -> Iterator[str]:
    """An address at which every connection is accepted and given to `serve`."""
    taken: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def guarded(connection: socket.socket) -> None:
            with suppress(OSError):
                serve(connection)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    taken.append(connection)
                    threading.Thread(target=guarded, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            for connection in taken:
                connection.close()


def says_nothing(connection: socket.socket) -> None:
    pass


def is_slow_and_leaves_when_nobody_waits(connection: socket.socket) -> None:
    while connection.recv(100):
        pass
    connection.close()


def closes(connection: socket.socket) -> None:
    connection.recv(1)
    connection.close()


def answers_as_http_does(connection: socket.socket) -> None:
    connection.recv(1)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def answers_as_http_does_when_the_line_ends(connection: socket.socket) -> None:
    while connection.recv(100):
        pass
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def answers_oddly(connection: socket.socket) -> None:
    connection.sendall(b"220 smtp.example.org ready\r\n")


def answers_the_second_time() -> Serve:
    connections = []

    def serve(connection: socket.socket) -> None:
        connections.append(connection)
        greeting = connection.recv(100)
        if len(connections) > 1:
            correlation_id = greeting[8:12]
            connection.sendall(struct.pack(">i", 6) + correlation_id + bytes(2))

    return serve


@pytest.mark.parametrize(
    ("serve", "said"),
    [
        (closes, "closed without an answer: there is no broker, or one that wants TLS"),
        (answers_as_http_does, "an HTTP server answers there"),
        (answers_as_http_does_when_the_line_ends, "an HTTP server answers there"),
        (answers_oddly, "what answers there is no broker"),
    ],
)
def test_what_is_no_broker_is_refused_with_what_it_is(serve: Serve, said: str) -> None:
    with server(serve) as address:
        with Admin(address, connect_timeout=0.5) as admin, pytest.raises(BrokerTimeout, match=said):
            admin.topics()
        with pytest.raises(Failure, match=said):
            require_reachable(address)


@pytest.mark.slow
@pytest.mark.parametrize("serve", [says_nothing, is_slow_and_leaves_when_nobody_waits])
def test_who_says_nothing_is_waited_for_with_a_word_and_given_up_with_a_sentence(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("headrace.client.contact.SILENCE_S_MAX", 2.0)
    monkeypatch.setattr("headrace.client.contact.SLOW_ATTEMPT_S", 0.2)
    with server(serve) as address:
        said = re.escape(f"no broker answers at {address} ({SILENT}); gave up after 2 s")
        assert look_for_broker([address], timeout=0.1) == (True, {address: SILENT}, None)
        with pytest.raises(BrokerTimeout, match=said):
            FirstContact({"bootstrap.servers": address}, 0.1).require()
        with pytest.raises(BrokerTimeout, match=said):
            require_reachable(address)

    assert caplog.text.count(f"waiting for an answer from {address} ({SILENT})") == 1
    assert capsys.readouterr().err.count(f"Waiting for an answer from {address} ({SILENT}).") == 1


def test_a_command_waits_for_a_slow_broker_in_the_way_its_profile_says(monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[bytes] = []

    def refuses_the_second_time(connection: socket.socket) -> None:
        began.append(connection.recv(1))
        if len(began) > 1:
            connection.sendall(TLS_ALERT + bytes((3, 0, 2, 2, 40)))

    monkeypatch.setattr("headrace.client.contact.SIGN_IN_S", 0.1)
    monkeypatch.setattr("headrace.cli.connection.chosen_properties", lambda: {"security.protocol": "SSL"})
    with server(refuses_the_second_time) as address, pytest.raises(SecurityFailed):
        require_reachable(address)

    assert began == [TLS_HANDSHAKE, TLS_HANDSHAKE]


def test_one_that_answers_late_is_a_broker_all_the_same() -> None:
    with server(answers_the_second_time()) as address:
        found = FirstContact({"bootstrap.servers": address}, 0.1)
        found.require()

    assert found.made
    assert found.silent is None


def test_nobody_waits_for_silence_for_longer_than_the_call_may_take() -> None:
    with (
        server(says_nothing) as address,
        Admin(address, timeout=0.5, connect_timeout=0.2) as admin,
        pytest.raises(BrokerTimeout, match=re.escape(f"no broker answers at {address} ({SILENT}); gave up after 0.5 s")),
    ):
        admin.topics()


SECURED = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "ann", "sasl.password": "secret"}


def test_who_does_not_begin_tls_may_be_slow_and_who_hangs_up_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.client.contact.SIGN_IN_S", 0.1)
    with server(says_nothing) as address:
        assert look_for_broker([address], SECURED, timeout=0.1) == (True, {address: SILENT}, None)
    with server(closes) as address, pytest.raises(BrokerTimeout, match="closed the connection when TLS was to begin"):
        FirstContact({"bootstrap.servers": address, **SECURED}, 0.3).require()


def test_where_only_librdkafka_can_sign_in_it_is_enough_that_somebody_listens() -> None:
    with server(closes) as address:
        contact = FirstContact({"bootstrap.servers": address, "security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, 0.5)
        contact.require()
        assert contact.made


def test_a_call_that_is_not_answered_soon_is_waited_for_with_a_word(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("headrace.client.broker_connection.WORDLESS_S", 0.05)
    with server(says_nothing) as address, caplog.at_level(logging.WARNING):
        host, _, port = address.rpartition(":")
        with pytest.raises(BrokerTimeout, match="did not answer API_VERSIONS"):
            BrokerConnection(Endpoint(host, int(port)), client_id="test", timeout_s=0.2)

    assert f"waiting for the broker at {address} to answer API_VERSIONS" in caplog.text

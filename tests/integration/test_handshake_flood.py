"""A flood of TLS handshakes from one address: the broker works on a few at a time, and those who are in have their turns."""

import os
import select
import socket
from collections.abc import Iterator

import pytest

from headrace.broker.tls.listening import AT_ONCE_PER_ADDRESS
from headrace.testing import Broker
from headrace.testing.handshake_flood import flooded, hello, watch
from headrace.wire.messages.api_versions import ApiVersionsRequest
from tests.support.certificates import Authority
from tests.support.raw import RawClient, frame
from tests.support.waiting import until

APIS = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
FLOOD = 240
A_SECOND, SECONDS = 1000, 10.0
MOMENT_MS = 50.0


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("flood"))


@pytest.fixture
def broker(authority: Authority) -> Iterator[Broker]:
    given = {"listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0", "ssl.keystore.location": authority.of_broker()}
    with Broker(settings=given) as running:
        yield running


def begun(broker: Broker) -> int:
    return broker.run(lambda real: real.tls.handshakes.under_way if real.tls else 0)


def answered(flood: list[socket.socket]) -> list[socket.socket]:
    """Those whose first message the broker has worked on."""
    return select.select(flood, [], [], 0)[0]


def test_who_is_in_is_served_between_the_handshakes_of_a_flood(broker: Broker, authority: Authority) -> None:
    host, port = broker.bootstraps["SSL"].split(":")
    said = [hello() for _ in range(FLOOD)]
    with RawClient(broker.bootstraps["PLAINTEXT"]) as other:
        flood = [socket.create_connection((host, int(port)), source_address=("127.0.0.2", 0)) for _ in said]
        until(lambda: begun(broker) == FLOOD, "all of them are there")
        for each, first in zip(flood, said, strict=True):
            each.sendall(first)
        for round_number in range(1, 4):
            until(lambda: len(answered(flood)) >= AT_ONCE_PER_ADDRESS, "some of them are answered")
            for _ in range(3):
                assert other.call(APIS, 3).error_code == 0
            now = answered(flood)
            assert len(now) == AT_ONCE_PER_ADDRESS, f"no more at a time, in round {round_number}"
            # Their places are for the next ones.
            for each in now:
                flood.remove(each)
                each.close()
        for each in flood:
            each.close()
    until(lambda: begun(broker) == 0, "they are gone")


@pytest.mark.slow
@pytest.mark.skipif("HEADRACE_TORTURE_ROUNDS" not in os.environ, reason="`make torture` runs this")
def test_while_one_address_begins_a_thousand_handshakes_a_second_another_waits_for_moments(authority: Authority) -> None:
    given = {"listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0", "ssl.keystore.location": authority.of_broker()}
    with Broker(settings=given) as broker:
        host, port = broker.bootstraps["SSL"].split(":")
        with RawClient(broker.bootstraps["SSL"]) as other:
            other.socket = authority.context().wrap_socket(other.socket, server_hostname="localhost")
            quiet = watch(other.socket, frame(APIS, 3), SECONDS)
            with flooded((host, int(port)), A_SECOND, SECONDS + 1) as flood:
                busy = watch(other.socket, frame(APIS, 3), SECONDS)
                assert flood.stdout is not None
                answered, refused = map(int, flood.stdout.readline().split())
    print(f"{answered} handshakes answered, {refused} refused; without them {quiet}, with them {busy}")

    assert answered >= A_SECOND, "else this proves nothing"
    assert busy.p99 < 3 * quiet.p99 + MOMENT_MS

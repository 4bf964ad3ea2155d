"""The cuts that other tests rely on do cut, one way, at once and without a word, and leave nothing behind."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.testing.network import NAMESPACES, Network, why_no_network

pytestmark = [pytest.mark.xdist_group("cluster"), pytest.mark.skipif(why_no_network() is not None, reason=str(why_no_network()))]

# Two datagram sockets, on machine 1 and 2, that tell what they hear.
EAR = "import socket,sys; s=socket.socket(type=socket.SOCK_DGRAM); s.bind((sys.argv[1], 7777)); print('ready', flush=True)\n"
EAR += "while True: print(s.recv(100).decode(), flush=True)"
SEND = "import socket,sys; socket.socket(type=socket.SOCK_DGRAM).sendto(sys.argv[2].encode(), (sys.argv[1], 7777))"


def send(network: Network, sender: int, receiver: int, text: str) -> None:
    subprocess.run([*network.inside(sender), sys.executable, "-c", SEND, network.address(receiver), text], check=True)


def test_a_cut_is_one_way_and_healing_mends_it() -> None:
    with Network(2) as network:
        ears = [
            subprocess.Popen(
                [*network.inside(machine), sys.executable, "-c", EAR, network.address(machine)], stdout=subprocess.PIPE, text=True
            )
            for machine in (1, 2)
        ]
        try:
            first, second = (ear.stdout for ear in ears)
            assert first is not None
            assert second is not None
            assert (first.readline(), second.readline()) == ("ready\n", "ready\n")
            network.cut(1, 2)
            send(network, 1, 2, "lost")
            send(network, 2, 1, "heard")
            assert first.readline() == "heard\n"
            network.heal()
            send(network, 1, 2, "heard again")

            assert second.readline() == "heard again\n"
        finally:
            for ear in ears:
                ear.kill()
                ear.communicate()


def test_an_open_connection_is_cut_too() -> None:
    with Network(1) as network, socket.create_server((network.address(254), 0)) as server:
        port = server.getsockname()[1]
        talk = f"import socket; s=socket.create_connection(('{network.address(254)}', {port})); s.settimeout(1)\n"
        talk += "print(s.recv(9).decode(), flush=True)\ntry: s.recv(9)\nexcept TimeoutError: print('silence', flush=True)"
        client = subprocess.Popen([*network.inside(1), sys.executable, "-c", talk], stdout=subprocess.PIPE, text=True)
        try:
            connection, _ = server.accept()
            connection.sendall(b"hello")
            assert client.stdout is not None
            assert client.stdout.readline() == "hello\n"
            network.isolate(1)
            connection.sendall(b"anybody?")

            assert client.stdout.readline() == "silence\n"
            connection.close()
        finally:
            client.kill()
            client.communicate()


def test_nothing_is_left_behind() -> None:
    with Network(1) as network:
        name = network.namespace(1)
        assert (NAMESPACES / name).exists()

    assert not (NAMESPACES / name).exists()
    assert not Path(f"/sys/class/net/{name.split('-')[0]}b").exists()

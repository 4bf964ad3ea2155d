"""docs/security.md takes a cluster from open to closed: here it does, step by step, with a producer and a consumer at work all
the while and the settings as the page has them.  Nothing is lost, and the last plaintext port is shut."""

import itertools
import os
import socket
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing.cluster import ProcessCluster
from headrace.testing.etcd import etcd_program, free_port
from tests.support.certificates import Authority
from tests.support.pages import DOCS, blocks
from tests.support.waiting import until

pytestmark = [
    pytest.mark.etcd,
    pytest.mark.slow,
    pytest.mark.timeout(600),  # ten restarts of a broker, each until all is in sync again
    pytest.mark.xdist_group("cluster"),
    pytest.mark.skipif(etcd_program() is None, reason="etcd is not installed (Debian: apt install etcd-server)"),
]

TOPIC, GROUP = "orders", "readers"
COMMAND = [sys.executable, "-c", "from headrace.cli.main import main; main()"]
SECONDS_MAX = 120.0


def steps_of_the_page() -> list[dict[str, str]]:
    """The settings that each step changes."""
    begins = (DOCS / "security.md").read_text().partition("## From open to closed")[0].count("\n")
    later = [block for block in blocks(DOCS / "security.md") if block.line > begins and not block.language]
    return [tomllib.loads(block.code) for block in later]


class Closing:
    """A cluster of three, each with two ports, and what a client of either needs."""

    def __init__(self, cluster: ProcessCluster, authority: Authority) -> None:
        self.cluster = cluster
        self._authority = authority
        self._certificate = authority.of_broker()
        self._password = authority.folder / "password"
        self._password.write_text("hidden\n")
        self._password.chmod(0o600)
        self.plain = {number: broker.port for number, broker in cluster.brokers.items()}
        self.closed = {number: free_port() for number in cluster.brokers}

    def open_client(self) -> dict[str, Any]:
        return {"bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in self.plain.values())}

    def closed_client(self, user: str, password: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in self.closed.values()),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self._authority.file),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password,
        }

    def restart_with(self, changed: dict[str, str], client: dict[str, Any]) -> None:
        """One broker after the other, each when all replicas are in sync."""
        for number, broker in self.cluster.brokers.items():
            assert broker.stop() == 0
            broker.settings |= {name: self._translated(text, number) for name, text in changed.items()}
            if not broker.settings["listeners"].startswith("PLAINTEXT"):
                broker.port = self.closed[number]
            broker.start()
            broker.wait_until_ready()
            until(lambda: in_sync(client) == 3, "all replicas are in sync again", SECONDS_MAX, every_s=0.2)

    def _translated(self, text: str, number: int) -> str:
        for shown, real in (
            ("HOST:9092", f"127.0.0.1:{self.plain[number]}"),
            ("HOST:9093", f"127.0.0.1:{self.closed[number]}"),
            ("certs/broker.pem", str(self._certificate)),
            ("certs/ca.pem", str(self._authority.file)),
            ("certs/password", str(self._password)),
        ):
            text = text.replace(shown, real)
        return text


def in_sync(client: dict[str, Any]) -> int:
    """How many replicas the partition with fewest has in sync."""
    try:
        found = AdminClient(client).list_topics(TOPIC, timeout=10).topics[TOPIC].partitions.values()
    except Exception:
        return 0
    return min((len(partition.isrs) for partition in found), default=0)


class AtWork:
    """A producer and a consumer that go on from one set of settings to the next."""

    def __init__(self, client: dict[str, Any]) -> None:
        self.sent, self.failed, self.read = set[int](), list[str](), list[int]()
        self._numbers = itertools.count()
        self._client = client
        self._stops_writing, self._stops_reading = threading.Event(), threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._write, self._read)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # Whoever reads stops when all is read that was written.
        for thread, stopping in zip(self._threads, (self._stops_writing, self._stops_reading), strict=True):
            stopping.set()
            thread.join(SECONDS_MAX)

    def move_to(self, client: dict[str, Any]) -> None:
        """Stop, and begin again with other settings, as a client that is deployed anew."""
        self.__exit__(None, None, None)
        self._client = client
        self._stops_writing.clear()
        self._stops_reading.clear()
        self._threads = [threading.Thread(target=work) for work in (self._write, self._read)]
        self.__enter__()

    def goes_on(self) -> None:
        """Return when both have done something since."""
        written, read = len(self.sent), len(self.read)
        until(lambda: len(self.sent) > written and len(self.read) > read, lambda: f"they go on: {self.failed}", SECONDS_MAX)

    def _write(self) -> None:
        producer = Producer({**self._client, "acks": "all", "enable.idempotence": True, "linger.ms": 5})

        def told(error: KafkaError | None, message: Message) -> None:
            number = int(message.value() or b"-1")
            self.sent.add(number) if error is None else self.failed.append(str(error))

        while not self._stops_writing.is_set():
            producer.produce(TOPIC, str(next(self._numbers)).encode(), on_delivery=told)
            producer.poll(0.02)
        assert producer.flush(SECONDS_MAX) == 0

    def _read(self) -> None:
        consumer = Consumer({**self._client, "group.id": GROUP, "auto.offset.reset": "earliest"})
        consumer.subscribe([TOPIC])
        while not (self._stops_reading.is_set() and self.sent <= set(self.read)):
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.read.append(int(message.value() or b"-1"))
        consumer.close()


def command(*words: str, given: str = "") -> str:
    ended = subprocess.run(
        [*COMMAND, *words], input=given, capture_output=True, text=True, timeout=120, env={**os.environ, "NO_COLOR": "1"}
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture
def closing(tmp_path: Path) -> Iterator[Closing]:
    with ProcessCluster(tmp_path, broker_count=3, settings={"default.replication.factor": "3"}) as cluster:
        yield Closing(cluster, Authority(tmp_path))


def test_a_cluster_is_closed_while_clients_write_and_read_and_nothing_is_lost(closing: Closing) -> None:
    second_door, brokers_move, shut = steps_of_the_page()
    plain, ann, root = closing.open_client(), closing.closed_client("ann", "secret"), closing.closed_client("broker", "hidden")
    topic = NewTopic(TOPIC, 3, 3, config={"min.insync.replicas": "2"})
    admin = AdminClient(plain)
    admin.create_topics([topic])[TOPIC].result(30)
    with AtWork(plain) as clients:
        clients.goes_on()
        closing.restart_with(second_door, plain)
        bootstrap = ("--bootstrap", plain["bootstrap.servers"])
        for name, password in (("broker", "hidden"), ("ann", "secret")):
            command("user", "add", name, *bootstrap, given=password)
        command("acl", "allow", "--user", "ann", "--write", TOPIC, "--read", TOPIC, "--read", f"group:{GROUP}", *bootstrap)
        clients.goes_on()

        clients.move_to(ann)
        clients.goes_on()
        closing.restart_with(brokers_move, plain)
        clients.goes_on()
        closing.restart_with(shut, root)
        clients.goes_on()

    assert not clients.failed
    assert clients.sent == set(clients.read)
    for port in closing.plain.values():
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))

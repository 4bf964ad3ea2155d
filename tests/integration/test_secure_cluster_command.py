"""`headrace cluster up --secure`: closed from its first moment, and open to those who have its profiles."""

import json
import os
import signal
import ssl
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from headrace.cli.cluster.pid_files import running
from headrace.client.security.connecting import way_to
from headrace.host.certificates import DevelopmentAuthority
from headrace.testing.etcd import etcd_program
from tests.support.process import free_port
from tests.support.waiting import until

pytestmark = [
    pytest.mark.etcd,
    pytest.mark.slow,
    pytest.mark.skipif(etcd_program() is None, reason="etcd is not installed (Debian: apt install etcd-server)"),
]
HEADRACE = [sys.executable, "-c", "from headrace.cli.main import main; main()"]


@contextmanager
def cluster_up(directory: Path, port: int, *words: str, ending: signal.Signals = signal.SIGTERM) -> Iterator[str]:
    """What it has said once it serves."""
    log = directory.with_suffix(".log")
    command = [*HEADRACE, "cluster", "up", "--brokers", "2", "--directory", str(directory), "--port", str(port), *words]
    with log.open("wb") as written:
        process = subprocess.Popen(command, stdout=written, stderr=written)
    try:
        until(lambda: "Try: " in log.read_text() or process.poll() is not None, "the cluster serves", seconds=120)
        yield log.read_text()
    finally:
        process.send_signal(ending)
        process.wait(90)


def headrace(*words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([*HEADRACE, *words], input=given, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.timeout(400)
def test_it_is_closed_and_opens_to_its_profiles_also_after_a_restart(tmp_path: Path) -> None:
    directory, port = tmp_path / "cluster", free_port(in_a_row=2)
    admin, application = str(directory / "admin.toml"), str(directory / "app.toml")

    with cluster_up(directory, port, "--secure") as told:
        assert f"headrace --profile {admin} cluster status" in told
        for file in (admin, application, str(directory / "security" / "ca.key")):
            assert stat.S_IMODE(Path(file).stat().st_mode) == 0o600
        authority = (directory / "security" / "ca.pem").read_bytes()
        assert headrace("topic", "list", "-b", f"127.0.0.1:{port}").returncode == 1
        assert "HEALTHY" in headrace("--profile", admin, "cluster", "status").stdout
        created = headrace("--profile", admin, "topic", "create", "app-orders", "--replication-factor", "2")
        assert created.returncode == 0, created.stderr
        assert headrace("--profile", application, "produce", "app-orders", given="one\n").returncode == 0
        refused = headrace("--profile", application, "produce", "others", given="one\n")
        assert refused.returncode == 1
        assert headrace("--profile", application, "acl", "list").returncode == 1
        consume_with_librdkafka(application)
        passwords = [line for file in (admin, application) for line in Path(file).read_text().splitlines() if "password" in line]
        assert not any(line.split('"')[1] in told for line in passwords)
        assert_etcd_is_closed(directory)

    with ending_what_is_left(directory):
        with cluster_up(directory, port, ending=signal.SIGKILL) as told:
            assert f"headrace --profile {admin}" in told
            assert (directory / "security" / "ca.pem").read_bytes() == authority
            assert headrace("--profile", application, "consume", "app-orders").stdout.split() == ["one", "two"]
            assert_etcd_is_closed(directory)
        left = running(directory)
        again = headrace("cluster", "up", "--directory", str(directory))

        assert list(left) == ["broker-1", "broker-2", "etcd"]
        assert again.returncode == 1
        assert f"end it with `kill {' '.join(map(str, left.values()))}`" in " ".join(again.stderr.split())


def assert_etcd_is_closed(directory: Path) -> None:
    """To all but those who show a certificate of a broker; what it keeps is as good as the rules and the users' keys."""
    security, ports = directory / "security", json.loads((directory / "cluster.json").read_text())
    stranger, user, broker = (ssl.create_default_context(cafile=security / "etcd" / "ca.pem") for _ in range(3))
    user.load_cert_chain(DevelopmentAuthority(security).issue_client("ann"))
    broker.load_cert_chain(security / "etcd" / "broker-1.pem")
    for port in (ports["etcd_client_port"], ports["etcd_peer_port"]):
        for scheme, context in (("http", None), ("https", stranger), ("https", user)):
            with pytest.raises(OSError, match=r"(?i)400|ssl|reset|closed|broken pipe"):
                everything_in_etcd(f"{scheme}://127.0.0.1:{port}", context)
    assert int(everything_in_etcd(f"https://127.0.0.1:{ports['etcd_client_port']}", broker)["count"]) > 0


def everything_in_etcd(address: str, context: ssl.SSLContext | None) -> dict[str, str]:
    asked = urllib.request.Request(address + "/v3/kv/range", data=b'{"key": "AA==", "range_end": "AA==", "count_only": true}')
    with urllib.request.urlopen(asked, timeout=30, context=context) as reply:
        answer: dict[str, str] = json.load(reply)
        return answer


@contextmanager
def ending_what_is_left(directory: Path) -> Iterator[None]:
    try:
        yield
    finally:
        for pid in running(directory).values():
            os.kill(pid, signal.SIGTERM)
        until(lambda: not running(directory), "all have ended", seconds=60, every_s=0.05)


def consume_with_librdkafka(profile: str) -> None:
    way = way_to(None, {"profile": profile})
    config = {"bootstrap.servers": way.bootstrap, **way.properties}
    producer = Producer(config)
    producer.produce("app-orders", b"two")
    assert producer.flush(30) == 0
    consumer = Consumer({**config, "group.id": "app-readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["app-orders"])
    message = consumer.poll(60)
    consumer.close()
    assert message is not None
    assert message.error() is None
    with pytest.raises(KafkaException, match=r"SSL|Authentication|Local: |transport"):
        AdminClient({**config, "sasl.password": "wrong"}).list_topics(timeout=3)

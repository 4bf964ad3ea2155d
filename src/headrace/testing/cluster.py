"""A real cluster on this machine, for tests: etcd and brokers, each a process that can be killed, paused and started again.

with ProcessCluster(directory, brokers=3) as cluster:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    cluster.brokers[2].kill()
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from headrace.host.certificates import AUTHORITY, DevelopmentAuthority
from headrace.testing.etcd import EtcdCluster, free_port
from headrace.testing.network import Network
from headrace.testing.security import secure_cluster_settings

START_SECONDS_MAX = 90.0
STOP_SECONDS_MAX = 90.0
COMMAND = [sys.executable, "-c", "from headrace.cli.main import main; main()", "serve"]


@dataclass(slots=True)
class BrokerProcess:
    """One broker.  What it logs is in `log_path`."""

    broker_id: int
    port: int
    directory: Path
    settings: dict[str, str]
    host: str = "127.0.0.1"
    prefix: tuple[str, ...] = ()  # what runs the command elsewhere than here
    secure_port: int = 0  # where clients sign in by TLS, in a cluster that is secured
    process: subprocess.Popen[bytes] | None = None

    @property
    def log_path(self) -> Path:
        return self.directory.with_suffix(".log")

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def start(self) -> None:
        arguments = [*self.prefix, *COMMAND, "--data", str(self.directory)]
        # Several listeners are a setting; the one that clients use is among them.
        arguments += [] if "listeners" in self.settings else ["--listen", self.address]
        for name, value in self.settings.items():
            arguments += ["--set", f"{name}={value}"]
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=log, env={**os.environ, "NO_COLOR": "1"})

    def wait_until_ready(self) -> None:
        """Return when the broker has said where it listens: it serves from then on."""
        assert self.process is not None
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        deadline = time.monotonic() + START_SECONDS_MAX
        while self.address.encode() not in (self.process.stdout.read() or b""):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"broker {self.broker_id} did not start:\n{self.log_path.read_text()[-4000:]}")
            time.sleep(0.02)

    def kill(self) -> None:
        """As a power cut would, as far as the process is concerned."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self._forget()

    def stop(self) -> int:
        """Ask it to end, and wait; its exit code."""
        assert self.process is not None
        self.process.terminate()
        code = self.process.wait(STOP_SECONDS_MAX)
        self._forget()
        return code

    def pause(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def _forget(self) -> None:
        assert self.process is not None
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.process = None


@dataclass(slots=True)
class ProcessCluster:
    """etcd and brokers numbered from 1.  In a network, each broker shares a machine with the etcd member of its number."""

    directory: Path
    broker_count: int = 3
    etcd_members: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)
    racks: Mapping[int, str] = field(default_factory=dict)
    network: Network | None = None
    separate_listener: bool = False  # whether brokers talk over a listener of their own
    is_secured: bool = False  # whether clients sign in by TLS, brokers show each other certificates, and rules hold
    directories: Mapping[int, Path] = field(default_factory=dict)  # where a broker's data is not beside the others'
    brokers: dict[int, BrokerProcess] = field(default_factory=dict)
    etcd: EtcdCluster | None = None

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self.brokers.values())

    @property
    def secure_bootstrap(self) -> str:
        return ",".join(f"{broker.host}:{broker.secure_port}" for broker in self.brokers.values())

    def client_config(self, user: str, password: str) -> dict[str, str]:
        """What a client of librdkafka needs at `secure_bootstrap`."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self._certificates / AUTHORITY),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password,
        }

    @property
    def _certificates(self) -> Path:
        return self.directory / "certificates"

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        etcd_directory = self.directory / "etcd"
        etcd_directory.mkdir()
        self.etcd = EtcdCluster(etcd_directory, member_count=self.etcd_members, network=self.network)
        self.etcd.__enter__()
        try:
            for broker_id in range(1, self.broker_count + 1):
                self.add(broker_id)
            for broker in self.brokers.values():
                broker.wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def add(self, broker_id: int) -> BrokerProcess:
        """Start one more broker; it may not be ready yet."""
        assert self.etcd is not None
        hosts = ",".join(endpoint.removeprefix("http://") for endpoint in self.etcd.endpoints)
        settings = {"node.id": str(broker_id), "headrace.metadata": f"etcd://{hosts}", **self.settings}
        if broker_id in self.racks:
            settings["broker.rack"] = self.racks[broker_id]
        directory = self.directories.get(broker_id, self.directory / f"broker-{broker_id}")
        broker = BrokerProcess(broker_id, free_port(), directory, settings)
        if self.network is not None:
            broker.host, broker.prefix = self.network.address(broker_id), tuple(self.network.inside(broker_id))
        if self.separate_listener:
            settings |= {
                "listeners": f"CLIENT://{broker.address},REPLICATION://{broker.host}:{free_port()}",
                "listener.security.protocol.map": "CLIENT:PLAINTEXT,REPLICATION:PLAINTEXT",
                "inter.broker.listener.name": "REPLICATION",
            }
        if self.is_secured:
            broker.secure_port = free_port()
            settings |= self._secured(broker)
        self.brokers[broker_id] = broker
        broker.start()
        return broker

    def _secured(self, broker: BrokerProcess) -> dict[str, str]:
        # One certificate for all of them.
        hosts = (
            [broker.host]
            if self.network is None
            else [self.network.address(number) for number in range(1, self.broker_count + 1)]
        )
        if not self._certificates.exists():
            DevelopmentAuthority(self._certificates).issue_broker(hosts)
        secure, private = (f"{broker.host}:{port}" for port in (broker.secure_port, free_port()))
        return secure_cluster_settings(self._certificates, broker.address, secure, private)

    def __exit__(self, *_: object) -> None:
        for broker in self.brokers.values():
            broker.kill()
        if self.etcd is not None:
            self.etcd.__exit__()

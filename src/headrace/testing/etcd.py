"""Real etcd members on this machine, for tests: started on free ports in a temporary directory, ended with the test."""

import asyncio
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from headrace.testing.network import Network

START_TIMEOUT_S = 15.0


def etcd_program() -> str | None:
    return shutil.which("etcd")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(slots=True)
class EtcdMember:
    name: str
    command: list[str]
    client_url: str
    log_path: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def pause(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)


@dataclass(slots=True)
class EtcdCluster:
    """`with EtcdCluster(directory, members=3) as etcd: etcd.endpoints`"""

    directory: Path
    member_count: int = 1
    extra: tuple[str, ...] = ()
    network: Network | None = None  # then each member is on a machine of its own
    members: list[EtcdMember] = field(default_factory=list)

    @property
    def endpoints(self) -> tuple[str, ...]:
        return tuple(member.client_url for member in self.members)

    def __enter__(self) -> "EtcdCluster":
        program = etcd_program()
        assert program is not None, "etcd is not installed"
        numbers = range(1, self.member_count + 1)
        peers = {f"m{number}": f"http://{self._host(number)}:{free_port()}" for number in numbers}
        self.members = [self._member(program, number, peers) for number in numbers]
        for member in self.members:
            member.start()
        try:
            self._wait_until_healthy()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.kill()

    def _host(self, number: int) -> str:
        return "127.0.0.1" if self.network is None else self.network.address(number)

    def _member(self, program: str, number: int, peers: dict[str, str]) -> EtcdMember:
        name, client_url = f"m{number}", f"http://{self._host(number)}:{free_port()}"
        command = [
            *(self.network.inside(number) if self.network is not None else ()),
            *(program, "--name", name, "--data-dir", str(self.directory / name)),
            *("--listen-client-urls", client_url, "--advertise-client-urls", client_url),
            *("--listen-peer-urls", peers[name], "--initial-advertise-peer-urls", peers[name]),
            *("--initial-cluster", ",".join(f"{peer}={url}" for peer, url in peers.items())),
            *("--initial-cluster-token", self.directory.name, "--log-level", "warn"),
            *self.extra,
        ]
        return EtcdMember(name, command, client_url, self.directory / f"{name}.log")

    def _wait_until_healthy(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        for member in self.members:
            while not _is_healthy(member.client_url):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"etcd did not start: {member.log_path.read_text()[-2000:]}")
                time.sleep(0.05)


def _is_healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(url + "/health", timeout=1) as reply:
            return b"true" in reply.read()
    except OSError:
        return False


async def wait_healthy(url: str, timeout_s: float = START_TIMEOUT_S) -> None:
    """Return when a member that was restarted answers again."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(timeout_s):
        while not await loop.run_in_executor(None, _is_healthy, url):
            await asyncio.sleep(0.05)

"""A cluster on this machine, to try it: etcd and brokers as processes of their own, under one directory.

What was chosen the first time (ports, mostly) is in `cluster.json` there, so that the next start finds the same cluster.
"""

import fcntl
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from headrace.cli.cluster.pid_files import locked_pid_file, refuse_if_running, write_pid
from headrace.cli.cluster.secure_cluster import ClusterSecurity
from headrace.cli.failure import Failure
from headrace.host.ending import ending_signals

SERVE = [sys.executable, "-c", "from headrace.cli.main import main; main()", "serve"]
READY_SECONDS_MAX = 60.0  # a second as a rule; long on a machine that is busy
STOP_SECONDS_MAX = 20.0
REFRESH_S = 1.0
NO_ETCD = (
    "a cluster keeps its metadata in etcd, and there is none on this machine. Debian: apt install etcd-server. Others: etcd.io."
)

View = Callable[[], tuple[tuple[str, ...], list[tuple[object, ...]]]]


class LocalCluster:
    """Processes that end with this one."""

    def __init__(self, directory: Path, port: int = 9092) -> None:
        self._directory = directory
        self._file = directory / "cluster.json"
        self._choices: dict[str, Any] = (
            json.loads(self._file.read_text()) if self._file.exists() else {"port": port, "brokers": 0}
        )
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        # Whatever ends this ends the children too, as Ctrl-C does.
        for number in ending_signals():
            signal.signal(number, _interrupt)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # Whoever presses Ctrl-C again, or closes the terminal meanwhile, must not keep the rest from being ended.
        for number in ending_signals():
            signal.signal(number, signal.SIG_IGN)
        # Brokers before etcd, all brokers at once: each hands over what it can while the others still listen.
        for process in self._processes[1:]:
            process.terminate()
        for process in (*self._processes[1:], *self._processes[:1]):
            _end(process)

    @property
    def broker_count(self) -> int:
        """As asked for, or as many as there were the last time, `add`ed ones included."""
        count: int = self._choices["brokers"]
        return count

    @property
    def bootstrap(self) -> str:
        ports = range(self._choices["port"], self._choices["port"] + self._choices["brokers"])
        return ",".join(f"127.0.0.1:{port}" for port in ports)

    @property
    def security(self) -> ClusterSecurity | None:
        """How it is secured; None where it is open."""
        return ClusterSecurity(self._directory) if self._choices.get("secure") else None

    def start(self, brokers: int, *, secure: bool = False) -> None:
        """Return when every broker serves.  A cluster stays as secure as it was made."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self._lock()
        refuse_if_running(self._directory)
        if secure and self._choices["brokers"] and not self._choices.get("secure"):
            raise Failure(
                f"the cluster in {self._directory.absolute()} was made without --secure; make another one (--directory, --port)."
            )
        self._choices["secure"] = secure or bool(self._choices.get("secure"))
        self._choices["brokers"] = max(brokers, self._choices["brokers"])
        self._require_free_ports()
        self._start_etcd()
        commands = {number: [*SERVE, *self._arguments(number)] for number in range(1, self._choices["brokers"] + 1)}
        self._save()
        for number, command in commands.items():
            self._processes.append(self._spawn(command, f"broker-{number}"))
        for number, process in enumerate(self._processes[1:], 1):
            self._wait_until_serving(number, process)
        if self.security is not None:
            among_brokers = ",".join(f"127.0.0.1:{self._broker_port(number)}" for number in range(1, self.broker_count + 1))
            self.security.let_in(self.bootstrap, among_brokers)

    def _lock(self) -> None:
        self._held = (self._directory / ".lock").open("w")
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failure(
                f"the cluster in {self._directory.absolute()} is already running. Look at it with `headrace cluster status`, "
                "or choose another place and other ports with --directory and --port."
            ) from None

    def _require_free_ports(self) -> None:
        """A broker that finds its port taken would end, and whoever has the port be taken for it."""
        for number in range(1, self._choices["brokers"] + 1):
            if not _is_free(self._port(number)):
                where = "chosen when this cluster was made" if self._file.exists() else "choose others with --port"
                raise Failure(f"port {self._port(number)}, which broker {number} needs, is taken by another program ({where}).")

    def serve_one_more(self) -> None:
        """Run the next broker in the foreground."""
        if not self._file.exists():
            raise Failure(f"there is no cluster in {self._directory}. Start one with `headrace cluster up`.")
        self._choices["brokers"] += 1
        number = self.broker_count
        with locked_pid_file(self._directory, f"broker-{number}") as pid_file:
            arguments = self._arguments(number)
            self._save()
            write_pid(pid_file, os.getpid())
            os.set_inheritable(pid_file.fileno(), True)
            # This process becomes the broker, so that whatever is sent to it reaches the broker.
            os.execv(SERVE[0], [*SERVE, *arguments])

    def watch(self, view: View) -> None:
        """Show the cluster until Ctrl-C.  A broker that was killed is shown as DOWN, and the others go on: try it."""
        from rich.console import Console
        from rich.live import Live

        try:
            with Live(console=Console(stderr=True), auto_refresh=False) as live:
                while self._is_alive():
                    live.update(_table(view), refresh=True)
                    time.sleep(REFRESH_S)
        except KeyboardInterrupt:
            return
        raise Failure(f"etcd, or every broker, ended by itself; their logs are in {self._directory.absolute()}.")

    def _is_alive(self) -> bool:
        etcd, *brokers = (process.poll() is None for process in self._processes)
        return etcd and any(brokers)

    def _start_etcd(self) -> None:
        program = shutil.which("etcd")
        if program is None:
            raise Failure(NO_ETCD)
        for name in ("etcd_client_port", "etcd_peer_port"):
            self._choices.setdefault(name, _free_port())
        scheme = "http" if self.security is None else "https"
        client, peer = (f"{scheme}://127.0.0.1:{self._choices[name]}" for name in ("etcd_client_port", "etcd_peer_port"))
        command = [program, "--name", "one", "--data-dir", str(self._directory / "etcd"), "--log-level", "warn"]
        command += ["--listen-client-urls", client, "--advertise-client-urls", client]
        command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"one={peer}"]
        context = None
        if self.security is not None:
            command += self.security.etcd_arguments()
            context = self.security.etcd_context()
        self._processes.append(self._spawn(command, "etcd"))
        self._wait("etcd", self._processes[0], lambda: _answers(client + "/health", context))

    def _arguments(self, number: int) -> list[str]:
        settings = {"node.id": str(number), "headrace.metadata": f"etcd://127.0.0.1:{self._choices['etcd_client_port']}"}
        arguments = ["--data", str(self._directory / f"broker-{number}")]
        if self.security is None:
            arguments += ["--listen", f"127.0.0.1:{self._port(number)}"]
        else:
            settings |= self.security.settings(number, self._port(number), self._broker_port(number))
        for name, value in settings.items():
            arguments += ["--set", f"{name}={value}"]
        return arguments

    def _port(self, number: int) -> int:
        port: int = self._choices["port"] + number - 1
        return port

    def _broker_port(self, number: int) -> int:
        """Where a broker of a secured cluster listens to the others."""
        port: int = self._choices.setdefault("broker_ports", {}).setdefault(str(number), _free_port())
        return port

    def _spawn(self, command: list[str], name: str) -> "subprocess.Popen[bytes]":
        with (self._directory / f"{name}.log").open("ab") as log, locked_pid_file(self._directory, name) as pid_file:
            # A group of its own: Ctrl-C is for us, and we end the children in order.
            process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, pass_fds=(pid_file.fileno(),))
            write_pid(pid_file, process.pid)
            return process

    def _wait_until_serving(self, number: int, process: "subprocess.Popen[bytes]") -> None:
        self._wait(f"broker-{number}", process, lambda: _listens(self._port(number)))

    def _wait(self, name: str, process: "subprocess.Popen[bytes]", ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise Failure(f"{name} did not start; see {(self._directory / name).absolute()}.log.")
            time.sleep(0.05)

    def _save(self) -> None:
        self._file.write_text(json.dumps(self._choices, indent=2) + "\n")


def _table(view: View) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    try:
        columns, rows = view()
    except Exception as error:
        table.add_column(f"no broker answers: {error}")
        return table
    for column in columns:
        table.add_column(column)
    for row in rows:
        style = {"HEALTHY": "", "DEGRADED": "yellow", "DOWN": "red"}.get(str(row[3]), "")
        table.add_row(*("-" if value is None else str(value) for value in row), style=style)
    return table


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: what a broker that has just ended left behind does not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


def _answers(url: str, context: ssl.SSLContext | None) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1, context=context) as reply:
            return bool(b"true" in reply.read())
    except OSError:
        return False

"""A broker as a service manager runs it: told when it is ready, asked to reload its settings, without a terminal."""

import fcntl
import os
import pty
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace import Admin
from tests.support.process import free_port
from tests.support.waiting import until


@contextmanager
def served(*arguments: str, **how: Any) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "headrace", "serve", "--memory", *arguments]
    with subprocess.Popen(command, start_new_session=True, **how) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_service_is_told_ready_and_stopping_and_reloads_its_settings_on_hang_up(tmp_path: Path) -> None:
    config, log, port = tmp_path / "headrace.toml", tmp_path / "log", free_port()
    config.write_text('"num.partitions" = 2\n"fetch.max.bytes" = 5000\n')
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(tmp_path / "notify"))
    manager.settimeout(60)
    environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")}
    with manager, open(log, "wb") as output:
        arguments = ("--listen", f"127.0.0.1:{port}", "--config", str(config))
        with served(*arguments, env=environment, stdout=output, stderr=output) as process:
            assert manager.recv(1000).splitlines() == [b"READY=1", f"STATUS=serving at 127.0.0.1:{port}".encode()]

            config.write_text('"num.partitions" = 3\n"fetch.max.bytes" = 6000\n')
            process.send_signal(signal.SIGHUP)
            until(lambda: "settings reloaded: num.partitions" in log.read_text(), "num.partitions is taken up")
            assert "changed settings that take effect after a restart: fetch.max.bytes" in log.read_text()
            with Admin(f"127.0.0.1:{port}") as admin:
                admin.create_topic("t", partitions=None)
                assert len(admin.topic("t").partitions) == 3

            config.write_text('"num.partitions" = "many"\n')
            process.send_signal(signal.SIGHUP)
            until(lambda: "the settings are not reloaded, and the old ones stay: num.partitions" in log.read_text(), "a refusal")

            process.terminate()
            assert manager.recv(1000).startswith(b"STOPPING=1\n")
            assert process.wait(30) == 0


def test_a_broker_ends_when_its_terminal_is_closed(tmp_path: Path) -> None:
    def take_terminal() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    terminal, inside = pty.openpty()
    log = tmp_path / "log"
    with open(log, "wb") as output:
        how = {"stdin": inside, "stdout": output, "stderr": output, "preexec_fn": take_terminal}
        with served("--listen", "127.0.0.1:0", **how) as process:
            os.close(inside)
            until(lambda: "Ctrl-C stops it" in log.read_text(), "the broker greets")
            os.close(terminal)
            assert process.wait(30) == 0

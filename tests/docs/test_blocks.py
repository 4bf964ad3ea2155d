"""Every block of code in the documentation runs, and prints what the page says it prints.

The Python blocks of a page run one after the other in one namespace, as a reader would type them; functions named test_… are
run by pytest with the fixtures they ask for.  Shell blocks are typed into a terminal.  A `text` block is what the block
before it prints.  Only addresses and directories are others than those on the page.
"""

import contextlib
import io
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace import Producer
from headrace.testing import Broker
from headrace.testing.etcd import EtcdCluster, etcd_program
from tests.support.pages import DOCS, ROOT, Block, all_pages, blocks
from tests.support.process import free_port
from tests.support.registry import Registry
from tests.support.terminal import Terminal

# What cannot run inside of a test: that it is there is looked at with `make -n`.
NOT_RUN = {
    "make check": "runs these tests",
    "make test": "runs these tests",
    "make torture": "takes an hour",
    "make simulate": "takes minutes; tests/simulation runs the same",
    "make bench": "takes minutes, and needs the machine for itself",
}
FEED_S = 0.5
PAGES = [page for page in all_pages() if any(block.language and not block.is_for_spark for block in blocks(page))]
STARTS_ITS_BROKERS = {"README.md", "audit.md", "commands.md", "monitoring.md", "operating.md", "security.md", "settings.md"}


class Reader:
    """Somebody who reads one page: has what it takes for granted, and other addresses and directories than it shows."""

    def __init__(self, directory: Path, port: int) -> None:
        self._directory = directory
        self._replaced = {
            "0.0.0.0": "127.0.0.1",
            "this-host": "127.0.0.1",
            "9092": str(port),
            "9404": str(free_port()),
            "/var/lib/headrace": "var",
        }
        self._replaced["8080"] = http = str(free_port())
        self._replaced["~/.config"] = str(directory / ".config")
        self._fed_at = float("-inf")
        self.bootstrap = f"127.0.0.1:{port}"
        self.environment = {
            "HEADRACE_BOOTSTRAP": self.bootstrap,
            "HEADRACE_LISTENERS": self.bootstrap,
            "HEADRACE_GATEWAY_LISTEN": f"127.0.0.1:{http}",
            "LISTEN": self.bootstrap,
            "DATA": str(directory / "data"),
            "XDG_CONFIG_HOME": str(directory / ".config"),
        }

    def has_etcd(self, endpoint: str) -> None:
        self._replaced["etcd-1:2379,etcd-2:2379,etcd-3:2379"] = endpoint.removeprefix("http://")

    def translate(self, line: str) -> str:
        """What to type for a line of the page."""
        self._prepare(line)
        for shown, real in self._replaced.items():
            line = line.replace(shown, real)
        if line in NOT_RUN:
            line += " --dry-run"
        elif line == "make run" and not built_by_make():
            return f"headrace serve --listen {self.bootstrap} --data data"
        return re.sub(r"^make\b", f"make --no-print-directory --directory {ROOT}", line)

    def _prepare(self, line: str) -> None:
        if "headrace.toml" in line:
            (settings,) = (block for block in blocks(DOCS / "settings.md") if block.language == "toml")
            self.write("headrace.toml", settings.code)
        if "server.properties" in line:
            self.write("server.properties", "broker.id=1\nlisteners=PLAINTEXT://127.0.0.1:9092\n")
        if "users.txt" in line:
            self.write("users.txt", "alice:1\nbob:2\n")
        if line.startswith("headrace consume orders"):
            self.feed(line)
        if line.startswith("headrace cluster up"):
            self._choose_the_ports_of_a_cluster()

    def write(self, name: str, text: str) -> None:
        for shown, real in self._replaced.items():
            text = text.replace(shown, real)
        (self._directory / name).parent.mkdir(parents=True, exist_ok=True)
        (self._directory / name).write_text(text)

    def _choose_the_ports_of_a_cluster(self) -> None:
        """A cluster that is started again has the ports that it had before."""
        (self._directory / "cluster").mkdir()
        port = int(self.bootstrap.rpartition(":")[2])
        (self._directory / "cluster" / "cluster.json").write_text(json.dumps({"port": port, "brokers": 0}))

    def feed(self, line: str) -> None:
        """One more record for somebody who waits for it, now and then."""
        found = re.search(r"headrace consume (\w+)", line)
        if found is not None and time.monotonic() - self._fed_at > FEED_S:
            self._fed_at = time.monotonic()
            with Producer(self.bootstrap, linger=0) as producer:
                producer.send(found.group(1), "12.50", key="ann").result(30)


def built_by_make() -> bool:
    asked = ["make", "--question", "--silent", "--directory", str(ROOT), ".venv/stamps/run"]
    return shutil.which("make") is not None and subprocess.run(asked, check=False).returncode == 0


@pytest.fixture
def reader(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """Pages name topics as they please, so each has a broker or a cluster to itself, unless it starts its own."""
    monkeypatch.chdir(tmp_path)
    with contextlib.ExitStack() as started:
        if page.name in STARTS_ITS_BROKERS:
            port = free_port(in_a_row=4)
        else:
            port = int(started.enter_context(Broker()).bootstrap.rpartition(":")[2])
        reader = Reader(tmp_path, port)
        monkeypatch.setenv("HEADRACE_BOOTSTRAP", reader.bootstrap)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
        if "HEADRACE_REGISTRY" in page.read_text():
            monkeypatch.setenv("HEADRACE_REGISTRY", started.enter_context(Registry(reader.bootstrap, "_schemas")).url)
        if "etcd-1" in page.read_text():
            if etcd_program() is None:
                pytest.skip("etcd is not installed (Debian: apt install etcd-server)")
            (tmp_path / "etcd").mkdir()
            reader.has_etcd(started.enter_context(EtcdCluster(tmp_path / "etcd")).endpoints[0])
        yield reader


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_runs_and_prints_what_it_says(page: Path, reader: Reader, tmp_path: Path) -> None:
    names: dict[str, Any] = {"__name__": "guide"}
    printed: str | None = None
    with Terminal(tmp_path, reader.environment, reader.translate, reader.feed) as terminal:
        for block in blocks(page):
            match block.language:
                case "python" if block.is_for_spark:
                    printed = None
                case "python" if re.search(r"^def test_", block.code, re.MULTILINE):
                    run_tests_in(block.code, page.read_text(), tmp_path)
                case "python":
                    printed = run_python(block, names)
                case "sh":
                    printed = terminal.run(block.code, block.where)
                case "toml" if "[profiles." in block.code:
                    reader.write(".config/headrace/config.toml", block.code)
                case "toml":
                    reader.write("headrace.toml", block.code)
                    terminal.run("headrace serve --config headrace.toml", block.where)
                case "text":
                    assert printed == block.code, block.where
                case "json":
                    assert isinstance(json.loads(block.code), dict), block.where
                case "yaml":
                    assert isinstance(yaml.safe_load(block.code), dict), block.where
                case "mermaid" | "html" | "":
                    assert not re.search(r"^\s*(headrace|make|pip|python) ", block.code, re.MULTILINE), (
                        f"{block.where}: of what kind is it?"
                    )
                case other:
                    pytest.fail(f"{block.where}: a block of {other} cannot be run")
    if terminal.missing:
        pytest.skip(f"all of it but {', '.join(sorted(terminal.missing))}, which is not installed")


def run_python(block: Block, names: dict[str, Any]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(block.code, block.where, "exec"), names)
    return out.getvalue()


def run_tests_in(code: str, page: str, directory: Path) -> None:
    """Tests shown on a page, as a file of their own: imports of the blocks before it, then the block."""
    imports = re.findall(r"^(?:from|import) .*$", page, re.MULTILINE)
    file = directory / "test_from_the_guide.py"
    file.write_text("\n".join(imports) + "\n\n" + code)
    installed = any(entry.name == "headrace" for entry in entry_points(group="pytest11"))
    plugin = [] if installed else ["-p", "headrace.testing.plugin"]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin, file],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=directory,
    )
    assert "1 passed" in ended.stdout, ended.stdout + ended.stderr


def test_what_is_not_run_is_still_shown_somewhere() -> None:
    shown = {line.split("#")[0].strip() for page in all_pages() for block in blocks(page) for line in block.code.splitlines()}

    assert set(NOT_RUN) <= shown

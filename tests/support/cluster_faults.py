"""Three machines with a broker and an etcd member each, and what can happen to one of them.

Each fault is a context manager: it is there inside the block and gone, with its traces, after it.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from headrace.testing.cluster import ProcessCluster
from headrace.testing.network import Network, why_no_network
from tests.support.waiting import until

SMALL_DISK = 3  # the machine whose disk can be filled
SMALL_DISK_BYTES = 512 * 1024 * 1024  # so much that the loads before do not fill it by themselves


@dataclass(slots=True)
class Stage:
    """`with Stage(directory) as stage:`.  Without root there are no machines, only processes, and no disk of their own."""

    directory: Path
    settings: dict[str, str] = field(default_factory=dict)
    is_secured: bool = False
    _stack: ExitStack = field(default_factory=ExitStack)
    cluster: ProcessCluster = field(init=False)
    network: Network | None = None
    disk: Path | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            if why_no_network() is None:
                self.network = stack.enter_context(Network(3))
            if os.geteuid() == 0:
                self.disk = stack.enter_context(small_disk(self.directory / "small"))
            directories = {SMALL_DISK: self.disk} if self.disk is not None else {}
            self.cluster = ProcessCluster(
                self.directory / "cluster",
                etcd_members=3,
                settings=self.settings,
                network=self.network,
                directories=directories,
                is_secured=self.is_secured,
            )
            stack.enter_context(self.cluster)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def bootstrap_without(self, broker: int) -> str:
        return ",".join(b.address for number, b in self.cluster.brokers.items() if number != broker)

    def another(self, broker: int) -> int:
        return broker % 3 + 1

    # -- faults

    @contextmanager
    def killed(self, broker: int) -> Iterator[None]:
        """kill -9, and a new process afterwards."""
        self.cluster.brokers[broker].kill()
        yield
        self.start(broker)

    @contextmanager
    def machine_killed(self, broker: int) -> Iterator[None]:
        """kill -9 of the broker and of the etcd member beside it."""
        assert self.cluster.etcd is not None
        member = self.cluster.etcd.members[broker - 1]
        member.kill()
        self.cluster.brokers[broker].kill()
        yield
        member.start()
        self.start(broker)

    @contextmanager
    def paused(self, broker: int) -> Iterator[None]:
        """SIGSTOP, and SIGCONT afterwards."""
        self.cluster.brokers[broker].pause()
        try:
            yield
        finally:
            self.cluster.brokers[broker].resume()

    def isolated(self, broker: int) -> AbstractContextManager[None]:
        """Everything that the machine sends or is sent is lost."""
        return self._until_healed(lambda network: network.isolate(broker))

    def muted(self, broker: int) -> AbstractContextManager[None]:
        """The other machines hear nothing from this one, which hears them."""
        return self._cut((broker, other) for other in range(1, 4) if other != broker)

    def deafened(self, broker: int) -> AbstractContextManager[None]:
        """This machine hears nothing from the others, which hear it."""
        return self._cut((other, broker) for other in range(1, 4) if other != broker)

    def parted(self, broker: int) -> AbstractContextManager[None]:
        """The link between two machines is cut both ways; the third reaches both."""
        other = self.another(broker)
        return self._cut([(broker, other), (other, broker)])

    def _cut(self, links: Iterable[tuple[int, int]]) -> AbstractContextManager[None]:
        def cut(network: Network) -> None:
            for sender, receiver in links:
                network.cut(sender, receiver)

        return self._until_healed(cut)

    @contextmanager
    def _until_healed(self, cut: Callable[[Network], None]) -> Iterator[None]:
        assert self.network is not None
        cut(self.network)
        try:
            yield
        finally:
            self.network.heal()

    @contextmanager
    def disk_full(self) -> Iterator[None]:
        """The small disk has no byte left; afterwards it has, and the broker goes on by itself."""
        assert self.disk is not None
        filler = self.disk / "filler"
        # Without a buffer: its rest would be written, and fail, when the file is closed.
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(1 << 16))
        try:
            yield
        finally:
            filler.unlink()

    def start(self, broker: int) -> None:
        self.cluster.brokers[broker].start()
        self.cluster.brokers[broker].wait_until_ready()


@contextmanager
def small_disk(path: Path) -> Iterator[Path]:
    """A disk that is soon full."""
    path.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK_BYTES}", "headrace-test", str(path)], check=True)
    try:
        yield path
    finally:
        _unmount(path)


def _unmount(path: Path) -> None:
    # Its last user may need a moment to be gone.
    try:
        until(lambda: subprocess.run(["umount", str(path)], capture_output=True).returncode == 0, seconds=10, every_s=0.1)
    except AssertionError:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
    shutil.rmtree(path, ignore_errors=True)


Fault = Callable[[Stage, int], AbstractContextManager[None]]

PROCESS_FAULTS: dict[str, Fault] = {"killed": Stage.killed, "machine killed": Stage.machine_killed, "paused": Stage.paused}
NETWORK_FAULTS: dict[str, Fault] = {
    "isolated": Stage.isolated,
    "muted": Stage.muted,
    "deafened": Stage.deafened,
    "parted": Stage.parted,
}

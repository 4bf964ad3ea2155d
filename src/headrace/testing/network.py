"""Machines on this machine, for tests: a network namespace each, on one bridge, with links that can be cut in either direction.

with Network(3) as network:
    network.cut(1, 2)      # nothing that machine 1 sends reaches machine 2; the way back is open
    network.isolate(3)     # machine 3 and everybody else, the test's own clients too, hear nothing of each other
    network.heal()

It needs root and the `ip` program.  Everything made here is removed at the end, and what an earlier, killed run left behind too.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

NAMESPACES: Final = Path("/run/netns")
HERE: Final = 254  # the address of the bridge, from which the test's own clients speak


def why_no_network() -> str | None:
    """Why there can be no namespaces here; None when there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need the `ip` program (Debian: apt install iproute2)"
    probe = f"hr-{os.getpid()}-probe"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True)
    if made.returncode:
        return f"network namespaces are not allowed here: {made.stderr.strip()}"
    _run("ip", "netns", "delete", probe)
    return None


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


def _run_if_possible(*command: str) -> None:
    subprocess.run(command, capture_output=True)


@dataclass(slots=True)
class Network:
    """Machines numbered from 1, and this one, which reaches them all."""

    size: int
    _name: str = field(default_factory=lambda: f"hr{os.getpid()}")
    _subnet: int = 0
    _cuts: set[tuple[int, int]] = field(default_factory=set)

    def __enter__(self) -> Self:
        _remove_leftovers()
        # A subnet of its own for each process, so that two test runs do not meet.
        self._subnet = os.getpid() % 250
        try:
            self._add_bridge()
            for machine in range(1, self.size + 1):
                self._add_machine(machine)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for machine in range(1, self.size + 1):
            # The link goes with its namespace; a namespace in use goes when its last process does.
            _run_if_possible("ip", "netns", "delete", self.namespace(machine))
            _run_if_possible("ip", "link", "delete", f"{self._name}v{machine}")
        _run_if_possible("ip", "link", "delete", f"{self._name}b")

    def namespace(self, machine: int) -> str:
        return f"{self._name}-{machine}"

    def address(self, machine: int) -> str:
        return f"10.213.{self._subnet}.{machine}"

    def inside(self, machine: int) -> list[str]:
        """What to put before a command so that it runs on that machine."""
        return ["ip", "netns", "exec", self.namespace(machine)]

    # -- cutting

    def cut(self, sender: int, receiver: int) -> None:
        """Drop, without a word, whatever one machine sends to the other."""
        if (sender, receiver) not in self._cuts:
            self._rule("add", sender, receiver)
            self._cuts.add((sender, receiver))

    def isolate(self, machine: int) -> None:
        """Cut a machine off from everybody, both ways."""
        for other in (*range(1, self.size + 1), HERE):
            if other != machine:
                self.cut(other, machine)
                if other != HERE:
                    self.cut(machine, other)
                # Our own side has no namespace to drop things in; what we send is dropped there, which no connection survives.

    def heal(self) -> None:
        for sender, receiver in list(self._cuts):
            self._rule("delete", sender, receiver)
            self._cuts.discard((sender, receiver))

    def _rule(self, action: str, sender: int, receiver: int) -> None:
        # The receiver drops it on arrival: a sender whose own kernel refused would notice at once, unlike with a cut link.
        match = ("from", f"{self.address(sender)}/32", "preference", "10", "blackhole")
        _run("ip", "-n", self.namespace(receiver), "rule", action, *match)

    # -- making

    def _add_bridge(self) -> None:
        bridge = f"{self._name}b"
        _run("ip", "link", "add", bridge, "type", "bridge")
        _run("ip", "address", "add", f"{self.address(HERE)}/24", "dev", bridge)
        _run("ip", "link", "set", bridge, "up")

    def _add_machine(self, machine: int) -> None:
        namespace, link = self.namespace(machine), f"{self._name}v{machine}"
        _run("ip", "netns", "add", namespace)
        _run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        _run("ip", "link", "set", link, "master", f"{self._name}b", "up")
        _run("ip", "-n", namespace, "address", "add", f"{self.address(machine)}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _run("ip", "-n", namespace, "link", "set", device, "up")
        # Rules are asked in order, and the one for local addresses is first: room is made before it.
        _run("ip", "-n", namespace, "rule", "add", "preference", "100", "lookup", "local")
        _run("ip", "-n", namespace, "rule", "delete", "preference", "0")
        # Packets of open connections would go past the rules by a short cut.
        for setting in ("ip_early_demux", "tcp_early_demux"):
            _run(*self.inside(machine), "sh", "-c", f"echo 0 > /proc/sys/net/ipv4/{setting}")


def _remove_leftovers() -> None:
    """What runs that were killed left behind: their process is gone, and nobody else will."""
    if not NAMESPACES.is_dir():
        return
    for namespace in NAMESPACES.iterdir():
        name, _, machine = namespace.name.partition("-")
        owner = name.removeprefix("hr")
        if name.startswith("hr") and owner.isdecimal() and not Path(f"/proc/{owner}").exists():
            _run_if_possible("ip", "netns", "delete", namespace.name)
            _run_if_possible("ip", "link", "delete", f"{name}v{machine}")
            _run_if_possible("ip", "link", "delete", f"{name}b")

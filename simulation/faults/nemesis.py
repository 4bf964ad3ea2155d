"""What goes wrong, and when: chosen by the seed."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.controller.entries import BROKERS
from simulation.faults.rotting import flip_bits
from simulation.rules.tally import Fault
from simulation.world.cluster import DATA, Node, SimulatedCluster
from simulation.world.machine import BLOCKING_S
from simulation.world.network import DELAY_S
from simulation.world.store import NAME as STORE_NAME
from simulation.world.store import WATCH_LAG_S

PAUSE_BETWEEN_S = (0.3, 3.0)
DURATION_S = (0.2, 6.0)
# Longer than a lease, so that others act while the broker cannot know.
LONG_S = (2.0, 10.0)
# How long a broker may not know that its lease is gone: it asks four times in a lease's time.
UNAWARE_S = 2.0
FLIPS = 3
OFF_AFTER_STOP_ONE_IN = 2
SLOW_DISK_S = (0.05, 0.6)
SLOW_WATCH_S = (0.1, 2.5)
SLOW_NETWORK_S = (0.02, 0.25)
# The power fails somewhere within so many changes of files.
POWER_FAILURE_CHANGES_MAX = 40


@dataclass(frozen=True, slots=True)
class Faults:
    """Which faults a scenario knows, besides those that all do: kills, standstills, cuts, slowness, full disks."""

    power_failures: bool = True
    disk_errors: bool = True
    store_faults: bool = True
    rot: bool = False

    def __str__(self) -> str:
        named = {
            "power failures": self.power_failures,
            "failing syncs": self.disk_errors,
            "trouble with the store": self.store_faults,
            "rot on one disk": self.rot,
        }
        return ", ".join(["crashes", "cuts", "full disks", *(name for name, is_known in named.items() if is_known)])


class Nemesis:
    """Breaks one thing after the other, several at a time, and mends each after a while."""

    def __init__(self, cluster: SimulatedCluster, faults: Faults, clients: Sequence[str]) -> None:
        self._cluster = cluster
        self._faults = faults
        self._clients = clients
        self._chance = cluster.loop.random
        self._choices: list[Callable[[], None]] = [
            self._kill,
            self._pause,
            self._isolate,
            self._cut_one_way,
            self._cut_pair,
            self._slow_disk,
            self._slow_network,
            self._restart,
            self._fill_disk,
        ]
        if faults.power_failures:
            self._choices += [self._cut_power, self._cut_power_in_a_write, self._cut_all_power]
        if faults.disk_errors:
            self._choices += [self._fail_sync]
        # Bits flip on one disk only: of each record others have a sound copy.
        self._rotting = self._chance.choice(list(cluster.nodes.values())) if faults.rot else None
        if self._rotting is not None:
            self._choices += [self._flip_bits]
        if faults.store_faults:
            self._choices += [self._lose_lease, self._lose_lease, self._store_down, self._cut_from_store]
            self._choices += [self._lag_watches, self._forget_history]

    async def run(self, until: float) -> None:
        loop = self._cluster.loop
        while True:
            await asyncio.sleep(self._chance.uniform(*PAUSE_BETWEEN_S))
            if loop.now >= until:
                return
            self._chance.choice(self._choices)()

    # -- the means

    def _tell(self, text: str) -> None:
        self._cluster.history.tell(text, "nemesis")

    def _later(self, mend: Callable[[], None], duration_s: tuple[float, float] = DURATION_S) -> None:
        self._cluster.loop.call_on(None, self._chance.uniform(*duration_s), mend)

    def _victim(self) -> Node | None:
        """A broker that runs."""
        running = [node for node in self._cluster.nodes.values() if node.is_running and not node.is_paused]
        return self._chance.choice(running) if running else None

    def _start_later(self, node: Node) -> None:
        def start() -> None:
            if not node.is_running:
                self._cluster.start(node)

        self._later(start)

    # -- brokers

    def _kill(self) -> None:
        if node := self._victim():
            self._cluster.kill(node)
            self._start_later(node)

    def _cut_power(self) -> None:
        if node := self._victim():
            self._cluster.cut_power(node)
            self._start_later(node)

    def _cut_all_power(self) -> None:
        self._tell("the power fails everywhere")
        for node in self._cluster.nodes.values():
            if node.is_running:
                self._cluster.cut_power(node)
                self._start_later(node)

    def _cut_power_in_a_write(self) -> None:
        if (node := self._victim()) and node.disk is not None:
            node.disk.changes_until_power_failure = self._chance.randrange(POWER_FAILURE_CHANGES_MAX) + 1
            self._tell(f"{node.name} will lose its power within {node.disk.changes_until_power_failure} changes")
            self._start_later(node)

    def _pause(self) -> None:
        if (node := self._victim()) and (machine := node.machine) is not None:
            self._tell(f"{node.name} stands still")
            self._cluster.loop.pause(machine)

            def resume() -> None:
                if machine.is_paused and not machine.is_crashed:
                    self._tell(f"{node.name} goes on")
                    self._cluster.loop.resume(machine)

            self._later(resume)

    def _restart(self) -> None:
        if node := self._victim():

            async def stop_and_start() -> None:
                await self._cluster.stop(node)
                if self._faults.power_failures and not node.is_running and self._chance.randrange(OFF_AFTER_STOP_ONE_IN) == 0:
                    self._cluster.switch_off(node)
                self._start_later(node)

            self._cluster.loop.create_task(stop_and_start())

    # -- links

    def _isolate(self) -> None:
        name = self._chance.choice(self._cluster.machine_names[:-1])
        self._cut([pair for other in self._cluster.machine_names if other != name for pair in ((name, other), (other, name))])

    def _cut_pair(self) -> None:
        one, other = self._chance.sample(self._cluster.machine_names[:-1], 2)
        self._cut([(one, other), (other, one)])

    def _cut_one_way(self) -> None:
        one = self._chance.choice(self._cluster.machine_names)
        other = self._chance.choice([name for name in [*self._cluster.machine_names, *self._clients] if name != one])
        if self._chance.randrange(2):
            one, other = other, one
        self._cut([(one, other)])

    def _cut_from_store(self) -> None:
        name = self._chance.choice(self._cluster.machine_names[:-1])
        self._cut([(name, STORE_NAME), (STORE_NAME, name)], LONG_S)

    def _cut(self, pairs: list[tuple[str, str]], duration_s: tuple[float, float] = DURATION_S) -> None:
        self._tell("cut: " + ", ".join(f"{one} -> {other}" for one, other in pairs))
        for one, other in pairs:
            self._cluster.network.cut(one, other)

        def heal() -> None:
            self._tell("healed: " + ", ".join(f"{one} -> {other}" for one, other in pairs))
            for one, other in pairs:
                self._cluster.network.heal(one, other)
            self._cluster.store.on_healed()

        self._later(heal, duration_s)

    def _slow_network(self) -> None:
        network = self._cluster.network
        network.delay_s = (0.0002, self._chance.uniform(*SLOW_NETWORK_S))
        self._tell(f"the network takes up to {network.delay_s[1]:.3f} s")

        def mend() -> None:
            network.delay_s = DELAY_S
            self._tell("the network is fast again")

        self._later(mend)

    # -- disks

    def _slow_disk(self) -> None:
        if (node := self._victim()) and (machine := node.machine) is not None:
            machine.blocking_seconds = (0.001, self._chance.uniform(*SLOW_DISK_S))
            self._tell(f"the disk of {node.name} takes up to {machine.blocking_seconds[1]:.3f} s")

            def mend() -> None:
                machine.blocking_seconds = BLOCKING_S
                self._tell(f"the disk of {node.name} is fast again")

            self._later(mend)

    def _fill_disk(self) -> None:
        """Nothing more fits for a while; then everything goes on by itself, unless somebody restarts the broker all the same."""
        if node := self._victim():
            node.medium.is_full = True
            self._tell(f"the disk of {node.name} is full")

            def mend() -> None:
                node.medium.is_full = False
                self._tell(f"the disk of {node.name} has room again")
                if self._chance.random() < 0.5 and node.is_running and not node.is_paused:
                    self._cluster.kill(node)
                    self._start_later(node)

            self._later(mend)

    def _fail_sync(self) -> None:
        if (node := self._victim()) and node.disk is not None:
            node.disk.failing_syncs = 1
            node.needs_restart = True
            self._tell(f"a sync of {node.name} will fail")

    def _flip_bits(self) -> None:
        """While a broker is down, its disk forgets.  What runs has its files in memory, and would not see it."""
        node = self._rotting
        if node is None or not node.is_running or node.is_paused:
            return
        self._cluster.kill(node)
        self._cluster.observer.rotten.add(node.broker_id)
        for flipped in flip_bits(node.medium, DATA, FLIPS):
            self._tell(f"a bit of {node.name} flips: {flipped}")
        self._start_later(node)

    # -- the store

    def _lose_lease(self) -> None:
        leases = sorted(self._cluster.store.leases)
        if leases:
            lease = self._chance.choice(leases)
            self._tell(f"lease {lease} is lost, unfairly")
            for key in sorted(self._cluster.store.ledger.keys_of_lease.get(lease, ())):
                if key.startswith(BROKERS):
                    self._cluster.observer.excuse(int(key.removeprefix(BROKERS)), UNAWARE_S)
            self._cluster.loop.tally[Fault.LOST_LEASE] += 1
            self._cluster.store.end_lease(lease)

    def _store_down(self) -> None:
        store = self._cluster.store
        store.is_down = True
        self._tell("the store does not answer")

        def mend() -> None:
            store.is_down = False
            store.on_healed()
            self._tell("the store answers again")

        self._later(mend)

    def _lag_watches(self) -> None:
        store = self._cluster.store
        store.watch_lag_s = (0.0, self._chance.uniform(*SLOW_WATCH_S))
        self._tell(f"watches lag by up to {store.watch_lag_s[1]:.3f} s")

        def mend() -> None:
            store.watch_lag_s = WATCH_LAG_S
            self._tell("watches do not lag any more")

        self._later(mend)

    def _forget_history(self) -> None:
        self._tell("the store forgets its past")
        self._cluster.store.ledger.compact()

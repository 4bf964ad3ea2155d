"""How well this broker's disk does, told to the others as reasons for DEGRADED: full, slow, gone, or partitions that it failed.

A flush is slow when it takes longer than `headrace.disk.slow.ms`; the disk is, when one flush in ten was within the last half
minute, or when one has been under way for ten times as long.  A data directory that vanished takes everything on it offline, and
the controller then lets others lead all of it.  A full one is only waited for: whatever it refused is tried again.
"""

import asyncio
import logging
from collections.abc import Callable

from headrace.broker.health.disk_space import DiskSpace
from headrace.broker.partitions.flushing import Flusher
from headrace.broker.partitions.replica_changes import ReplicaChanges
from headrace.broker.partitions.replicas import Replicas
from headrace.broker.partitions.storage import Storage
from headrace.broker.supervision.supervision import Rule, Scope, Supervisor
from headrace.metadata.membership import BrokerMembership
from headrace.metadata.store import StoreUnavailable
from headrace.model.errors import RequestError, StorageError
from headrace.model.live_config import LiveConfig

logger = logging.getLogger(__name__)

CHECK_S = 1.0
WINDOW_S = 30.0
SHARE = 0.9
FLUSHES_MIN = 10
HANGING = 10  # times as long as slow


def slow_disk(seconds: list[float], under_way_s: float, slow_s: float) -> str | None:
    """Why a disk counts as slow, given how long its latest flushes took and how long the oldest unfinished one has been."""
    if under_way_s > slow_s * HANGING:
        return f"slow disk: a flush has been under way for {under_way_s:.1f} s"
    if len(seconds) < FLUSHES_MIN:
        return None
    quantile = sorted(seconds)[int(len(seconds) * SHARE)]
    if quantile <= slow_s:
        return None
    return f"slow disk: one flush in ten takes {quantile * 1000:.0f} ms or more, and {slow_s * 1000:.0f} is the limit"


Look = tuple[StorageError | None, tuple[int, int]]  # why it is not there; its total and its free bytes


class DiskHealth:
    """Looks at the disk every few seconds."""

    def __init__(
        self,
        storage: Storage,
        space: DiskSpace,
        flusher: Flusher,
        replicas: Replicas,
        replica_changes: ReplicaChanges,
        membership: BrokerMembership,
        supervisor: Supervisor,
        *,
        config: LiveConfig,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._storage = storage
        self._space = space
        self._flusher = flusher
        self._replicas = replicas
        self._replica_changes = replica_changes
        self._membership = membership
        self._supervisor = supervisor
        self._config = config
        self._loop = loop
        # What makes room, or lets others lead who have some: called at each look at a disk that is full.
        self.on_short: list[Callable[[], None]] = []
        self._looking: asyncio.Future[Look] | None = None
        self.lost: StorageError | None = None  # the data directory is not there any more

    def start(self, scope: Scope) -> None:
        self._space.on_refused = self._look
        scope.start("disk health", self._watch, Rule.RESTART)

    def reasons(self) -> tuple[str, ...]:
        """What others should know, in words for people."""
        if self.lost is not None:
            return (f"the log directory is gone: {self._storage.name}",)
        offline = sum(partition.failure is not None for partition in self._replicas)
        found = [f"{offline} partition{'' if offline == 1 else 's'} offline"] if offline else []
        if self._space.is_short:
            found.insert(0, self._space.why_short())
        found += self._supervisor.troubles()
        slow = self._why_slow()
        return (*found, slow) if slow is not None else tuple(found)

    def _why_slow(self) -> str | None:
        now, times = self._loop.time(), self._flusher.times
        slow_s: float = self._config.now["headrace.disk.slow.ms"] / 1000
        return slow_disk(times.since(now - WINDOW_S), times.under_way(now), slow_s)

    async def _watch(self) -> None:
        while True:
            try:
                self._look()
                await asyncio.sleep(CHECK_S)
                await self.tell()
            except (StoreUnavailable, RequestError, StorageError) as error:
                logger.warning("the others could not be told how the disk does: %s", error)

    def _look(self) -> None:
        # A disk that hangs must not hang this: the answer is taken when it comes, and until then nobody asks again.
        if self._looking is None:
            self._looking = self._loop.run_in_executor(None, self._ask)
            self._looking.add_done_callback(self._on_looked)

    def _ask(self) -> "Look":
        """In a thread."""
        missing = self._storage.missing()
        return missing, self._storage.space() if missing is None else (-1, -1)

    def _on_looked(self, looking: "asyncio.Future[Look]") -> None:
        self._looking = None
        if looking.cancelled():
            return
        try:
            self._take(*looking.result())
        except Exception as error:
            # What was known of the disk is out of date from here on: people must hear of it.
            self._supervisor.report("the look at the disk", error)

    def _take(self, missing: StorageError | None, space: tuple[int, int]) -> None:
        total, free = space
        if missing is not None and self.lost is None:
            self._on_lost(missing)
        if missing is None:
            self._space.measured(total, free)
            if self._space.is_short:
                for act in self.on_short:
                    act()
            if self._space.may_try:
                self._replica_changes.try_again()

    def _on_lost(self, error: StorageError) -> None:
        self.lost = error
        logger.error("the data directory is gone; everything in it is offline: %s", error)
        for partition in self._replicas:
            partition.on_storage_failure(error)

    async def tell(self) -> None:
        """Let the others know, if anything is new.  Numbers change all the time; a disk that stays slow is no news."""
        reasons, membership = self.reasons(), self._membership
        known = membership.registration.degraded
        gives_up = self.lost is not None and not membership.registration.shutting_down
        if not gives_up and [_kind(reason) for reason in reasons] == [_kind(reason) for reason in known]:
            return
        for reason in reasons:
            logger.warning("this broker is degraded: %s", reason)
        if known and not reasons:
            logger.info("this broker is no longer degraded")
        if self.lost is not None:
            # As before a shutdown: others lead whatever they can, and nothing new comes here.
            await membership.update(degraded=reasons, shutting_down=True)
        else:
            await membership.update(degraded=reasons)


def _kind(reason: str) -> str:
    return reason.partition(":")[0]

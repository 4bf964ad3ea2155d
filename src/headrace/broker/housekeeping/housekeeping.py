"""What a broker does when nobody asks: old segments go, compacted topics are compacted, and offsets are written down.

All of it in the background: decisions on the event loop, files in threads, compaction in a worker process.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress

from headrace.broker.health.disk_health import DiskHealth
from headrace.broker.housekeeping.cleaner import Cleaner
from headrace.broker.housekeeping.file_removal import FileRemoval
from headrace.broker.housekeeping.slices import in_slices
from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.storage import Storage
from headrace.broker.supervision.supervision import Rule, Scope, Spawn
from headrace.host.allocator import give_memory_back
from headrace.host.clock import Clock
from headrace.log.cleaning.steps import Steps
from headrace.log.interface import CorruptBatch, PartitionLog
from headrace.log.memory.memory_log import MemoryLog
from headrace.model.errors import StorageError
from headrace.model.identity import TopicPartition
from headrace.model.live_config import LiveConfig

logger = logging.getLogger(__name__)

# How often it is looked whether the time to live of a record is over.
EXPIRY_INTERVAL_S = 1.0
# In memory expiry is work of the event loop: it rests for so many times as long as it worked.
REST_PER_WORK = 10
# Between two partitions the loop gets a turn, so that a thousand of them are not one long silence.
PARTITIONS_PER_TURN = 20
# So many partitions took enough memory to be worth giving back, when no more have gone for so long.
REMOVED_BEFORE_TRIM = 500
QUIET_S = 1.0


class Housekeeping:
    """The broker's background work."""

    def __init__(
        self,
        replicas: Iterable[Partition],
        storage: Storage,
        removal: FileRemoval,
        cleaner: Cleaner,
        health: DiskHealth,
        *,
        config: LiveConfig,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        spawn: Spawn,
    ) -> None:
        self._replicas = replicas
        self._storage = storage
        self._removal = removal
        self.cleaner = cleaner
        self._health = health
        self._config = config
        self._clock = clock
        self._loop = loop
        self._spawn = spawn
        self._altered = asyncio.Event()
        # One round over logs in memory at a time: each goes on where it was.
        self._memory_turn = asyncio.Lock()
        # Partitions that went since memory was last given back.
        self._removed = 0

    def start(self, scope: Scope) -> None:
        self._scope = scope
        self._scope.start("removal", self._removal.unlink_for_ever, Rule.RESTART)
        self._repeat("retention", "log.retention.check.interval.ms", self.apply_retention)
        self._scope.start("expiry", self._expire, Rule.RESTART)
        if self._config.now["log.cleaner.enable"]:
            self._repeat("cleaning", "log.cleaner.backoff.ms", self.cleaner.clean_all)
        self._repeat("checkpoints", "log.flush.offset.checkpoint.interval.ms", self.checkpoint)

    async def close(self) -> None:
        await self._scope.close()
        await self.cleaner.close()

    def _repeat(self, name: str, setting: str, function: Callable[[], Awaitable[None]]) -> None:
        async def loop() -> None:
            while True:
                interval_ms = await self._wait_for_interval(setting)
                try:
                    await function()
                except StorageError as error:
                    # The machine's fault, which partitions are told of where it concerns them.
                    logger.error("%s failed; it is tried again in %d ms: %s", name, interval_ms, error)

        self._scope.start(name, loop, Rule.RESTART)

    async def _wait_for_interval(self, setting: str) -> int:
        """Wait for as long as the setting says, also where it changes meanwhile; how long that was, in milliseconds."""
        began = self._loop.time()
        while (left := began + max(1, self._config.now[setting]) / 1000 - self._loop.time()) > 0:
            self._altered.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._altered.wait()
        return int(self._config.now[setting])

    def on_settings(self) -> None:
        """A setting was changed at run time: whoever rests looks at how long."""
        self._altered.set()

    # -- retention

    async def apply_retention(self) -> None:
        """Remove whole segments that are too old or too many."""
        for turn, partition in enumerate(list(self._online())):
            if isinstance(partition.log, MemoryLog):
                await self._clean_in_memory(partition, partition.log.retention_steps)
                continue
            try:
                removed = partition.log.apply_retention(self._clock.wall_ms(), partition.high_watermark)
            except CorruptBatch as error:
                logger.error("retention cannot read %s: %s", partition.identity, error)
                partition.note_damage()
                continue
            except StorageError as error:
                partition.on_storage_failure(error)
                continue
            self._removal.unlink_soon(removed)
            if turn % PARTITIONS_PER_TURN == PARTITIONS_PER_TURN - 1:
                await asyncio.sleep(0)

    async def _clean_in_memory(self, partition: Partition, steps: Callable[[int, int], Steps[None]]) -> None:
        async with self._memory_turn:
            await in_slices(self._loop, self._clock, steps(self._clock.wall_ms(), partition.high_watermark))

    # -- expiry

    async def _expire(self) -> None:
        """Records whose time to live is over go soon, however rarely the rest is cleaned."""
        rest = EXPIRY_INTERVAL_S
        while True:
            await asyncio.sleep(rest)
            began = self._loop.time()
            await self.expire_in_memory()
            rest = max(EXPIRY_INTERVAL_S, REST_PER_WORK * (self._loop.time() - began))
            if self._config.now["log.cleaner.enable"]:
                await self.cleaner.expire_all()

    async def expire_in_memory(self) -> None:
        """Remove what has expired from the logs in memory."""
        for partition in list(self._online()):
            log = partition.log
            if isinstance(log, MemoryLog) and log.has_expiry_work(self._clock.wall_ms(), partition.high_watermark):
                await self._clean_in_memory(partition, log.expiry_steps)

    def on_removed(self, partition: Partition) -> None:
        """A partition has gone.  Once many have, what they took is given back to the machine."""
        self._removed += 1
        if self._removed == REMOVED_BEFORE_TRIM:
            self._spawn(self._give_memory_back(), "giving memory back")

    async def _give_memory_back(self) -> None:
        seen = 0
        while seen != self._removed:
            seen = self._removed
            await asyncio.sleep(QUIET_S)
        self._removed = 0
        await self._loop.run_in_executor(None, give_memory_back)

    # -- offsets on disk

    async def checkpoint(self) -> None:
        """Write high watermarks, recovery points and log starts down."""
        if self._health.lost is not None:
            return
        high_watermarks, logs = positions(self._replicas)
        await self._loop.run_in_executor(None, self._storage.checkpoint, high_watermarks, logs)

    def _online(self) -> Iterator[Partition]:
        return (partition for partition in self._replicas if partition.failure is None)


def positions(partitions: Iterable[Partition]) -> tuple[dict[TopicPartition, int], dict[TopicPartition, PartitionLog]]:
    """How far each partition that is online has got, as the next start may believe it, and its log.

    A follower hears of a high watermark before it has flushed what lies below: a power failure could bring back what it had
    given up there.
    """
    online = [partition for partition in partitions if partition.failure is None]
    return {p.identity: min(p.high_watermark, p.safe_end) for p in online}, {p.identity: p.log for p in online}

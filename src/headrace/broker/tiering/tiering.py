"""Tiered storage on this broker: its replicas of tiered topics, each with its part in the object store, tended in turns.

Made only where `headrace.remote.url` is set.  A partition is tended by one task at a time, a few partitions at once, and each
round tries again what the store refused in the one before."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from headrace.broker.housekeeping.file_removal import FileRemoval
from headrace.broker.metrics.figures import TierFigures
from headrace.broker.partitions.log_starts import LogStarts
from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.replicas import Replicas
from headrace.broker.supervision.supervision import Rule, Scope
from headrace.broker.tiering.manifests import ManifestObject
from headrace.broker.tiering.range_cache import RangeCache
from headrace.broker.tiering.reading import RemoteReader
from headrace.broker.tiering.remote_part import RemotePart
from headrace.broker.tiering.restoring import Restoring
from headrace.broker.tiering.sweeping import Sweeper
from headrace.broker.tiering.tending import Tending
from headrace.broker.tiering.throttle import UploadThrottle
from headrace.broker.tiering.topic_objects import TopicObjects
from headrace.broker.tiering.uploading import Uploading
from headrace.controller.entries import PartitionState
from headrace.controller.image import CurrentImage
from headrace.host.clock import Clock
from headrace.host.disk import Disk
from headrace.host.entropy import Entropy
from headrace.log.log import Log
from headrace.model.errors import StorageError
from headrace.model.live_config import LiveConfig
from headrace.objects.store import ObjectStore, StoreError
from headrace.tier.naming import partition_folder
from headrace.tier.plan import Deposed, OtherHistory

logger = logging.getLogger(__name__)

TENDED_AT_ONCE = 4
CACHE_FOLDER = ".remote-cache"
INTERVAL = "remote.log.manager.task.interval.ms"
SWEEP_INTERVAL = "headrace.remote.sweep.interval.ms"

Result = TypeVar("Result")


class Tiering:
    """The parts in the store of all replicas on this broker."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        replicas: Replicas,
        image: CurrentImage,
        is_controller: Callable[[], bool],
        config: LiveConfig,
        folder: Path,
        disk: Disk,
        clock: Clock,
        entropy: Entropy,
        loop: asyncio.AbstractEventLoop,
        removal: FileRemoval,
        log_starts: LogStarts,
        scope: Scope,
        figures: TierFigures,
    ) -> None:
        self._store = store
        self._replicas = replicas
        self._image = image
        self._is_controller = is_controller
        self._config = config
        self._clock = clock
        self._loop = loop
        self._scope = scope
        self.figures = figures
        self.parts: dict[Partition, RemotePart] = {}
        self._busy: set[RemotePart] = set()
        self._turns = asyncio.Semaphore(TENDED_AT_ONCE)
        self._swept_at = float("-inf")
        self._has_swept = True
        self.cache = RangeCache(
            store,
            folder / CACHE_FOLDER,
            disk,
            loop,
            lambda: config.now["headrace.remote.cache.bytes"],
            partial(self._run, "read object"),
        )
        self._reader = RemoteReader(store, self.cache, loop)
        uploading = Uploading(
            store=store,
            disk=disk,
            loop=loop,
            throttle=UploadThrottle(config, loop.time),
            new_name=lambda: entropy.uuid().hex,
            timeout_s=config.now["headrace.remote.timeout.ms"] / 1000,
        )
        self.tending = Tending(
            store=store, uploading=uploading, removal=removal, log_starts=log_starts, clock=clock, figures=figures
        )
        cluster_id = image().cluster_id
        self._cluster_id = cluster_id
        self._sweeper = Sweeper(store, self.tending, cluster_id, image, lambda: config.now["headrace.remote.sweep.grace.ms"])
        self._topics = TopicObjects(store, cluster_id, image)
        self._restoring = Restoring(store, removal)

    def _run(self, kind: str, coroutine: Coroutine[Any, Any, Result]) -> "asyncio.Task[Result]":
        # Whoever waits for it hears of its end; there is nothing to be done besides.
        return self._scope.spawn(kind, coroutine, Rule.LOG)  # type: ignore[arg-type, return-value]

    def start(self) -> None:
        self._scope.start("tiered storage", self._tend_for_ever, Rule.RESTART)

    # -- which partitions

    def on_role(self, partition: Partition) -> None:
        """A partition is led or followed here: one of a tiered topic has a part in the store."""
        if partition.config.remote_storage_enable and isinstance(partition.log, Log):
            self._part_of(partition)

    def _part_of(self, partition: Partition) -> RemotePart:
        if partition in self.parts:
            return self.parts[partition]
        topic, index = partition.identity
        folder = partition_folder(self._cluster_id, partition.topic_id, index)
        manifest = ManifestObject(self._store, folder, topic, index)
        part = RemotePart(partition, folder, manifest, self._reader, partial(self._run, "read from store"))
        self.parts[partition] = partition.remote = part
        return part

    def why_not_yet(self, partition: Partition, state: PartitionState) -> str | None:
        """A leader whose disk was lost goes on behind what the store has: that has to be known before anybody writes."""
        log, config = partition.log, partition.config
        if not config.remote_storage_enable or not isinstance(log, Log) or log.end_offset or not log.is_new:
            return None
        part = self._part_of(partition)
        if part.is_looked_up or (state.leader_epoch == 0 and not config.remote_from):
            return None
        if not part.is_being_looked_up:
            part.is_being_looked_up = True
            self._scope.spawn("look up remote part", self._look_up(part, log))
        return "looking up what the object store has of it: it cannot be led until that is known, and taking it up"

    async def _look_up(self, part: RemotePart, log: Log) -> None:
        try:
            await self._restoring.restore(part, log)
        except (StoreError, StorageError) as error:
            logger.warning("%s: what the object store has of it is not known yet: %s", part.partition.identity, error)
        finally:
            part.is_being_looked_up = False

    def on_removed(self, partition: Partition) -> None:
        self.parts.pop(partition, None)

    # -- what is done

    async def _tend_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._config.now[INTERVAL] / 1000)
            for partition in self._replicas:
                self.on_role(partition)  # it may be tiered since
            for part in list(self.parts.values()):
                if part not in self._busy:
                    self._busy.add(part)
                    self._scope.spawn("tend a partition", self._tend_in_turn(part))
            if self._is_controller() and self._is_due(self._swept_at):
                self._swept_at = self._loop.time()
                self._scope.spawn("sweep deleted topics", self._sweep_topics())

    def _is_due(self, swept_at: float) -> bool:
        return bool(self._loop.time() - swept_at >= self._config.now[SWEEP_INTERVAL] / 1000)

    async def _tend_in_turn(self, part: RemotePart) -> None:
        try:
            async with self._turns:
                await self.tend(part)
        finally:
            self._busy.discard(part)

    async def tend(self, part: RemotePart) -> None:
        """One round of one partition; what the store refuses is for the next."""
        if self.parts.get(part.partition) is not part:
            return
        try:
            await self.tending.tend(part)
            if part.partition.is_leader and part.claimed_epoch == part.partition.leader_epoch:
                await self._topics.write(part.partition)
                if self._is_due(part.swept_at):
                    part.swept_at = self._loop.time()
                    self.figures.swept_objects += await self._sweeper.sweep_partition(part)
            self._on_success(part)
        except Deposed:
            return
        except (StoreError, StorageError, OtherHistory) as error:
            self._on_failure(part, str(error))

    def _on_success(self, part: RemotePart) -> None:
        if part.failure is not None:
            logger.info("%s: the object store works again", part.partition.identity)
            part.failure = None

    def _on_failure(self, part: RemotePart, why: str) -> None:
        self.figures.failures += 1
        # Once for each time, and not for each try.
        level = logging.WARNING if part.failure is None else logging.DEBUG
        logger.log(
            level, "%s: the object store: %s; it is tried again, and nothing leaves the disk", part.partition.identity, why
        )
        part.failure = why

    async def _sweep_topics(self) -> None:
        try:
            await self._sweeper.sweep_topics()
            self._has_swept = True
        except StoreError as error:
            self.figures.failures += 1
            # Once for each time, and not for each try.
            level = logging.WARNING if self._has_swept else logging.DEBUG
            logger.log(level, "deleted topics stay in the object store for now: %s", error)
            self._has_swept = False

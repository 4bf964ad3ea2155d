"""A broker: its parts, in the order in which they start and stop.

A single node is a cluster of one: the same metadata, the same partitions, only the store differs.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.broker.administration.auto_creation import AutoCreation
from headrace.broker.administration.config_resources import ConfigChanges
from headrace.broker.administration.partition_changes import PartitionChanges
from headrace.broker.administration.settings_view import BrokerSources
from headrace.broker.administration.topics import Topics
from headrace.broker.cluster.metadata_store import open_store
from headrace.broker.cluster.participation import Clustering
from headrace.broker.cluster.peers import PEER, Peers
from headrace.broker.coordinators.groups.coordinator import GroupCoordinator
from headrace.broker.coordinators.transactions.coordinator import TransactionCoordinator
from headrace.broker.coordinators.transactions.marker_writes import MarkerWriter
from headrace.broker.coordinators.transactions.verification import TransactionVerification
from headrace.broker.health.disk_space import DiskSpace
from headrace.broker.health.health import HealthListener, Phase
from headrace.broker.housekeeping.housekeeping import Housekeeping
from headrace.broker.network.dispatch import Dispatcher
from headrace.broker.network.listeners import endpoint_of
from headrace.broker.network.request_tasks import RequestTasks
from headrace.broker.network.server import Server
from headrace.broker.network.throttling import Throttling
from headrace.broker.partitions.flushing import LANES, Flusher, in_lanes
from headrace.broker.partitions.log_starts import LogStarts
from headrace.broker.partitions.nearest import NearbyReplicas
from headrace.broker.partitions.page_cache import PageCache
from headrace.broker.partitions.replicas import Replicas
from headrace.broker.partitions.storage import DiskStorage, MemoryStorage, Storage
from headrace.broker.partitions.topic_sizes import TopicSizes
from headrace.broker.parts import Parts
from headrace.broker.routes import routes
from headrace.broker.supervision.supervision import Function, Rule, Service, Supervisor, aside
from headrace.controller.changes import BrokerChanged, BrokerConfigsChanged, Change, QuotaChanged, TopicDeleted
from headrace.controller.entries import BrokerRegistration, Endpoint
from headrace.controller.image import ClusterImage
from headrace.host.clock import Clock, SystemClock
from headrace.host.disk import Disk, SystemDisk
from headrace.host.ending import exit_within
from headrace.host.entropy import Entropy, SystemEntropy
from headrace.host.memory import page_cache_bytes
from headrace.host.names import name_of_this_machine
from headrace.host.signals import ending_signals
from headrace.metadata.cluster import ClusterMetadata
from headrace.metadata.membership import BrokerMembership, NodeIdTaken
from headrace.metadata.sqlite import SqliteStore
from headrace.metadata.store import MetadataStore, StoreRefused, StoreUnavailable
from headrace.model.broker_settings import BrokerConfig
from headrace.model.errors import RequestError
from headrace.model.listeners import Address, read_listeners
from headrace.model.live_config import LiveConfig
from headrace.security.quotas import Quotas

logger = logging.getLogger(__name__)

# Flushes, cold reads and file work share these; flushes alone may take as many as they have lanes.
THREADS = LANES + 8
# A broker that ends by itself has so long to hand over, flush and write everything down.
END_SECONDS_MAX = 30.0
# If that does not work, it has so long to let go of everything, and after that its process is given so long.
LET_GO_SECONDS_MAX = 5.0
EXIT_SECONDS_MAX = 5.0


@dataclass(frozen=True, slots=True)
class Host:
    """What a broker stands on."""

    clock: Clock = field(default_factory=SystemClock)
    disk: Disk = field(default_factory=SystemDisk)
    entropy: Entropy = field(default_factory=SystemEntropy)
    # Heavy work goes to processes of its own, which know only the real disk; elsewhere it goes to a thread.
    worker_processes: bool = True
    open_store: Callable[[BrokerConfig, Entropy], Awaitable[MetadataStore]] = open_store
    # How much of what was written last the system keeps in memory.
    page_cache_bytes: int = field(default_factory=page_cache_bytes)


class NoMetadata(Exception):
    """A broker cannot start: its metadata store does not answer, or says no."""


class CannotStart(Exception):
    """A broker cannot start, for a reason in words for people."""


class Broker:
    """Make one, `await start()`, let it serve, `await stop()`."""

    def __init__(self, config: BrokerConfig, host: Host | None = None) -> None:
        self.host = host or Host()
        self.live_config = LiveConfig(config)
        self.clock = self.host.clock
        self.broker_id: int = config["node.id"]
        self.fetch_bytes_max: int = config["fetch.max.bytes"]
        self.topics = Topics(self)
        self.auto_creation = AutoCreation(self)
        self.housekeeping = Housekeeping(self)
        self.listeners = read_listeners(config)
        # Where each listener is, from when it is bound.
        self.addresses: dict[str, Address] = {}
        self.phase = Phase.STARTING
        self.health = HealthListener(self)
        # All that goes on in this broker, and the part of it that came up on the way and is done once.
        self.supervisor = Supervisor(self.clock, on_end=self._on_end)
        self._one_offs = self.supervisor.scope("one-offs")
        # Who waits for the start, while it lasts; what stops the broker, once that has begun.
        self._starting: asyncio.Task[Any] | None = None
        self._stopping: asyncio.Task[None] | None = None
        # Hears when the broker ends by itself; `stop` then raises why.
        self.on_end: Callable[[], None] = lambda: None

    @property
    def config(self) -> BrokerConfig:
        """The settings as they are now."""
        return self.live_config.now

    @property
    def image(self) -> ClusterImage:
        return self.cluster.image

    def current_image(self) -> ClusterImage:
        return self.cluster.image

    @property
    def address(self) -> Address:
        """Where the first listener is."""
        return next(iter(self.addresses.values()))

    def setting_sources(self) -> BrokerSources:
        return BrokerSources(self.config, self.image, self.broker_id)

    def spawn(self, work: Coroutine[Any, Any, None], kind: str = "") -> None:
        """Run something once, beside the event loop's present work; it ends with the broker at the latest."""
        self._one_offs.spawn(kind or getattr(work, "__qualname__", "one-off"), work)

    def _keep(self, kind: str, function: Function) -> Service:
        return self.supervisor.start(kind, function, Rule.RESTART_OR_END)

    # -- starting

    async def start(self) -> None:
        """Return when clients are served."""
        self.loop = asyncio.get_running_loop()
        self._starting = asyncio.current_task()
        try:
            await self._start_or_undo()
        except asyncio.CancelledError:
            if self.supervisor.failure is None or self._starting is None:
                raise
            # It was this broker that had the start end.
            self._starting.uncancel()
            raise self.supervisor.failure from None
        finally:
            self._starting = None

    async def _start_or_undo(self) -> None:
        # Whoever sees a start fail starts again, perhaps in this very process.
        async with AsyncExitStack() as undoing:
            await self.health.start()
            undoing.push_async_callback(self.health.close)
            undoing.push_async_callback(self._undo_storage)
            await self._in_thread(self._open_storage)
            self.store = await self.host.open_store(self.config, self.host.entropy)
            if isinstance(self.store, SqliteStore):
                self.store.make_room = self.storage.make_room
            undoing.push_async_callback(self.store.close)
            undoing.push_async_callback(self._undo_start)
            await self._start()
            undoing.pop_all()

    def give_up_start(self) -> None:
        """Have a start that is under way end soon, with everything as it was; `start` is cancelled."""
        if self._starting is not None:
            if hasattr(self, "storage"):
                self.storage.give_up()
            self._starting.cancel()

    async def _undo_start(self) -> None:
        self.phase = Phase.STOPPING
        if hasattr(self, "server"):
            await self.server.close()
        if hasattr(self, "membership"):
            await self.membership.leave()
        await self.supervisor.close()

    async def _undo_storage(self) -> None:
        """Unlock.  What was opened is closed as ever; a clean end of the last time stays one."""
        if not hasattr(self, "storage"):
            return
        high_watermarks, logs = self.housekeeping.positions() if hasattr(self, "replicas") else ({}, {})
        if logs:
            await self.loop.run_in_executor(None, self.storage.close, high_watermarks, logs)
        else:
            self.storage.release()

    async def _in_thread(self, work: Callable[..., None], *arguments: Any) -> None:
        """Return when it is done, also when the start is given up meanwhile: what a thread does cannot be taken back."""
        working = self.loop.run_in_executor(None, work, *arguments)
        try:
            await asyncio.shield(working)
        except asyncio.CancelledError:
            await asyncio.wait([working])
            raise

    async def _start(self) -> None:
        self.cluster = ClusterMetadata(self.store, self.host.entropy)
        await self.cluster.start(self._keep)
        await self._in_thread(self.storage.adopt, self.cluster.cluster_id, self.broker_id)
        self._take_run_time_settings()
        self.flusher = Flusher(self.loop, report=self.supervisor.report)
        self.log_starts = LogStarts(self.storage, self.loop)
        self.space = DiskSpace(self.storage.name, lambda: self.config["log.dir.reserved.bytes"], self.loop.time)
        # Before anybody can write.
        self.space.measured(*await self.loop.run_in_executor(None, self.storage.space))
        self.replicas = Replicas(
            self.broker_id,
            lambda: self.image,
            self.storage,
            self.flusher,
            self.topics.config_of,
            self.loop,
            self.supervisor.scope("replicas"),
            self.space,
            PageCache(self.host.page_cache_bytes),
        )
        self.replicas.unlink_later = self.housekeeping.unlink_later
        self.replicas.on_removed.append(self.housekeeping.on_removed)
        self.peers = Peers(f"{PEER}-{self.broker_id}", self._address_of)
        self._make_coordinators()
        self.partition_changes = PartitionChanges(self.cluster, self.topics.config_of, self.clock)
        self.config_changes = ConfigChanges(self.cluster, self.topics, self.replicas, self.live_config, self.broker_id)
        self.quotas = Quotas(lambda: self.image.quotas, lambda: len(self.image.brokers))
        self.topic_sizes = TopicSizes(self)
        self.clustering = Clustering(self)
        self.throttling = Throttling(self.quotas, self.current_image, self.loop.time, self.topic_sizes.size_of)
        self.nearby = NearbyReplicas(self.config, self.current_image, self.broker_id)
        self.request_tasks = RequestTasks(self.supervisor.scope("requests"))
        self.dispatcher = Dispatcher(routes(self._parts()), self.throttling, self.request_tasks, self.clock)
        self.server = Server(self.config, self.dispatcher.start, self.loop)
        self.server.connection_wait = self.throttling.connection_wait
        await self._join()

    def _make_coordinators(self) -> None:
        self.groups = GroupCoordinator(
            self.config,
            cluster=self.cluster,
            replicas=self.replicas,
            clock=self.clock,
            disk=self.host.disk,
            loop=self.loop,
            scope=self.supervisor.scope("groups"),
        )
        self.marker_writer = MarkerWriter(self.replicas, self.groups.shards, self.clock)
        self.transactions = TransactionCoordinator(
            self.config,
            cluster=self.cluster,
            replicas=self.replicas,
            peers=self.peers,
            marker_writer=self.marker_writer,
            clock=self.clock,
            disk=self.host.disk,
            loop=self.loop,
            scope=self.supervisor.scope("transactions"),
            spawn=self.spawn,
        )
        self.verification = TransactionVerification(
            self.broker_id,
            self.transactions,
            cluster=self.cluster,
            peers=self.peers,
            spawn=self.spawn,
            is_enabled=lambda: self.config["transaction.partition.verification.enable"],
        )

    def _parts(self) -> Parts:
        return Parts(
            broker_id=self.broker_id,
            clock=self.clock,
            entropy=self.host.entropy,
            loop=self.loop,
            cluster=self.cluster,
            image=self.current_image,
            config=self.live_config,
            sources=self.setting_sources,
            storage=self.storage,
            space=self.space,
            replicas=self.replicas,
            log_starts=self.log_starts,
            housekeeping=self.housekeeping,
            health=self.clustering.health,
            topics=self.topics,
            auto_creation=self.auto_creation,
            partition_changes=self.partition_changes,
            config_changes=self.config_changes,
            groups=self.groups.shards,
            transactions=self.transactions,
            marker_writer=self.marker_writer,
            verification=self.verification,
            tasks=self.request_tasks,
            throttling=self.throttling,
            peers=self.peers,
            broker=self,
        )

    async def _join(self) -> None:
        """Take an address; register it; take up what the metadata places here; then let clients in."""
        endpoints = await self._listen()
        registration = BrokerRegistration(
            broker_id=self.broker_id,
            incarnation=str(self.host.entropy.uuid()),
            endpoints=endpoints,
            rack=self.config["broker.rack"],
            memory=self.storage.memory,
        )
        self.membership = BrokerMembership(
            self.cluster,
            registration,
            on_lost=self._on_lease_lost,
            on_regained=self.replicas.reconsider_roles,
            lease_ttl_s=self.config["broker.session.timeout.ms"] / 1000,
        )
        await self.membership.join(self._keep)
        self.cluster.on_change(self._on_changes, renewed=self._on_renewed)
        self.clustering.start()
        await self.replicas.start()
        await self.clustering.admitted()
        await self.server.open()
        self.supervisor.start("connection sweeper", self.server.sweep_for_ever, Rule.RESTART)
        self.phase = Phase.SERVING
        self.housekeeping.start()
        logger.debug("what runs, and what follows when it dies:\n%s", "\n".join(self.supervisor.tree()))

    def _open_storage(self) -> None:
        if self.config["headrace.memory"]:
            self.storage: Storage = MemoryStorage(self.clock)
        else:
            self.storage = DiskStorage(Path(self.config["log.dirs"]), self.host.disk, self.clock)

    async def _listen(self) -> dict[str, Endpoint]:
        """Take every listener's address; what the others are told of them, by name."""
        told = {}
        for listener in self.listeners.each:
            bound = self.addresses[listener.name] = await self.server.listen(listener)
            host = listener.advertised.host or await self.loop.run_in_executor(None, name_of_this_machine)
            port = listener.advertised.port or bound.port
            told[listener.name] = Endpoint(host=host, port=port, security_protocol=listener.security_protocol)
        return told

    def _address_of(self, broker_id: int) -> tuple[str, int] | None:
        """Where another broker listens; None when it is not there."""
        member = self.image.brokers.get(broker_id)
        endpoint = endpoint_of(member, self.listeners.inter_broker) if member is not None else None
        return None if endpoint is None else (endpoint.host, endpoint.port)

    # -- changes

    def _on_changes(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if isinstance(change, BrokerConfigsChanged):
                self._take_run_time_settings()
            elif isinstance(change, QuotaChanged | BrokerChanged):
                self.quotas.on_change()
            elif isinstance(change, TopicDeleted):
                self.topic_sizes.forget(change.name)
            self.replicas.submit(change)

    def _on_renewed(self) -> None:
        """Changes may have been missed: see to all that they could have been about."""
        self._take_run_time_settings()
        self.quotas.on_change()
        self.topic_sizes.forget_all()
        self.replicas.reconcile()

    def _take_run_time_settings(self) -> None:
        self.live_config.now = self.config.with_altered(self.image.configs_of_broker(self.broker_id))
        self.housekeeping.on_settings()
        if hasattr(self, "server"):
            self.server.connections_max = self.config["max.connections"]

    def _on_lease_lost(self) -> None:
        logger.error("broker %d lost its place in the cluster and is registering anew", self.broker_id)
        self.clustering.on_lease_lost()

    # -- stopping

    async def stop(self) -> None:
        """Finish what is acknowledged, write everything down, leave a mark that the end was clean.

        Raises BrokerFailed when the broker had ended by itself."""
        if self._stopping is None:
            self._stopping = aside(self._stop(), "stop")
        await asyncio.shield(self._stopping)
        if self.supervisor.failure is not None:
            raise self.supervisor.failure

    def _on_end(self) -> None:
        """Something without which there is no broker has died: stop as well as that still goes."""
        if self._starting is not None:
            self.give_up_start()
        elif self._stopping is None:
            self._stopping = aside(self._end(), "end")
        self.on_end()

    async def _end(self) -> None:
        if not await self._ends_within(END_SECONDS_MAX, self._stop(), "stop"):
            await self._ends_within(LET_GO_SECONDS_MAX, self._let_go(), "let go")

    async def _ends_within(self, seconds: float, work: Coroutine[Any, Any, None], name: str) -> bool:
        """Whether it did, and well.  A thread that hangs in a disk makes whoever waits for it deaf: nobody waits for them."""
        working = aside(work, name)
        await asyncio.wait([working], timeout=seconds)
        if not working.done():
            working.cancel()
            logger.error("the broker could not %s within %.0f s", name, seconds)
            return False
        error = None if working.cancelled() else working.exception()
        if working.cancelled() or error is not None:
            logger.error("the broker could not %s well", name, exc_info=error)
            return False
        return True

    async def _stop(self) -> None:
        self.phase = Phase.STOPPING
        await self.clustering.hand_over()
        await self.housekeeping.close()
        self.server.stop_listening()
        await self.flusher.drain()
        await self.server.close()
        await self.request_tasks.close()
        self.transactions.close()
        self.groups.close()
        await self._one_offs.close()
        await self.clustering.close()
        await self.replicas.close()
        self.peers.close()
        await self.membership.leave()
        await self.cluster.close()
        await self.supervisor.close()
        await self._flush_everything()
        high_watermarks, logs = self.housekeeping.positions()
        lanes = [dict(lane) for lane in in_lanes(list(logs.items()), LANES)]
        await asyncio.gather(*(self.loop.run_in_executor(None, self.storage.close_many, lane) for lane in lanes))
        await self.loop.run_in_executor(None, self.storage.close, high_watermarks, logs)
        await self.store.close()
        await self.health.close()

    async def _flush_everything(self) -> None:
        """In many lanes at once, as logs are closed after it."""
        for partition in self.replicas:
            if partition.failure is None and partition.log.unflushed_messages:
                self.flusher.request(partition)
        await self.flusher.drain()

    async def abandon(self) -> None:
        """Let go of everything as a crash would: nothing is flushed, finished or written down."""
        self.supervisor.shut()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._let_go()

    async def _let_go(self) -> None:
        self.supervisor.shut()
        await self.health.close()
        await self.server.close()
        await self.supervisor.close()
        self.storage.release()
        await self.store.close()


async def run(config: BrokerConfig, on_ready: Callable[[Broker], None]) -> None:
    """Serve until a signal asks it to end, or until it ends by itself and raises why."""
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(THREADS, thread_name_prefix="headrace"))
    stopping = asyncio.Event()
    broker = Broker(config)

    def on_end() -> None:
        stopping.set()
        exit_within(END_SECONDS_MAX + LET_GO_SECONDS_MAX + EXIT_SECONDS_MAX, why=str(broker.supervisor.failure))

    broker.on_end = on_end

    def on_signal() -> None:
        if not stopping.is_set():
            stopping.set()
            broker.give_up_start()

    for number in ending_signals():
        loop.add_signal_handler(number, on_signal)
    try:
        await broker.start()
    except asyncio.CancelledError:
        if not stopping.is_set():
            raise
        logger.info("the broker was stopped before it finished starting")
        return
    on_ready(broker)
    await stopping.wait()
    await broker.stop()


def serve(config: BrokerConfig, on_ready: Callable[[Broker], None]) -> None:
    """Run a broker in this process until it is told to stop.  Raises NoMetadata, CannotStart, OSError, BrokerFailed."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(run(config, on_ready))
        except (StoreRefused, StoreUnavailable) as error:
            raise NoMetadata(str(error)) from error
        except (NodeIdTaken, RequestError) as error:
            raise CannotStart(str(error)) from error

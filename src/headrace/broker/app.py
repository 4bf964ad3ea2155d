"""A broker: its parts, in the order in which they start and stop.

A single node is a cluster of one: the same metadata, the same partitions, only the store differs.
"""

import asyncio
import logging
import secrets
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.broker.access.admission import refusal
from headrace.broker.health.health import Condition, HealthPages, Phase, not_serving, serving
from headrace.broker.health.step_reports import StepReports
from headrace.broker.housekeeping.closing import close_logs, flushing
from headrace.broker.housekeeping.housekeeping import positions
from headrace.broker.metrics.collecting import Collection
from headrace.broker.metrics.collecting import Page as MetricsPage
from headrace.broker.metrics.collectors.process import ProcessCollector
from headrace.broker.metrics.figures import Figures
from headrace.broker.metrics.pages import MetricsPages
from headrace.broker.network.dispatch import Dispatcher
from headrace.broker.network.http_listener import HttpListener
from headrace.broker.network.server import Server
from headrace.broker.partitions.flushing import FLUSH_THREADS
from headrace.broker.partitions.storage import DiskStorage, MemoryStorage, Storage
from headrace.broker.parts import Host, Parts
from headrace.broker.routes import routes
from headrace.broker.sign_in.sign_in import SignIns
from headrace.broker.supervision.supervision import Function, Rule, Service, Supervisor, aside
from headrace.broker.tls.tls import Tls
from headrace.broker.tracing.trail import Trail
from headrace.controller.access.scram_credentials import create_scram_seed
from headrace.controller.changes import (
    BrokerChanged,
    BrokerConfigsChanged,
    Change,
    QuotaChanged,
    ScramCredentialChanged,
    TopicDeleted,
)
from headrace.controller.entries import Endpoint
from headrace.controller.image import ClusterImage
from headrace.host.allocator import give_memory_back, keep_freed_memory
from headrace.host.collecting import keep_collections_short
from headrace.host.ending import ending_signals, exit_within, has_terminal
from headrace.host.names import name_of_this_machine
from headrace.host.systemd import tell_service_manager
from headrace.metadata.cluster import ClusterMetadata
from headrace.metadata.measured import MeasuredStore
from headrace.metadata.membership import NodeIdTaken
from headrace.metadata.sqlite import SqliteStore
from headrace.metadata.store import StoreRefused, StoreUnavailable
from headrace.model.broker_settings import BrokerConfig
from headrace.model.errors import RequestError
from headrace.model.listeners import Address, check_names, read_listeners
from headrace.model.live_config import LiveConfig, reloaded_settings
from headrace.model.settings import SettingError

if TYPE_CHECKING:
    from headrace.broker.network.http_listener import Page

logger = logging.getLogger(__name__)

# Flushes, cold reads and file work share these; flushes alone may take as many as FLUSH_THREADS.
THREADS = FLUSH_THREADS + 8
# As much as the largest reply to one reader takes, and a little more, stays at hand for the next one.
KEPT_BYTES_MAX = 64 * 1024 * 1024
# A broker that ends by itself has so long to hand over, flush and write everything down.
END_SECONDS_MAX = 30.0
# One that is told to stop has longer: it may have much to write, and only a disk that does not answer takes as long as this.
STOP_SECONDS_MAX = 120.0
# One that could not end by itself has so long to let go of everything, and after that its process is given so long.
LET_GO_SECONDS_MAX = 5.0
EXIT_SECONDS_MAX = 5.0


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
        self.listeners = read_listeners(config)
        check_names(config.listeners_with_own, self.listeners)
        # Where each listener is, from when it is bound.
        self.addresses: dict[str, Address] = {}
        self.tls: Tls | None = None
        self.sign_ins: SignIns | None = None
        self.phase = Phase.STARTING
        self.figures = Figures()
        self.collection = Collection(self.clock)
        pages = MetricsPages(self.collection).by_path
        # Whoever asks for health is told no names: those of topics, groups and users are at the other address.
        without_names = {str(MetricsPage.SUMMARY): pages[MetricsPage.SUMMARY]}
        self.health = self._http_listener("headrace.health.listener", HealthPages(self.condition).by_path | without_names)
        self.metrics = self._http_listener("headrace.metrics.listener", pages)
        # All that goes on in this broker, and the part of it that came up on the way and is done once.
        self.supervisor = Supervisor(self.clock, on_end=self._on_end)
        self._one_offs = self.supervisor.scope("one-offs")
        # Who waits for the start, while it lasts; what stops the broker, once that has begun.
        self._starting: asyncio.Task[Any] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._on_pages_closed: Callable[[], None] = lambda: None
        # Hears when the broker ends by itself; `stop` then raises why.
        self.on_end: Callable[[], None] = lambda: None

    @property
    def config(self) -> BrokerConfig:
        """The settings as they are now."""
        return self.live_config.now

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is known now."""
        return self.cluster.image

    @property
    def address(self) -> Address:
        """Where the first listener is."""
        return next(iter(self.addresses.values()))

    def condition(self) -> Condition:
        """How it is, for whoever asks."""
        if self.phase is not Phase.SERVING:
            return not_serving(self.phase)
        return serving(self.parts.participation, self.tls.reasons() if self.tls is not None else ())

    def _http_listener(self, setting: str, pages: "Mapping[str, Page]") -> HttpListener:
        return HttpListener(setting, self.config[setting], pages)

    def spawn(self, coroutine: Coroutine[Any, Any, None], kind: str = "") -> None:
        """Run something once, beside the event loop's present work; it ends with the broker at the latest."""
        self._one_offs.spawn(kind or getattr(coroutine, "__qualname__", "one-off"), coroutine)

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
            if self.listeners.have_tls:
                self.tls = Tls(self.live_config, self.listeners, self.clock, self.loop, self.supervisor.scope("handshakes"))
            undoing.push_async_callback(self._close_pages)
            await self._open_pages()
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
        if hasattr(self, "parts"):
            await self.parts.membership.leave()
        await self.supervisor.close()
        if self.sign_ins is not None:
            self.sign_ins.close()

    async def _undo_storage(self) -> None:
        """Unlock.  What was opened is closed as ever; a clean end of the last time stays one."""
        if not hasattr(self, "storage"):
            return
        high_watermarks, logs = positions(self.parts.replicas if hasattr(self, "parts") else ())
        if logs:
            await self.loop.run_in_executor(None, self.storage.close, high_watermarks, logs)
        else:
            self.storage.release()

    async def _open_pages(self) -> None:
        """Tell over HTTP how it is, and what it counts, where that is wanted; nobody measures anything where it is not."""
        await self.health.start()
        await self.metrics.start()
        if self.health.address is not None or self.metrics.address is not None:
            process = ProcessCollector(self.figures.loop_delay, self.clock.monotonic)
            self.collection.collectors.append(process)
            process.pauses.start()
            self._on_pages_closed = process.pauses.stop
            self.supervisor.start("loop watch", process.watch_loop, Rule.RESTART)

    async def _close_pages(self) -> None:
        self._on_pages_closed()
        await self.metrics.close()
        await self.health.close()

    async def _in_thread(self, function: Callable[..., None], *arguments: Any) -> None:
        """Return when it is done, also when the start is given up meanwhile: what a thread does cannot be taken back."""
        working = self.loop.run_in_executor(None, function, *arguments)
        try:
            await asyncio.shield(working)
        except asyncio.CancelledError:
            await asyncio.wait([working])
            raise

    async def _start(self) -> None:
        measured = MeasuredStore(self.store, self.clock.monotonic, self.figures.cluster.on_round_trip)
        self.cluster = ClusterMetadata(measured, self.host.entropy)
        await self.cluster.start(self._keep)
        await self._in_thread(self.storage.adopt, self.cluster.cluster_id, self.broker_id)
        self._take_run_time_settings()
        self.parts = parts = Parts(
            host=self.host,
            loop=self.loop,
            supervisor=self.supervisor,
            spawn=self.spawn,
            config=self.live_config,
            cluster=self.cluster,
            storage=self.storage,
            listeners=self.listeners,
            tls=self.tls,
            figures=self.figures,
        )
        self.trail = Trail(self.broker_id, self.live_config, parts.image, self.clock, self.figures.network.traces)
        # Before anybody can write.
        parts.space.measured(*await self.loop.run_in_executor(None, self.storage.space))
        self.dispatcher = Dispatcher(
            routes(parts),
            parts.throttling,
            parts.request_tasks,
            self.clock,
            parts.access_rules.guard,
            refusal,
            self.figures.network,
            self.trail,
        )
        if self.tls is not None and parts.audit is not None:
            self.tls.tell_refused(parts.audit.note_failed_sign_in)
        if self.listeners.have_sasl:
            self.sign_ins = await self._make_sign_ins(parts)
        self.server = Server(
            self.config,
            self.dispatcher.start,
            self.loop,
            self.tls,
            self.sign_ins,
            figures=self.figures.network,
            monotonic=self.clock.monotonic,
        )
        self.server.connection_wait = parts.throttling.connection_wait
        await self._join(parts)

    async def _make_sign_ins(self, parts: Parts) -> SignIns:
        if not self.image.scram_seed:
            seed = create_scram_seed(secrets.token_bytes(32))
            await self.cluster.submit(lambda image: [] if image.scram_seed else [seed])
        sign_ins = SignIns(self.config, parts.image, self.clock, self.loop, self.figures.security.on_sign_in)
        if parts.audit is not None:
            sign_ins.on_failed = parts.audit.note_failed_sign_in
        return sign_ins

    async def _join(self, parts: Parts) -> None:
        """Take an address; register it; take up what the metadata places here; then let clients in."""
        await parts.membership.update(endpoints=await self._listen())
        await parts.membership.join(self._keep)
        self.cluster.on_change(self._on_changes, renewed=self._on_renewed)
        # Nobody has told of what changed before that.
        parts.access_rules.renew()
        parts.participation.start()
        await parts.replica_changes.start()
        await parts.participation.admitted()
        if parts.audit is not None:
            self.supervisor.start("audit trail", parts.audit.tell_for_ever, Rule.RESTART)
        await self.server.open()
        self.supervisor.start("connection sweeper", self.server.sweep_for_ever, Rule.RESTART)
        if self.tls is not None:
            self.supervisor.start("certificates", self.tls.tend_for_ever, Rule.RESTART)
        if self.sign_ins is not None and self.sign_ins.token_keys is not None:
            self.supervisor.start("keys of tokens", self.sign_ins.token_keys.fetch_for_ever, Rule.RESTART)
        self.phase = Phase.SERVING
        self.collection.collectors += parts.collectors(self.server, self.tls)
        parts.housekeeping.start(self.supervisor.scope("housekeeping"))
        if parts.tiering is not None:
            parts.tiering.start()
        logger.debug("what runs, and what follows when it dies:")
        for line in self.supervisor.tree():
            logger.debug("%s", line)

    def _open_storage(self) -> None:
        if self.config["headrace.memory"]:
            self.storage: Storage = MemoryStorage(self.clock)
        else:
            self.storage = DiskStorage(Path(self.config["log.dirs"]), self.host.disk, self.clock)

    async def _listen(self) -> dict[str, Endpoint]:
        """Take every listener's address; what the others are told of them, by name."""
        endpoints = {}
        for listener in self.listeners.each:
            bound = self.addresses[listener.name] = await self.server.listen(listener)
            host = listener.advertised.host or await self.loop.run_in_executor(None, name_of_this_machine)
            port = listener.advertised.port or bound.port
            endpoints[listener.name] = Endpoint(host=host, port=port, security_protocol=listener.security_protocol)
        return endpoints

    # -- changes

    def _on_changes(self, changes: Sequence[Change]) -> None:
        self.parts.access_rules.on_changes(changes)
        for change in changes:
            if isinstance(change, BrokerConfigsChanged):
                self._on_settings()
            elif isinstance(change, QuotaChanged | BrokerChanged):
                self.parts.quotas.on_change()
            elif isinstance(change, ScramCredentialChanged) and self.sign_ins is not None:
                self.sign_ins.credentials.on_change()
            elif isinstance(change, TopicDeleted):
                self.parts.topic_sizes.forget(change.name)
            self.parts.replica_changes.submit(change)

    def _on_renewed(self) -> None:
        """Changes may have been missed: see to all that they could have been about."""
        self._on_settings()
        self.parts.access_rules.renew()
        if self.sign_ins is not None:
            self.sign_ins.credentials.on_change()
        self.parts.quotas.on_change()
        self.parts.topic_sizes.forget_all()
        self.parts.replica_changes.reconcile()

    def _take_run_time_settings(self) -> None:
        self.live_config.now = self.config.with_altered(self.image.configs_of_broker(self.broker_id))

    def _on_settings(self) -> None:
        self._take_run_time_settings()
        self.parts.housekeeping.on_settings()
        self.server.connections_max = self.config["max.connections"]
        self.trail.adjust()

    def reload(self, read: BrokerConfig) -> None:
        """Take up those of the settings given at the start that can change while the broker runs.  Raises SettingError."""
        reloaded = reloaded_settings(self.config, read)
        self.live_config.now = reloaded.config
        self._on_settings()
        self.parts.replica_changes.reconcile()
        if reloaded.taken_up:
            logger.info("settings reloaded: %s", ", ".join(reloaded.taken_up))
        if reloaded.wait_for_restart:
            logger.warning("changed settings that take effect after a restart: %s", ", ".join(reloaded.wait_for_restart))
        if not reloaded.taken_up and not reloaded.wait_for_restart:
            logger.info("settings reloaded: nothing has changed")

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

    async def _ends_within(self, seconds: float, coroutine: Coroutine[Any, Any, None], name: str) -> bool:
        """Whether it did, and well.  A thread that hangs in a disk makes whoever waits for it deaf: nobody waits for them."""
        working = aside(coroutine, name)
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
        reports = StepReports("stopping", self.loop)
        try:
            await self._stop_parts(reports)
            await close_logs(self.parts.replicas, self.parts.flusher, self.storage, self.loop, reports)
        finally:
            reports.over()
        await self.store.close()
        await self._close_pages()

    async def _stop_parts(self, reports: StepReports) -> None:
        parts = self.parts
        reports.at(lambda: "handing over what it leads")
        await parts.participation.hand_over()
        reports.at(lambda: "waiting for work on files")
        await parts.housekeeping.close()
        self.server.stop_listening()
        reports.at(lambda: flushing(parts.replicas))
        await parts.flusher.drain()
        reports.at(lambda: "ending what is under way")
        await self.server.close()
        await parts.request_tasks.close()
        await self.loop.run_in_executor(None, self.trail.close)
        if parts.audit is not None:
            # After the last act, and while other brokers can still be reached.
            reports.at(lambda: "writing down what was done")
            await parts.audit.close()
        parts.schedules.close()
        parts.delays.close()
        parts.transactions.close()
        parts.share_partitions.close()
        parts.share_states.close()
        parts.group_coordinator.close()
        await self._one_offs.close()
        await parts.participation.close()
        await parts.replica_changes.close()
        parts.peers.close()
        await parts.membership.leave()
        await self.cluster.close()
        await self.supervisor.close()
        if self.sign_ins is not None:
            self.sign_ins.close()

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
        await self._close_pages()
        await self.server.close()
        await self.supervisor.close()
        if self.sign_ins is not None:
            self.sign_ins.close()
        self.storage.release()
        await self.store.close()


async def run(config: BrokerConfig, on_ready: Callable[[Broker], None], reread: Callable[[], BrokerConfig] | None = None) -> None:
    """Serve until a signal asks it to end, or until it ends by itself and raises why.

    SIGHUP asks a broker without a terminal to take up the settings as `reread` finds them."""
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
            exit_within(
                STOP_SECONDS_MAX + EXIT_SECONDS_MAX, why="it was told to stop, and something it waits for does not answer"
            )

    reload = None if reread is None or has_terminal() else partial(_reload, broker, reread)
    for number in ending_signals(hang_up=reload is None):
        loop.add_signal_handler(number, on_signal)
    if reload is not None:
        # Whoever asks before it serves has what it reads at the start.
        loop.add_signal_handler(signal.SIGHUP, lambda: None)
    try:
        await broker.start()
    except asyncio.CancelledError:
        if not stopping.is_set():
            raise
        logger.info("the broker was stopped before it finished starting")
        return
    broker.server.on_quiet = give_memory_back
    if reload is not None:
        loop.add_signal_handler(signal.SIGHUP, lambda: broker.spawn(reload(), "reload"))
    on_ready(broker)
    tell_service_manager("READY=1", f"STATUS=serving at {broker.address}")
    await stopping.wait()
    tell_service_manager("STOPPING=1", "STATUS=stopping")
    await broker.stop()


async def _reload(broker: Broker, reread: Callable[[], BrokerConfig]) -> None:
    try:
        broker.reload(await broker.loop.run_in_executor(None, reread))
    except SettingError as error:
        logger.error("the settings are not reloaded, and the old ones stay: %s", error)


def serve(config: BrokerConfig, on_ready: Callable[[Broker], None], reread: Callable[[], BrokerConfig] | None = None) -> None:
    """Run a broker in this process until it is told to stop.  Raises NoMetadata, CannotStart, OSError, BrokerFailed."""
    import uvloop

    keep_freed_memory(min(KEPT_BYTES_MAX, config["headrace.connections.bytes.max"]))
    collect_as_before = keep_collections_short()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run(config, on_ready, reread))
    except (StoreRefused, StoreUnavailable) as error:
        raise NoMetadata(str(error)) from error
    except (NodeIdTaken, RequestError, SettingError) as error:
        raise CannotStart(str(error)) from error
    finally:
        collect_as_before()

"""The parts of a broker, each made with what it needs, and no more.

This is the one place that sees them all.  A part that is made later than one that needs it is handed to it by a hook.  The table
of APIs (`broker/routes.py`) says for each request which parts it touches; when they start and stop is the business of
`broker/app.py`.  Nobody else imports this module.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.broker.access.rules import AccessRules
from headrace.broker.administration.auto_creation import AutoCreation
from headrace.broker.administration.config_changes import ConfigChanges
from headrace.broker.administration.partition_changes import PartitionChanges
from headrace.broker.administration.settings_view import BrokerSources
from headrace.broker.administration.topic_configs import TopicConfigs
from headrace.broker.administration.topic_sizes import TopicSizes
from headrace.broker.administration.topics import Topics
from headrace.broker.audit.acts.act import Surroundings
from headrace.broker.audit.copies import Copies
from headrace.broker.audit.recording import Recorder
from headrace.broker.audit.topic import AuditTopic
from headrace.broker.audit.trail import AuditTrail
from headrace.broker.cluster.controller import Controller
from headrace.broker.cluster.insync_proposals import InSyncProposals
from headrace.broker.cluster.leadership import Leaderships
from headrace.broker.cluster.metadata_store import open_store
from headrace.broker.cluster.own_name import OwnName
from headrace.broker.cluster.participation import Participation
from headrace.broker.cluster.peers import PEER, Peers
from headrace.broker.cluster.resignations import Resignations
from headrace.broker.coordinators.groups.coordinator import GroupCoordinator
from headrace.broker.coordinators.share_state.client import ShareStateClient
from headrace.broker.coordinators.share_state.coordinator import ShareStateCoordinator
from headrace.broker.coordinators.transactions.coordinator import TransactionCoordinator
from headrace.broker.coordinators.transactions.marker_writes import MarkerWriter
from headrace.broker.coordinators.transactions.verification import TransactionVerification
from headrace.broker.delaying.coordinator import DelayCoordinator
from headrace.broker.delaying.delivering import Outlet
from headrace.broker.delaying.staging import Staging
from headrace.broker.following.fetcher import Following, ReplicaFetchers
from headrace.broker.following.sessions import ReplicaSessions
from headrace.broker.following.throttle import FOLLOWER, LEADER, ReplicationThrottle
from headrace.broker.health.disk_health import DiskHealth
from headrace.broker.health.disk_space import DiskSpace
from headrace.broker.housekeeping.cleaner import Cleaner
from headrace.broker.housekeeping.file_removal import FileRemoval
from headrace.broker.housekeeping.housekeeping import Housekeeping
from headrace.broker.metrics.collecting import Collector
from headrace.broker.metrics.collectors.client_telemetry import ClientTelemetryCollector
from headrace.broker.metrics.collectors.cluster import ClusterCollector
from headrace.broker.metrics.collectors.coordinators import CoordinatorsCollector
from headrace.broker.metrics.collectors.delays import DelaysCollector
from headrace.broker.metrics.collectors.disk import DiskCollector
from headrace.broker.metrics.collectors.network import NetworkCollector
from headrace.broker.metrics.collectors.partitions import PartitionsCollector
from headrace.broker.metrics.collectors.replication import ReplicationCollector
from headrace.broker.metrics.collectors.security import SecurityCollector
from headrace.broker.metrics.collectors.sharing import SharingCollector
from headrace.broker.metrics.collectors.tiering import TieringCollector
from headrace.broker.metrics.figures import Figures
from headrace.broker.metrics.log_positions import LogPositions
from headrace.broker.network.known_brokers import KnownBrokers
from headrace.broker.network.listeners import endpoint_of
from headrace.broker.network.request_tasks import RequestTasks
from headrace.broker.network.server import Server
from headrace.broker.network.throttling import Throttling
from headrace.broker.partitions.cutting import LogCutter
from headrace.broker.partitions.flushing import Flusher
from headrace.broker.partitions.log_starts import LogStarts
from headrace.broker.partitions.mending import Mending
from headrace.broker.partitions.nearest import NearbyReplicas
from headrace.broker.partitions.page_cache import PageCache
from headrace.broker.partitions.replica_changes import ReplicaChanges
from headrace.broker.partitions.replicas import Replicas
from headrace.broker.partitions.storage import DiskStorage, Storage
from headrace.broker.scheduling.coordinator import ScheduleCoordinator
from headrace.broker.scheduling.placing import Places
from headrace.broker.scheduling.requests import ScheduleRequests
from headrace.broker.sharing.activity import ShareActivity
from headrace.broker.sharing.beginning import ShareBeginnings
from headrace.broker.sharing.dead_letters import DeadLetters
from headrace.broker.sharing.ends import PartitionEnds
from headrace.broker.sharing.fetching import ShareFetching
from headrace.broker.sharing.partitions import SharePartitions
from headrace.broker.sharing.settings import ShareSettingsView
from headrace.broker.sign_in.peer import USER, PeerSignIn
from headrace.broker.supervision.supervision import Spawn, Supervisor
from headrace.broker.telemetry.telemetry import ClientTelemetry
from headrace.broker.tls.tls import Tls
from headrace.controller.entries import BrokerRegistration
from headrace.controller.image import ClusterImage
from headrace.coordination.share.sessions import ShareSessions
from headrace.declaring import dataclass
from headrace.host.clock import Clock, SystemClock
from headrace.host.disk import Disk, SystemDisk
from headrace.host.entropy import Entropy, SystemEntropy
from headrace.host.memory import page_cache_bytes
from headrace.metadata.cluster import ClusterMetadata
from headrace.metadata.membership import BrokerMembership
from headrace.metadata.store import MetadataStore
from headrace.model.broker_settings import BrokerConfig
from headrace.model.listeners import Listener, Listeners
from headrace.model.live_config import LiveConfig
from headrace.model.settings import SettingError
from headrace.security.audit.events import EventMaker
from headrace.security.authorization.guard import Denial
from headrace.security.quotas import Quotas
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.broker.tiering.tiering import Tiering
    from headrace.objects.store import ObjectStore

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Host:
    """What a broker stands on."""

    clock: Clock = field(default_factory=SystemClock)
    disk: Disk = field(default_factory=SystemDisk)
    entropy: Entropy = field(default_factory=SystemEntropy)
    # Heavy work goes to processes of its own, which know only the real disk; elsewhere it goes to a thread.
    worker_processes: bool = True
    open_store: Callable[[BrokerConfig, Entropy], Awaitable[MetadataStore]] = open_store
    # Opens the object store of tiered topics, by its address and how long it has for an answer.
    open_objects: "Callable[[str, float], ObjectStore] | None" = None
    # How much of what was written last the system keeps in memory.
    page_cache_bytes: int = field(default_factory=page_cache_bytes)


class Parts:
    """Made once for each start of a broker, when its storage is open and its metadata are known.  Nothing runs yet."""

    def __init__(
        self,
        *,
        host: Host,
        loop: asyncio.AbstractEventLoop,
        supervisor: Supervisor,
        spawn: Spawn,
        config: LiveConfig,
        cluster: ClusterMetadata,
        storage: Storage,
        listeners: Listeners,
        tls: Tls | None = None,
        figures: Figures | None = None,
    ) -> None:
        self.figures = figures or Figures()
        self.host = host
        self.clock = host.clock
        self.loop = loop
        self.supervisor = supervisor
        self.spawn = spawn
        self.config = config
        self.cluster = cluster
        self.storage = storage
        self.tls = tls
        self.broker_id: int = config.now["node.id"]
        self._listeners = listeners
        inter_broker_listener = listeners.of_brokers
        peers_tls = tls.by_listener[inter_broker_listener.name] if tls is not None and inter_broker_listener.has_tls else None
        self._own_name = OwnName(inter_broker_listener, config.now, peers_tls)
        if peers_tls is not None:
            peers_tls.on_renewed = lambda: self.spawn(self._own_name.tell(self.membership, self.peers), "own name")
        self.peers = Peers(
            f"{PEER}-{self.broker_id}",
            self._address_of,
            tls=lambda: None if peers_tls is None else peers_tls.contexts.for_peers,
            sign_in=PeerSignIn(config.now) if self._must_sign_in(inter_broker_listener) else None,
        )
        self.access_rules = AccessRules(config.now, self.image)
        self.access_rules.guard.on_denied = self.figures.security.on_denied
        self._make_replicas()
        self._make_administration()
        self._make_coordinators()
        self._make_place_in_cluster()
        self._make_housekeeping()
        self._make_tiering()
        self._make_network()
        self._make_sharing()
        self.audit: AuditTrail | None = None
        self.recorder: Recorder | None = None
        if config.now["headrace.audit"] == "on" or (config.now["headrace.audit"] == "auto" and self.access_rules.is_enabled):
            self._make_audit()

    def _must_sign_in(self, listener: Listener) -> bool:
        """Who is alone, with its metadata in its own files, never does, and needs nothing set for it."""
        settings = self.config.now
        return listener.has_sasl and (settings["headrace.metadata"] != "embedded" or settings[USER] is not None)

    async def _check_tls(self, listener: str, settings: BrokerConfig) -> None:
        if self.tls is None:
            raise SettingError(f"there is no listener {listener} with TLS")
        await self.tls.check(listener, settings)

    def reasons(self) -> tuple[str, ...]:
        """What is not as it should be with this broker, in words for people."""
        return self.health.reasons() + (self.tls.reasons() if self.tls is not None else ())

    def image(self) -> ClusterImage:
        """The cluster as it is known now."""
        return self.cluster.image

    def setting_sources(self) -> BrokerSources:
        return BrokerSources(self.config.now, self.cluster.image, self.broker_id)

    def _make_replicas(self) -> None:
        self.space = DiskSpace(self.storage.name, lambda: self.config.now["log.dir.reserved.bytes"], self.loop.time)
        self.flusher = Flusher(
            self.loop, report=self.supervisor.report, figures=self.figures.disk, monotonic=self.clock.monotonic
        )
        self.log_starts = LogStarts(self.storage, self.loop)
        self.topic_configs = TopicConfigs(self.image, self.config)
        self.replicas = Replicas(self.image)
        self.replica_changes = ReplicaChanges(
            self.broker_id,
            self.replicas,
            self.image,
            self.storage,
            self.flusher,
            self.topic_configs.of,
            self.loop,
            self.supervisor.scope("replicas"),
            self.space,
            PageCache(self.host.page_cache_bytes),
            self.figures.writes,
        )
        self.replica_changes.on_removed.append(lambda partition: self.figures.gone.take_over(partition.traffic))
        self.removal = FileRemoval(self.loop, self.space, self.figures.disk)
        self.replica_changes.unlink_later = self.removal.unlink_later

    def _make_administration(self) -> None:
        self.topics = Topics(self.cluster, self.replica_changes.settled, self.config, self.space, self.broker_id)
        self.auto_creation = AutoCreation(self.topics, self.spawn)
        self.partition_changes = PartitionChanges(self.cluster, self.topic_configs.of, self.clock)
        self.config_changes = ConfigChanges(
            self.cluster, self.topics, self.replica_changes.settled, self.config, self.broker_id, self._check_tls
        )

    def _make_coordinators(self) -> None:
        self.group_coordinator = GroupCoordinator(
            self.config.now,
            cluster=self.cluster,
            replica_changes=self.replica_changes,
            clock=self.clock,
            disk=self.host.disk,
            loop=self.loop,
            scope=self.supervisor.scope("groups"),
            on_rebalanced=lambda taken_ms: self.figures.coordinators.rebalances.observe(taken_ms / 1000),
        )
        self.groups = self.group_coordinator.shards
        self.marker_writer = MarkerWriter(self.replicas, self.groups, self.clock)
        self.transactions = TransactionCoordinator(
            self.config.now,
            cluster=self.cluster,
            replica_changes=self.replica_changes,
            peers=self.peers,
            marker_writer=self.marker_writer,
            clock=self.clock,
            disk=self.host.disk,
            loop=self.loop,
            scope=self.supervisor.scope("transactions"),
            spawn=self.spawn,
            ended=self.figures.coordinators.transactions,
        )
        self._make_delays()
        self._make_schedules()
        self.verification = TransactionVerification(
            self.broker_id,
            self.transactions.requests,
            cluster=self.cluster,
            peers=self.peers,
            spawn=self.spawn,
            is_enabled=lambda: self.config.now["transaction.partition.verification.enable"],
        )

    def _make_delays(self) -> None:
        self.delays = DelayCoordinator(
            self.config.now,
            outlet=Outlet(self.broker_id, replicas=self.replicas, cluster=self.cluster, peers=self.peers),
            replica_changes=self.replica_changes,
            clock=self.clock,
            disk=self.host.disk,
            loop=self.loop,
            scope=self.supervisor.scope("delays"),
            index_directory=self._index_directory,
            figures=self.figures.delays,
        )
        self.staging = Staging(
            self.broker_id,
            self.delays,
            topics=self.topics,
            cluster=self.cluster,
            peers=self.peers,
            clock=self.clock,
            entropy=self.host.entropy,
            loop=self.loop,
        )

    def _make_schedules(self) -> None:
        self.schedules = ScheduleCoordinator(
            self.config.now,
            staging=self.staging,
            places=Places(self.image),
            replica_changes=self.replica_changes,
            clock=self.clock,
            disk=self.host.disk,
            loop=self.loop,
            scope=self.supervisor.scope("schedules"),
        )
        self.schedule_requests = ScheduleRequests(self.schedules, self.image)

    def _index_directory(self) -> Path | None:
        """Where there is a real disk, what can be made anew from the logs lies beside them."""
        is_real = isinstance(self.storage, DiskStorage) and isinstance(self.host.disk, SystemDisk)
        return Path(self.storage.name) if is_real else None

    def _make_place_in_cluster(self) -> None:
        scope = self.supervisor.scope("cluster")
        self.membership = self._make_membership()
        proposals = InSyncProposals(self.cluster, self.membership, self.spawn)
        self.health = DiskHealth(
            self.storage,
            self.space,
            self.flusher,
            self.replicas,
            self.replica_changes,
            self.membership,
            self.supervisor,
            config=self.config,
            loop=self.loop,
        )
        resignations = Resignations(self.replicas, self.cluster, self.partition_changes, self.health, self.spawn, self.broker_id)
        self.health.on_short += [self.removal.make_room, resignations.hand_over_for_room]
        cutter = LogCutter(self.loop, self.removal)
        following = Following(
            broker_id=self.broker_id,
            membership=self.membership,
            image=self.image,
            config=self.config,
            peers=self.peers,
            throttle=ReplicationThrottle(self.config, self.image, self.loop.time, FOLLOWER),
            cutter=cutter,
            removal=self.removal,
            log_starts=self.log_starts,
            step_back=resignations.step_back,
            now=self.loop.time,
            scope=scope,
        )
        self.controller = Controller(
            self.cluster, self.membership, self.topic_configs, config=self.config, clock=self.clock, now=self.loop.time
        )
        self.sessions = ReplicaSessions(self.replicas, self.image, self.loop.time)
        self.participation = Participation(
            scope,
            self.cluster,
            self.membership,
            self.replica_changes,
            config=self.config,
            controller=self.controller,
            leaderships=Leaderships(self.replicas, self.image, self.membership, proposals, self.loop.time, self.config.now),
            resignations=resignations,
            fetchers=ReplicaFetchers(following),
            sessions=self.sessions,
            mending=Mending(
                self.replica_changes, self.cluster, self.partition_changes, cutter, self.health.tell, self.spawn, self.broker_id
            ),
            health=self.health,
        )

    def _make_membership(self) -> BrokerMembership:
        """Where this broker listens is announced before it joins."""
        registration = BrokerRegistration(
            broker_id=self.broker_id,
            incarnation=str(self.host.entropy.uuid()),
            endpoints={},
            inter_broker_listener=self._listeners.inter_broker,
            principal=self._own_name.principal,
            rack=self.config.now["broker.rack"],
            memory=self.storage.memory,
        )
        return BrokerMembership(
            self.cluster,
            registration,
            on_lost=self._on_lease_lost,
            on_regained=self.replica_changes.reconsider_roles,
            lease_ttl_s=self.config.now["broker.session.timeout.ms"] / 1000,
        )

    def _on_lease_lost(self) -> None:
        """Others will soon act as if this broker were dead: stop leading before they do."""
        logger.error("broker %d lost its place in the cluster and is registering anew", self.broker_id)
        self.replica_changes.reconsider_roles()

    def _address_of(self, broker_id: int) -> tuple[str, int] | None:
        """Where another broker listens; None when it is not there."""
        member = self.cluster.image.brokers.get(broker_id)
        endpoint = endpoint_of(member, self._listeners.inter_broker) if member is not None else None
        return None if endpoint is None else (endpoint.host, endpoint.port)

    def _make_housekeeping(self) -> None:
        cleaner = Cleaner(
            self.replicas,
            self.removal,
            clock=self.clock,
            disk=self.host.disk,
            loop=self.loop,
            in_processes=self.host.worker_processes,
            figures=self.figures.disk,
        )
        self.housekeeping = Housekeeping(
            self.replicas,
            self.storage,
            self.removal,
            cleaner,
            self.health,
            config=self.config,
            clock=self.clock,
            loop=self.loop,
            spawn=self.spawn,
        )
        self.replica_changes.on_removed.append(self.housekeeping.on_removed)

    def _make_tiering(self) -> None:
        """Only where an object store is set; what it takes is imported only then."""
        self.tiering = self._tiering()
        if self.tiering is not None:
            self.replica_changes.on_role.append(self.tiering.on_role)
            self.replica_changes.why_not_yet = self.tiering.why_not_yet
            self.replica_changes.on_removed.append(self.tiering.on_removed)

    def _tiering(self) -> "Tiering | None":
        url = self.config.now["headrace.remote.url"]
        if url is None or not isinstance(self.storage, DiskStorage):
            return None
        from headrace.broker.tiering.tiering import Tiering
        from headrace.objects.opening import open_object_store

        store = (self.host.open_objects or open_object_store)(url, self.config.now["headrace.remote.timeout.ms"] / 1000)
        return Tiering(
            store,
            replicas=self.replicas,
            image=self.image,
            is_controller=lambda: self.controller.is_active,
            config=self.config,
            folder=Path(self.storage.name),
            disk=self.host.disk,
            clock=self.clock,
            entropy=self.host.entropy,
            loop=self.loop,
            removal=self.removal,
            log_starts=self.log_starts,
            scope=self.supervisor.scope("tiered storage"),
            figures=self.figures.tier,
        )

    def collectors(self, server: Server, tls: Tls | None) -> list[Collector]:
        """What tells the numbers of all of these."""
        figures = self.figures
        positions = LogPositions(self.broker_id, self.replicas, self.image, self.peers, self.host.disk)
        return [
            NetworkCollector(figures.network, server),
            PartitionsCollector(
                self.replicas, figures.gone, figures.writes, figures.network.by_api[ApiKey.PRODUCE], self.sessions
            ),
            DiskCollector(figures.disk, self.space, self.removal, self.replicas),
            ReplicationCollector(self.replicas, figures.writes, self.loop.time),
            ClusterCollector(figures.cluster, self.image, self.membership, self.controller),
            CoordinatorsCollector(figures.coordinators, self.groups, self.transactions.shards, positions, self.clock, self.loop),
            SharingCollector(
                figures.sharing,
                self.share_sessions,
                self.share_partitions,
                self.share_states.shards,
                positions,
                self.image,
                self.clock,
                self.loop,
            ),
            SecurityCollector(figures.security, tls, self.audit),
            DelaysCollector(figures.delays, self.delays, self.image),
            TieringCollector(self.tiering, self.clock.monotonic),
            ClientTelemetryCollector(self.telemetry),
        ]

    def _make_network(self) -> None:
        self.telemetry = ClientTelemetry(self.image, self.config, self.clock, self.host.entropy)
        self.quotas = Quotas(lambda: self.image().quotas, lambda: len(self.image().brokers))
        self.topic_sizes = TopicSizes(self.replicas, self.image, self.peers, self.spawn, self.loop.time, self.broker_id)
        known_brokers = KnownBrokers(self.broker_id, self._listeners.inter_broker, self._open_listeners(), self.image)
        self.access_rules.guard.is_of_brokers = known_brokers.use
        self.throttling = Throttling(
            self.quotas,
            self.image,
            self.loop.time,
            self.topic_sizes.size_of,
            self.figures.network.throttled,
            known_brokers.have,
        )
        self.nearby = NearbyReplicas(self.config.now, self.image, self.broker_id)
        self.served = ReplicationThrottle(self.config, self.image, self.loop.time, LEADER)
        self.request_tasks = RequestTasks(self.supervisor.scope("requests"))

    def _make_sharing(self) -> None:
        self.share_states = ShareStateCoordinator(
            self.config.now,
            cluster=self.cluster,
            replicas=self.replicas,
            replica_changes=self.replica_changes,
            removal=self.removal,
            clock=self.clock,
            disk=self.host.disk,
            loop=self.loop,
            scope=self.supervisor.scope("share states"),
        )
        self.share_client = ShareStateClient(self.broker_id, self.share_states, self.topics, self.cluster, self.peers)
        self.share_settings = ShareSettingsView(self.config.now, self.image)
        self.share_sessions = ShareSessions(self.config.now["group.share.max.share.sessions"])
        self.partition_ends = PartitionEnds(self.broker_id, self.replicas, self.image, self.peers)
        self.share_partitions = SharePartitions(
            self.replicas,
            self.replica_changes,
            self.share_sessions,
            self.share_client,
            self.share_settings,
            self.clock,
            self.host.disk,
            self.spawn,
            self.loop,
            self.host.entropy,
            self.figures.sharing,
            DeadLetters(
                self.broker_id,
                self.replicas,
                self.image,
                self.peers,
                self.partition_ends,
                self.clock,
                self.host.disk,
                self.figures.sharing,
            ),
        )
        self.share_beginnings = ShareBeginnings(self.groups, self.share_client, self.spawn)
        self.share_fetching = ShareFetching(
            sessions=self.share_sessions,
            partitions=self.share_partitions,
            settings_of=self.share_settings,
            image=self.image,
            throttling=self.throttling,
            disk=self.host.disk,
            broker_id=self.broker_id,
            bytes_max=self.config.now["fetch.max.bytes"],
        )
        self.share_activity = ShareActivity(self.share_partitions, self.delays, self.image)

    def _open_listeners(self) -> frozenset[str]:
        """Those at which nobody is asked for a name."""
        asking = {name for name, each in self.tls.by_listener.items() if each.asks_for_names} if self.tls is not None else set()
        return frozenset(each.name for each in self._listeners.each if not each.has_sasl and each.name not in asking)

    def _make_audit(self) -> None:
        from importlib.metadata import version  # reads by the parser of e-mails: 2 MB, for brokers that have a use for it

        topic = AuditTopic(
            self.broker_id,
            topics=self.topics,
            replicas=self.replicas,
            cluster=self.cluster,
            peers=self.peers,
            clock=self.clock,
            loop=self.loop,
        )
        events = EventMaker(version("headrace"), f"broker {self.broker_id}", lambda: str(self.host.entropy.uuid()))
        copies = Copies.from_settings(self.config.now, self.clock)
        self.audit = AuditTrail(self.config.now, topic, copies, events, self.clock)
        self.recorder = Recorder(
            self.audit,
            Surroundings(image=self.image, replicas=self.replicas, groups=self.groups, is_broker=self.throttling.is_broker),
        )
        self.auto_creation.recorded = self.recorder.auto_created
        self.access_rules.guard.on_denied = self._on_denied

    def _on_denied(self, denial: Denial) -> None:
        """Told in the audit trail, and counted."""
        self.figures.security.on_denied(denial)
        if self.audit is not None:
            self.audit.note_denial(denial)

"""The parts of a broker that requests may touch.  The table of APIs says for each which of them it does.

Nobody else sees them together: a part is made with what it needs, and a handler is called with that.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.broker.administration.auto_creation import AutoCreation
from headrace.broker.administration.config_resources import ConfigChanges
from headrace.broker.administration.partition_changes import PartitionChanges
from headrace.broker.administration.settings_view import BrokerSources
from headrace.broker.administration.topics import Topics
from headrace.broker.cluster.peers import Peers
from headrace.broker.coordinators.groups.coordinator import GroupShards
from headrace.broker.coordinators.transactions.coordinator import TransactionCoordinator
from headrace.broker.coordinators.transactions.marker_writes import MarkerWriter
from headrace.broker.health.disk_health import DiskHealth
from headrace.broker.health.disk_space import DiskSpace
from headrace.broker.housekeeping.housekeeping import Housekeeping
from headrace.broker.network.request_tasks import RequestTasks
from headrace.broker.network.throttling import Throttling
from headrace.broker.partitions.log_starts import LogStarts
from headrace.broker.partitions.replicas import Replicas
from headrace.broker.partitions.storage import Storage
from headrace.broker.partitions.verification import Verification
from headrace.controller.image import CurrentImage
from headrace.host.clock import Clock
from headrace.host.entropy import Entropy
from headrace.metadata.cluster import ClusterMetadata
from headrace.model.live_config import LiveConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Made once for each start of a broker."""

    broker_id: int
    # What it stands on.
    clock: Clock
    entropy: Entropy
    loop: asyncio.AbstractEventLoop
    # What is known and set.
    cluster: ClusterMetadata
    image: CurrentImage
    config: LiveConfig
    sources: Callable[[], BrokerSources]
    # What it holds.
    storage: Storage
    space: DiskSpace
    replicas: Replicas
    log_starts: LogStarts
    housekeeping: Housekeeping
    health: DiskHealth
    # What it does for clients.
    topics: Topics
    auto_creation: AutoCreation
    partition_changes: PartitionChanges
    config_changes: ConfigChanges
    groups: GroupShards
    transactions: TransactionCoordinator
    marker_writer: MarkerWriter
    verification: Verification
    # What carries requests.
    tasks: RequestTasks
    throttling: Throttling
    peers: Peers
    broker: Any

"""Has shards led and given up as this broker's part in the partitions of their topic changes."""

import asyncio
from typing import Any

from headrace.broker.coordinators.partition_log import LedPartition
from headrace.broker.coordinators.shards import Shards
from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.replica_changes import ReplicaChanges
from headrace.host.disk import Disk


class RoleFollower:
    """Make one before the replicas start, so that it hears of each role they take."""

    def __init__(
        self, topic: str, shards: Shards[Any], replica_changes: ReplicaChanges, disk: Disk, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._topic = topic
        self._shards = shards
        self._disk = disk
        self._loop = loop
        replica_changes.on_role.append(self._on_role)
        replica_changes.on_removed.append(self._on_removed)

    def _on_role(self, partition: Partition) -> None:
        if partition.identity.topic != self._topic:
            return
        index = partition.identity.partition
        if not partition.is_leader or partition.failure is not None:
            self._shards.resign(index)
        elif self._shards.term(index) != partition.leader_epoch:
            partition.when_failed(self._on_removed)
            self._shards.lead(index, LedPartition(partition, self._loop, self._disk))

    def _on_removed(self, partition: Partition) -> None:
        if partition.identity.topic == self._topic:
            self._shards.resign(partition.identity.partition)

"""All share-partitions of this broker: made when a group first asks, forgotten when the partition is led elsewhere."""

import asyncio
import re
from uuid import UUID

from headrace.broker.coordinators.share_state.client import ShareStateClient
from headrace.broker.metrics.figures import ShareFigures
from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.reading import search
from headrace.broker.partitions.replica_changes import ReplicaChanges
from headrace.broker.partitions.replicas import Replicas
from headrace.broker.sharing.breakers import Breakers
from headrace.broker.sharing.dead_letters import DeadLetters
from headrace.broker.sharing.led import LedSharePartition
from headrace.broker.sharing.settings import SettingsOf, ShareSettings
from headrace.broker.supervision.supervision import Spawn
from headrace.coordination.share.entries import ShareKey
from headrace.coordination.share.sessions import ShareSessions
from headrace.host.clock import Clock
from headrace.host.disk import Disk
from headrace.host.entropy import Entropy
from headrace.model.errors import ErrorCode

# By how much a record's rest is shorter or longer than is set.
JITTER = (0.75, 1.25)


class SharePartitions:
    """Make one before the replicas start, so that it hears of each role they take."""

    def __init__(
        self,
        replicas: Replicas,
        replica_changes: ReplicaChanges,
        sessions: ShareSessions,
        client: ShareStateClient,
        settings_of: SettingsOf,
        clock: Clock,
        disk: Disk,
        spawn: Spawn,
        loop: asyncio.AbstractEventLoop,
        entropy: Entropy,
        figures: ShareFigures,
        dead_letters: DeadLetters,
    ) -> None:
        self._replicas = replicas
        self._sessions = sessions
        self._client = client
        self._settings_of = settings_of
        self._clock = clock
        self._disk = disk
        self._spawn = spawn
        self._loop = loop
        self._entropy = entropy
        self._figures = figures
        self._dead_letters = dead_letters
        self.breakers = Breakers(settings_of, clock, figures)
        self._led: dict[ShareKey, LedSharePartition] = {}
        replica_changes.on_role.append(self._on_role)
        replica_changes.on_removed.append(self._forget)

    def find(self, group_id: str, topic_id: UUID, index: int) -> LedSharePartition:
        """Raises RequestError where this broker does not lead the partition."""
        partition = self._replicas.find_by_id(topic_id, index)
        partition.require_leader()
        key = ShareKey(group_id, topic_id, index)
        led = self._led.get(key)
        if led is None or led.leader_epoch != partition.leader_epoch or led.partition is not partition:
            if led is not None:
                led.close(ErrorCode.NOT_LEADER_OR_FOLLOWER)  # what it knows is of an earlier leadership
            led = LedSharePartition(
                key,
                partition,
                self._client,
                self._settings_of,
                self._start_for,
                self._spawn,
                self._loop,
                self._jitter,
                self._figures,
                self._dead_letters,
                self.breakers,
                self._on_over,
                self._on_written,
            )
            self._led[key] = led
        return led

    def all(self) -> list[LedSharePartition]:
        return list(self._led.values())

    def release(self, group_id: str, member_id: str, *, was_lost: bool) -> None:
        """A member's session is over.  With the last one of its group, what is known of the group here is forgotten."""
        for led in list(self._led.values()):
            if led.key.group_id == group_id:
                led.release(member_id, was_lost=was_lost)
                self._on_written(led)

    def _on_written(self, led: LedSharePartition) -> None:
        if not self._sessions.is_at_work(led.key.group_id):
            led.retire()

    def close(self) -> None:
        for led in list(self._led.values()):
            led.close(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._led.clear()

    def _jitter(self) -> float:
        return self._entropy.uniform(*JITTER)

    def _on_role(self, partition: Partition) -> None:
        if not partition.is_leader:
            self._forget(partition)

    def _forget(self, partition: Partition) -> None:
        for key, led in list(self._led.items()):
            if led.partition is partition:
                del self._led[key]
                led.close(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _on_over(self, led: LedSharePartition) -> None:
        if self._led.get(led.key) is led:
            del self._led[led.key]

    async def _start_for(self, partition: Partition, settings: ShareSettings) -> int:
        """Where a group begins that never was here."""
        end = partition.readable_to(committed_only=settings.committed_only)
        if settings.offset_reset == "earliest":
            return partition.log.start_offset
        if settings.offset_reset == "latest":
            return end
        since_ms = self._clock.wall_ms() - duration_ms(settings.offset_reset.removeprefix("by_duration:"))
        found = await search(self._loop, self._disk, partition, max(0, since_ms), end)
        return end if found is None else found.offset


_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


def duration_ms(text: str) -> int:
    """A duration of ISO 8601 in days, hours, minutes and seconds."""
    found = _DURATION.fullmatch(text.upper())
    assert found is not None, "it was checked when it was set"
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)

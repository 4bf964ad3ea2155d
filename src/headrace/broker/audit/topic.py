"""The topic `__audit` as this broker writes it: into its own replica where it leads, else to the broker that does.

A write returns when its events are committed.  One that fails is tried again until its deadline, so that an event may be there
twice: its uid is the same then.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from headrace.broker.administration.topics import Topics
from headrace.broker.cluster.peers import Peers, PeerUnreachable
from headrace.broker.coordinators.partition_log import wait_for_high_watermark
from headrace.broker.coordinators.writing import in_batches
from headrace.broker.partitions.replicas import Replicas
from headrace.host.clock import Clock
from headrace.log.interface import Origin
from headrace.metadata.cluster import ClusterMetadata
from headrace.model.errors import ErrorCode, RequestError, StorageError
from headrace.model.identity import NO_BROKER
from headrace.model.names import AUDIT
from headrace.records.record import Record
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

PARTITION = 0
PURPOSE = "audit"
PRODUCE_VERSION = 9
ALL_IN_SYNC = -1
# How long one attempt at another broker may take, and the pause before the next where nothing changes.
REMOTE_SECONDS_MAX = 5.0
PAUSE_S = 0.2


class AuditUnavailable(Exception):
    """The trail could not be written in time; the sentence says why."""


class AuditTopic:
    """One broker's hand in the trail."""

    def __init__(
        self,
        broker_id: int,
        *,
        topics: Topics,
        replicas: Replicas,
        cluster: ClusterMetadata,
        peers: Peers,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._broker_id = broker_id
        self._topics = topics
        self._replicas = replicas
        self._cluster = cluster
        self._peers = peers
        self._clock = clock
        self._loop = loop

    async def wait_until_writable(self, seconds: float) -> None:
        """Return when a write should succeed; raise AuditUnavailable after a while."""
        await self._until(self._loop.time() + seconds, self._check)

    async def write(self, events: Iterable[bytes], seconds: float) -> None:
        """Return when the events are committed; raise AuditUnavailable after a while."""
        deadline, timestamp = self._loop.time() + seconds, self._clock.wall_ms()
        records = [Record(position, timestamp, None, event, ()) for position, event in enumerate(events)]
        for batch in in_batches(records, None):
            await self._until(deadline, lambda batch=batch: self._write(batch))  # type: ignore[misc]

    async def _until(self, deadline: float, attempt: Callable[[], Awaitable[None]]) -> None:
        """Try until it succeeds; again at once when something about the cluster changes."""
        why = "it takes too long"
        try:
            async with asyncio.timeout_at(deadline):
                while True:
                    revision = self._cluster.image.revision
                    try:
                        await attempt()
                        return
                    except (RequestError, StorageError, PeerUnreachable) as error:
                        why = str(error)
                    await self._cluster.wait_for_change(revision, PAUSE_S)
        except TimeoutError:
            raise AuditUnavailable(why) from None

    async def _leader(self) -> int:
        """Who leads the partition; the topic is made first if it has to be."""
        topic = await self._topics.ensure(AUDIT)
        leader = topic.partitions[PARTITION].leader
        if leader == NO_BROKER or leader not in self._cluster.image.brokers:
            raise RequestError(ErrorCode.LEADER_NOT_AVAILABLE, f"{AUDIT} has no leader")
        return leader

    async def _check(self) -> None:
        if await self._leader() == self._broker_id:
            partition = self._replicas.find(AUDIT, PARTITION)
            partition.require_leader()
            partition.require_replicas()

    async def _write(self, batch: bytes) -> None:
        leader = await self._leader()
        if leader == self._broker_id:
            await self._write_here(batch)
        else:
            await self._write_at(leader, batch)

    async def _write_here(self, batch: bytes) -> None:
        partition = self._replicas.find(AUDIT, PARTITION)
        partition.require_leader()
        partition.require_replicas()
        appended = partition.append(batch, Origin.COORDINATOR)
        await wait_for_high_watermark(partition, appended.last_offset + 1)

    async def _write_at(self, leader: int, batch: bytes) -> None:
        data = TopicProduceData(name=AUDIT, partition_data=(PartitionProduceData(index=PARTITION, records=batch),))
        request = ProduceRequest(acks=ALL_IN_SYNC, timeout_ms=int(REMOTE_SECONDS_MAX * 1000), topic_data=(data,))
        response: ProduceResponse = await self._peers.call(
            leader, request, PRODUCE_VERSION, timeout=REMOTE_SECONDS_MAX, purpose=PURPOSE
        )
        result = response.responses[0].partition_responses[0]
        if result.error_code != ErrorCode.NONE:
            raise RequestError(ErrorCode(result.error_code), result.error_message or "")

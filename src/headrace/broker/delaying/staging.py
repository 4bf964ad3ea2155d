"""Puts aside what of a client's batch is not due yet: it is committed where it waits before the rest enters the log.

In this order a batch that is sent again, because the broker died in between or an answer was lost, finds there what waits
already, and goes on from that.
"""

import asyncio

from headrace.broker.administration.topics import Topics
from headrace.broker.cluster.peers import Peers, PeerUnreachable
from headrace.broker.coordinators.placement import partition_for
from headrace.broker.delaying.coordinator import DelayCoordinator
from headrace.broker.delaying.splitting import split_steps
from headrace.broker.housekeeping.slices import in_slices
from headrace.broker.partitions.partition import Partition
from headrace.coordination.delay.entries import Target
from headrace.host.clock import Clock
from headrace.host.disk import Buffer
from headrace.host.entropy import Entropy
from headrace.log.interface import Origin
from headrace.log.validation import check_batch
from headrace.metadata.cluster import ClusterMetadata
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import NO_BROKER
from headrace.model.names import DELAYED
from headrace.records.header import read_header
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

PRODUCE_VERSION = 9
ALL_IN_SYNC = -1
PURPOSE = "delaying"
PAUSE_S = 0.05
# How long one attempt at another broker may take, and how long it is tried where the producer sets no limit.
REMOTE_SECONDS_MAX = 10.0
SECONDS_MAX = 30.0
PASSING = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.INVALID_TOPIC_EXCEPTION,  # who does not know us yet as a broker takes nothing from us
    }
)


class Staging:
    """One broker's hand in what waits, for partitions that it leads."""

    def __init__(
        self,
        broker_id: int,
        delays: DelayCoordinator,
        *,
        topics: Topics,
        cluster: ClusterMetadata,
        peers: Peers,
        clock: Clock,
        entropy: Entropy,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._broker_id = broker_id
        self._delays = delays
        self._topics = topics
        self._cluster = cluster
        self._peers = peers
        self._clock = clock
        self._entropy = entropy
        self._loop = loop

    async def set_aside(self, partition: Partition, batch: Buffer) -> tuple[Buffer, Origin]:
        """What of a client's batch goes into the log now, and as whose; the rest waits, committed, when this returns."""
        header, now_ms = read_header(batch), self._delays.now().wall_ms
        check_batch(memoryview(batch), header, partition.config, Origin.CLIENT, now_ms)
        target = Target(partition.topic_id, partition.identity.partition)
        split = await in_slices(self._loop, self._clock, split_steps(batch, target, now_ms, self._uid))
        if split is None:
            return batch, Origin.CLIENT
        partition.require_room_for_client(len(batch))
        is_repeated = header.producer_id >= 0 and partition.log.producers.check(header, Origin.CLIENT) is not None
        if not is_repeated:
            await self.keep(target, split.later)
        return split.now, Origin.DELAYED

    async def take(self, index: int, batch: Buffer) -> None:
        """What another broker has put aside, for entries that this one leads."""
        await self._delays.shards.serving(index).write_batch(bytes(batch))

    async def keep(self, target: Target, batch: bytes) -> None:
        """Return when a batch of entries for a target is committed; raise RequestError when it is refused, or takes too long."""
        try:
            async with asyncio.timeout(SECONDS_MAX):
                while not await self._is_kept(target, batch):
                    pass
        except TimeoutError:
            raise RequestError(ErrorCode.REQUEST_TIMED_OUT, f"{DELAYED} could not be written in time") from None

    async def _is_kept(self, target: Target, batch: bytes) -> bool:
        revision = self._cluster.image.revision
        try:
            index, leader = await self._leader(target)
            if leader == self._broker_id:
                await self.take(index, batch)
            else:
                await self._give(leader, index, batch)
        except PeerUnreachable:
            pass
        except RequestError as error:
            if error.code not in PASSING:
                raise
        else:
            return True
        await self._cluster.wait_for_change(revision, PAUSE_S)
        return False

    async def _leader(self, target: Target) -> tuple[int, int]:
        """Which partition of the waiting keeps what is for a target, and who leads it; the topic is made if it has to be."""
        topic = await self._topics.ensure(DELAYED)
        index = partition_for(f"{target.topic_id}-{target.partition}", topic.partition_count)
        leader = topic.partitions[index].leader
        if leader == NO_BROKER:
            raise RequestError(ErrorCode.LEADER_NOT_AVAILABLE)
        return index, leader

    async def _give(self, leader: int, index: int, batch: bytes) -> None:
        data = TopicProduceData(name=DELAYED, partition_data=(PartitionProduceData(index=index, records=batch),))
        request = ProduceRequest(acks=ALL_IN_SYNC, timeout_ms=int(REMOTE_SECONDS_MAX * 1000), topic_data=(data,))
        response: ProduceResponse = await self._peers.call(
            leader, request, PRODUCE_VERSION, timeout=REMOTE_SECONDS_MAX, purpose=PURPOSE
        )
        result = response.responses[0].partition_responses[0]
        if result.error_code != ErrorCode.NONE:
            raise RequestError(ErrorCode(result.error_code), result.error_message or "")

    def _uid(self) -> int:
        return self._entropy.uuid().int >> 65

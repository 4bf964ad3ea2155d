"""Carries what is due to the partitions that it is for: here where this broker leads them, by Produce elsewhere.

One attempt per target at a time.  What fails is tried again, with the same bytes, for as long as this broker leads the entries;
after that the next leader does.  The target's log recognises what it has.
"""

import asyncio
import logging
from functools import partial
from typing import NamedTuple

from headrace.broker.cluster.peers import Peers, PeerUnreachable
from headrace.broker.coordinators.led_shard import LedShard
from headrace.broker.coordinators.partition_log import wait_for_high_watermark
from headrace.broker.coordinators.shards import Shards
from headrace.broker.delaying.entries import read_payload
from headrace.broker.metrics.figures import DelayFigures
from headrace.broker.partitions.replicas import Replicas
from headrace.broker.supervision.supervision import Rule, Scope, Service
from headrace.coordination.delay.entries import Target
from headrace.coordination.delay.shard import DelayShard, Plan
from headrace.log.interface import Origin
from headrace.metadata.cluster import ClusterMetadata
from headrace.model.errors import ErrorCode, RequestError, StorageError
from headrace.model.identity import NO_BROKER
from headrace.records.batch import build_batch
from headrace.records.compression import codec_name
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

logger = logging.getLogger(__name__)

PRODUCE_VERSION = 13  # the first that names topics by their id
ALL_IN_SYNC = -1
REMOTE_SECONDS_MAX = 10.0
PURPOSE = "delayed records"
PAUSE_S, PAUSE_S_MAX = 0.05, 1.0
# A topic that this broker does not know may have been made a moment ago; after so long it was deleted.
UNKNOWN_SECONDS_MAX = 60.0


class Outlet:
    """The way to the leader of any partition."""

    def __init__(self, broker_id: int, *, replicas: Replicas, cluster: ClusterMetadata, peers: Peers) -> None:
        self._broker_id = broker_id
        self._replicas = replicas
        self._cluster = cluster
        self._peers = peers

    def knows(self, target: Target) -> bool:
        return self._leader(target) is not None

    async def wait_for_change(self, revision: int, seconds: float) -> None:
        await self._cluster.wait_for_change(revision, seconds)

    @property
    def revision(self) -> int:
        return self._cluster.image.revision

    async def send(self, target: Target, batch: bytes) -> None:
        """Return when the target has committed it, now or before; raise RequestError, StorageError or PeerUnreachable."""
        leader = self._leader(target)
        if leader is None:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_ID, "there is no such topic")
        if leader == NO_BROKER:
            raise RequestError(ErrorCode.LEADER_NOT_AVAILABLE, "it has no leader")
        if leader == self._broker_id:
            await self._write_here(target, batch)
        else:
            await self._write_at(leader, target, batch)

    def _leader(self, target: Target) -> int | None:
        topic = self._cluster.image.topics_by_id.get(target.topic_id)
        if topic is None or target.partition >= topic.partition_count:
            return None
        return topic.partitions[target.partition].leader

    async def _write_here(self, target: Target, batch: bytes) -> None:
        partition = self._replicas.find_by_id(target.topic_id, target.partition)
        partition.require_leader()
        partition.require_replicas()
        appended = partition.append(batch, Origin.DELAYED)
        await wait_for_high_watermark(partition, appended.last_offset + 1)

    async def _write_at(self, leader: int, target: Target, batch: bytes) -> None:
        data = PartitionProduceData(index=target.partition, records=batch)
        topics = (TopicProduceData(topic_id=target.topic_id, partition_data=(data,)),)
        request = ProduceRequest(acks=ALL_IN_SYNC, timeout_ms=int(REMOTE_SECONDS_MAX * 1000), topic_data=topics)
        response: ProduceResponse = await self._peers.call(
            leader, request, PRODUCE_VERSION, timeout=REMOTE_SECONDS_MAX, purpose=PURPOSE
        )
        result = response.responses[0].partition_responses[0]
        if result.error_code != ErrorCode.NONE:
            raise RequestError(ErrorCode(result.error_code), result.error_message or "")


class _Way(NamedTuple):
    """Which shard delivers to whom."""

    shard: int
    target: Target


class Deliveries:
    """All that is on its way."""

    def __init__(self, shards: Shards[DelayShard], outlet: Outlet, scope: Scope, figures: DelayFigures) -> None:
        self._shards = shards
        self._outlet = outlet
        self._scope = scope
        self._figures = figures
        self._underway: dict[_Way, tuple[Plan, Service]] = {}

    def start_due(self, led: LedShard[DelayShard]) -> None:
        """Send what is planned and committed."""
        for plan in list(led.shard.plans(led.log.high_watermark)):
            way = _Way(led.index, plan.planned.target)
            known = self._underway.get(way)
            if known is not None:
                if known[0] is plan and not known[1].is_over:
                    continue
                known[1].cancel()
            service = self._scope.run("delivery", partial(self._deliver, led, plan), Rule.RESTART, subject=led.name)
            self._underway[way] = plan, service

    def close(self) -> None:
        for _, service in self._underway.values():
            service.cancel()

    async def _deliver(self, led: LedShard[DelayShard], plan: Plan) -> None:
        loop = asyncio.get_running_loop()
        batch = batch_of(led.shard, plan)
        pause_s, unknown_since = PAUSE_S, None
        while self._is_ours(led, plan):
            revision = self._outlet.revision
            if self._outlet.knows(plan.planned.target):
                unknown_since = None
            elif unknown_since is None:
                unknown_since = loop.time()
            elif loop.time() - unknown_since > UNKNOWN_SECONDS_MAX:
                self._drop(led, plan)
                return
            try:
                await self._outlet.send(plan.planned.target, batch)
            except (RequestError, StorageError, PeerUnreachable) as error:
                if self._is_settled(led, plan, error):
                    return
                await self._outlet.wait_for_change(revision, pause_s)
                pause_s = min(pause_s * 2, PAUSE_S_MAX)
            else:
                self._delivered(led, plan)
                return

    def _is_ours(self, led: LedShard[DelayShard], plan: Plan) -> bool:
        return self._shards.term(led.index) == led.term and led.is_loaded and led.shard.is_current(plan)

    def _is_settled(self, led: LedShard[DelayShard], plan: Plan, error: Exception) -> bool:
        """Whether there is nothing more to try with this plan as it is."""
        code = error.code if isinstance(error, RequestError) else None
        if not self._is_ours(led, plan):
            return True
        if code is ErrorCode.INVALID_PRODUCER_EPOCH:
            # A later leader of these entries has delivered there, and it did this first.
            self._delivered(led, plan)
            return True
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            logger.warning("%s has lost what was delivered to it; it goes on as a new producer", plan.planned.target)
            led.take_news(led.shard.start_over(plan))
            return not self._is_ours(led, plan)
        logger.info("delayed records for %s wait: %s", plan.planned.target, error)
        return False

    def _delivered(self, led: LedShard[DelayShard], plan: Plan) -> None:
        if not self._is_ours(led, plan):
            return
        self._count(led, plan)
        self._underway.pop(_Way(led.index, plan.planned.target), None)
        led.take_news(led.shard.delivered(plan))

    def _count(self, led: LedShard[DelayShard], plan: Plan) -> None:
        now_ms = self._shards.now().wall_ms
        for waiting in led.shard.index.at(plan.planned.offsets):
            self._figures.delivered += 1
            self._figures.late.observe((now_ms - waiting.due_ms) / 1000)

    def _drop(self, led: LedShard[DelayShard], plan: Plan) -> None:
        target = plan.planned.target
        logger.warning("topic %s is gone, and with it what was delayed for it", target.topic_id)
        led.take_news(led.shard.drop(target))


def batch_of(shard: DelayShard, plan: Plan) -> bytes:
    """The records of a plan as their target gets them; the same bytes whenever it is asked for."""
    payloads = [read_payload(payload) for payload in shard.index.payloads(plan.planned.offsets)]
    producer, base_sequence = plan.written_as
    return build_batch(
        [payload.record._replace(timestamp=plan.planned.at_ms) for payload in payloads],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=base_sequence,
        compression=codec_name(payloads[0].codec),
    )

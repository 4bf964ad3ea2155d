"""Has the markers of decided transactions written: here where this broker leads the partition, by WriteTxnMarkers elsewhere.

One attempt per transaction at a time.  What fails is tried again a little later, for as long as this broker coordinates it.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from headrace.broker.cluster.peers import PeerUnreachable
from headrace.broker.coordinators.partition_log import LedPartition
from headrace.broker.coordinators.runtime import CoordinatorRuntime
from headrace.broker.coordinators.transactions.entries import by_topic
from headrace.broker.coordinators.transactions.marker_writes import write_markers
from headrace.coordination.transaction.markers import RETRY_BACKOFF_MS, SETTLED, Marker
from headrace.coordination.transaction.shard import TransactionShard
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import NO_BROKER, TopicPartition
from headrace.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from headrace.broker.app import Broker

logger = logging.getLogger(__name__)

WRITE_TXN_MARKERS_VERSION = 2
REMOTE_TIMEOUT_S = 30.0
LANES = LANE, LATE_LANE = "markers", "late markers"
LATE_FOR_S = 30.0

Results = dict[TopicPartition, ErrorCode]


class MarkerSender:
    """Carries markers from the shards to the partitions."""

    def __init__(
        self,
        broker: "Broker",
        runtime: CoordinatorRuntime[TransactionShard],
        on_noted: Callable[[int, TransactionShard], None],
    ) -> None:
        """`on_noted` hears of each shard that has taken note of written markers."""
        self._broker = broker
        self._runtime = runtime
        self._on_noted = on_noted
        self._timers: dict[int, asyncio.TimerHandle] = {}
        # Partitions whose markers the replicas did not confirm in time, and when that was.
        self._late: dict[TopicPartition, float] = {}
        self._closed = False

    def send_due(self, index: int, shard: TransactionShard, log: LedPartition) -> None:
        """Start what is due in a shard, and come back when more will be."""
        if self._closed or not len(shard.markers):
            return
        now = self._runtime.now()
        for marker in shard.take_markers(now, log.high_watermark):
            self._broker.spawn(self._send(index, marker, log))
        self._come_back(index, shard, log)

    def close(self) -> None:
        """Stop; whatever is left is taken up again when the shard is loaded the next time."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()

    def _come_back(self, index: int, shard: TransactionShard, log: LedPartition) -> None:
        due_ms = shard.markers.next_due_ms()
        if due_ms is None or index in self._timers:
            return
        # Not at once: a decision that is not committed yet is due too, and its commit will call.
        delay_s = max(due_ms - self._runtime.now().wall_ms, RETRY_BACKOFF_MS) / 1000

        def again() -> None:
            self._timers.pop(index, None)
            if any(shard is led for _, led in self._runtime.shards()):
                try:
                    self.send_due(index, shard, log)
                except Exception as error:
                    self._runtime.fail(index, error)

        self._timers[index] = asyncio.get_running_loop().call_later(delay_s, again)

    async def _send(self, index: int, marker: Marker, log: LedPartition) -> None:
        epoch = log.leader_epoch
        try:
            results = await self._write_everywhere(marker, epoch)
        except Exception:
            logger.exception("markers of %s could not be sent", marker.transactional_id)
            results = {}
        _log_refusals(marker, results)
        try:
            self._runtime.tell(index, lambda shard, now: shard.note_markers(marker, results, now))
        except RequestError:
            return  # the coordinator has moved, and its successor finishes this
        for led, shard in self._runtime.shards():
            if led == index:
                self._on_noted(index, shard)
                self._come_back(index, shard, log)

    async def _write_everywhere(self, marker: Marker, coordinator_epoch: int) -> Results:
        results: Results = {}
        attempts = []
        for leader, partitions in self._by_leader(marker.partitions).items():
            if leader is None:
                # The topic is gone, and its records with it.
                results.update(dict.fromkeys(partitions, ErrorCode.NONE))
            elif leader == NO_BROKER:
                results.update(dict.fromkeys(partitions, ErrorCode.LEADER_NOT_AVAILABLE))
            elif leader == self._broker.broker_id:
                attempts.append(
                    write_markers(
                        self._broker,
                        marker.producer,
                        partitions,
                        committed=marker.committed,
                        coordinator_epoch=coordinator_epoch,
                        transaction_version=marker.transaction_version,
                    )
                )
            else:
                for lane in LANES:
                    if mine := [each for each in partitions if self._lane_of(each) == lane]:
                        attempts.append(self._write_remotely(leader, marker, mine, coordinator_epoch, lane))
        for answered in await asyncio.gather(*attempts):
            results.update(answered)
        for partition, code in results.items():
            if code is ErrorCode.REQUEST_TIMED_OUT:
                self._late[partition] = self._runtime.now().monotonic
        return results

    def _lane_of(self, partition: TopicPartition) -> str:
        """Partitions that were late a moment ago have a connection of their own, so that the others need not wait behind them."""
        late = self._late.get(partition)
        if late is not None and self._runtime.now().monotonic - late > LATE_FOR_S:
            del self._late[partition]
            late = None
        return LANE if late is None else LATE_LANE

    def _by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int | None, list[TopicPartition]]:
        """Partitions by the broker that leads them; None for those that do not exist any more."""
        by_leader: dict[int | None, list[TopicPartition]] = defaultdict(list)
        for partition in sorted(partitions):
            state = self._broker.image.partition(partition.topic, partition.partition)
            by_leader[None if state is None else state.leader].append(partition)
        return by_leader

    async def _write_remotely(
        self, broker_id: int, marker: Marker, partitions: list[TopicPartition], coordinator_epoch: int, lane: str
    ) -> Results:
        topics = tuple(
            WritableTxnMarkerTopic(name=topic.topic, partition_indexes=topic.partition_ids) for topic in by_topic(partitions)
        )
        request = WriteTxnMarkersRequest(
            markers=(
                WritableTxnMarker(
                    producer_id=marker.producer.producer_id,
                    producer_epoch=marker.producer.epoch,
                    transaction_result=marker.committed,
                    topics=topics,
                    coordinator_epoch=coordinator_epoch,
                    transaction_version=marker.transaction_version,
                ),
            )
        )
        try:
            response: WriteTxnMarkersResponse = await self._broker.peers.call(
                broker_id, request, WRITE_TXN_MARKERS_VERSION, timeout=REMOTE_TIMEOUT_S, lane=lane
            )
        except PeerUnreachable as error:
            logger.info("markers of %s wait: %s", marker.transactional_id, error)
            return dict.fromkeys(partitions, ErrorCode.NETWORK_EXCEPTION)
        return {
            TopicPartition(topic.name, partition.partition_index): ErrorCode(partition.error_code)
            for answered in response.markers
            for topic in answered.topics
            for partition in topic.partitions
        }


def _log_refusals(marker: Marker, results: Mapping[TopicPartition, ErrorCode]) -> None:
    for partition, error in results.items():
        if error is not ErrorCode.NONE:
            outcome = "is passed over" if error in SETTLED else "is tried again"
            logger.info("the marker of %s in %s %s: %s", marker.transactional_id, partition, outcome, error.name)

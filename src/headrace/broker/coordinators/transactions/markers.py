"""Has the markers of decided transactions written: here where this broker leads the partition, by WriteTxnMarkers elsewhere.

One attempt per transaction at a time.  What fails is tried again a little later, for as long as this broker coordinates it.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from headrace.broker.cluster.peers import Peers, PeerUnreachable
from headrace.broker.coordinators.led_shard import LedShard
from headrace.broker.coordinators.shards import Shards
from headrace.broker.coordinators.transactions.entries import by_topic
from headrace.broker.coordinators.transactions.marker_writes import MarkerWriter
from headrace.broker.supervision.supervision import Spawn
from headrace.coordination.transaction.markers import RETRY_BACKOFF_MS, SETTLED, Marker
from headrace.coordination.transaction.shard import TransactionShard
from headrace.metadata.cluster import ClusterMetadata
from headrace.model.errors import ErrorCode
from headrace.model.identity import NO_BROKER, TopicPartition
from headrace.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

logger = logging.getLogger(__name__)

WRITE_TXN_MARKERS_VERSION = 2
REMOTE_TIMEOUT_S = 30.0
PURPOSES = PURPOSE, LATE_PURPOSE = "markers", "late markers"
LATE_FOR_S = 30.0

Results = dict[TopicPartition, ErrorCode]


class MarkerSender:
    """Carries markers from the shards to the partitions."""

    def __init__(
        self,
        broker_id: int,
        cluster: ClusterMetadata,
        shards: Shards[TransactionShard],
        peers: Peers,
        writer: MarkerWriter,
        spawn: Spawn,
        *,
        on_written: Callable[[LedShard[TransactionShard], str], None],
    ) -> None:
        """`on_written` hears of each shard that has taken note of written markers, and of which transactional id."""
        self._broker_id = broker_id
        self._cluster = cluster
        self._shards = shards
        self._peers = peers
        self._writer = writer
        self._spawn = spawn
        self._on_written = on_written
        self._timers: dict[int, asyncio.TimerHandle] = {}
        # Partitions whose markers the replicas did not confirm in time, and when that was.
        self._late: dict[TopicPartition, float] = {}
        self._closed = False

    def send_due(self, led: LedShard[TransactionShard]) -> None:
        """Start what is due in a shard, and come back when more will be."""
        if self._closed or not len(led.shard.markers):
            return
        for marker in led.shard.take_markers(self._shards.now(), led.log.high_watermark):
            self._spawn(self._send(led.index, marker, led.term))
        self._come_back(led)

    def close(self) -> None:
        """Stop; whatever is left is taken up again when the shard is loaded the next time."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()

    def _come_back(self, led: LedShard[TransactionShard]) -> None:
        due_ms = led.shard.markers.next_due_ms()
        if due_ms is None or led.index in self._timers:
            return
        # Not at once: a decision that is not committed yet is due too, and its commit will call.
        delay_s = max(due_ms - self._shards.now().wall_ms, RETRY_BACKOFF_MS) / 1000
        self._timers[led.index] = asyncio.get_running_loop().call_later(delay_s, self._send_again, led.index)

    def _send_again(self, index: int) -> None:
        self._timers.pop(index, None)
        if not self._shards.is_loaded(index):
            return
        led = self._shards.serving(index)
        try:
            self.send_due(led)
        except Exception as error:
            led.fail(error)

    async def _send(self, index: int, marker: Marker, coordinator_epoch: int) -> None:
        try:
            results = await self._write_everywhere(marker, coordinator_epoch)
        except Exception:
            logger.exception("markers of %s could not be sent", marker.transactional_id)
            results = {}
        _log_refusals(marker, results)
        if not self._shards.is_loaded(index):
            return  # the coordinator has moved, and its successor finishes this
        led = self._shards.serving(index)
        try:
            led.take_news(led.shard.note_markers(marker, results, self._shards.now()))
            self._on_written(led, marker.transactional_id)
            self._come_back(led)
        except Exception as error:
            led.fail(error)  # a marker that nobody took note of would never be tried again

    async def _write_everywhere(self, marker: Marker, coordinator_epoch: int) -> Results:
        results: Results = {}
        attempts = []
        for leader, partitions in self._by_leader(marker.partitions).items():
            if leader is None:
                # The topic is gone, and its records with it.
                results.update(dict.fromkeys(partitions, ErrorCode.NONE))
            elif leader == NO_BROKER:
                results.update(dict.fromkeys(partitions, ErrorCode.LEADER_NOT_AVAILABLE))
            elif leader == self._broker_id:
                attempts.append(self._writer.write(marker.end(coordinator_epoch), partitions))
            else:
                for purpose in PURPOSES:
                    if mine := [each for each in partitions if self._purpose_of(each) == purpose]:
                        attempts.append(self._write_remotely(leader, marker, mine, coordinator_epoch, purpose))
        for answered in await asyncio.gather(*attempts):
            results.update(answered)
        for partition, code in results.items():
            if code is ErrorCode.REQUEST_TIMED_OUT:
                self._late[partition] = self._shards.now().monotonic
        return results

    def _purpose_of(self, partition: TopicPartition) -> str:
        """Partitions that were late a moment ago have a connection of their own, so that the others need not wait behind them."""
        late = self._late.get(partition)
        if late is not None and self._shards.now().monotonic - late > LATE_FOR_S:
            del self._late[partition]
            late = None
        return PURPOSE if late is None else LATE_PURPOSE

    def _by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int | None, list[TopicPartition]]:
        """Partitions by the broker that leads them; None for those that do not exist any more."""
        by_leader: dict[int | None, list[TopicPartition]] = defaultdict(list)
        for partition in sorted(partitions):
            state = self._cluster.image.partition(partition.topic, partition.partition)
            by_leader[None if state is None else state.leader].append(partition)
        return by_leader

    async def _write_remotely(
        self, broker_id: int, marker: Marker, partitions: list[TopicPartition], coordinator_epoch: int, purpose: str
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
            response: WriteTxnMarkersResponse = await self._peers.call(
                broker_id, request, WRITE_TXN_MARKERS_VERSION, timeout=REMOTE_TIMEOUT_S, purpose=purpose
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

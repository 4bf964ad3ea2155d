"""Writes end-of-transaction markers into partitions that this broker leads.

A marker of `__consumer_offsets` goes through the group coordinator, so that offsets committed in the transaction take effect or
vanish with it.  The answer for a partition comes when its marker is committed.
"""

import asyncio
from collections.abc import Iterable

from headrace.broker.coordinators.groups.coordinator import GroupShards
from headrace.broker.coordinators.partition_log import wait_for_high_watermark
from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.replicas import Replicas
from headrace.coordination.transaction.markers import TransactionEnd
from headrace.host.clock import Clock
from headrace.log.interface import Origin
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import TopicPartition
from headrace.model.names import CONSUMER_OFFSETS
from headrace.records.control import build_end_marker

# A marker that is not committed by then is answered REQUEST_TIMED_OUT and sent again: others wait behind it on their connection.
MARKER_SECONDS_MAX = 5.0
# A transaction coordinator knows partitions, not group coordinators: to it these all mean that the leader is not ready.
NOT_READY = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR})


class MarkerWriter:
    """Ends transactions in partitions of this broker."""

    def __init__(self, replicas: Replicas, groups: GroupShards, clock: Clock) -> None:
        self._replicas = replicas
        self._groups = groups
        self._clock = clock

    async def write(self, end: TransactionEnd, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
        """What became of the marker in each partition."""
        asked = list(partitions)
        producer = end.producer
        marker = build_end_marker(
            producer.producer_id, producer.epoch, end.committed, end.coordinator_epoch, self._clock.wall_ms()
        )
        # All are appended before the first is waited for, so that one flush can take them together.
        codes = await asyncio.gather(
            *(
                self._end_in_groups(each.partition, end)
                if each.topic == CONSUMER_OFFSETS
                else self._end_in_partition(each, marker, end.transaction_version)
                for each in asked
            )
        )
        return dict(zip(asked, codes, strict=True))

    async def _end_in_partition(self, identity: TopicPartition, marker: bytes, transaction_version: int) -> ErrorCode:
        try:
            partition = self._replicas.find(identity.topic, identity.partition)
            partition.require_leader()
            partition.require_replicas()
        except RequestError as error:
            return error.code
        try:
            appended = partition.append(marker, Origin.COORDINATOR, transaction_version=transaction_version)
        except RequestError as error:
            if error.code is ErrorCode.INVALID_PRODUCER_EPOCH:
                # Whatever has closed the transaction here may be this very marker, sent before, which a crash could take back.
                return await _once_committed(partition, partition.log.end_offset, error.code)
            return error.code
        return await _once_committed(partition, appended.last_offset + 1, ErrorCode.NONE)

    async def _end_in_groups(self, index: int, end: TransactionEnd) -> ErrorCode:
        try:
            await self._groups.serving(index).end_transaction(end)
        except RequestError as error:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER if error.code in NOT_READY else error.code
        return ErrorCode.NONE


async def _once_committed(partition: Partition, offset: int, code: ErrorCode) -> ErrorCode:
    """Return `code` when everything below an offset is committed, or why it is not yet."""
    try:
        async with asyncio.timeout(MARKER_SECONDS_MAX):
            await wait_for_high_watermark(partition, offset)
    except RequestError as error:
        return error.code
    except TimeoutError:
        return ErrorCode.REQUEST_TIMED_OUT
    return code

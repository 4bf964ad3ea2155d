"""Writes end-of-transaction markers into partitions that this broker leads.

A marker of `__consumer_offsets` goes through the group coordinator, so that offsets committed in the transaction take effect or
vanish with it.  The answer for a partition comes when its marker is committed.
"""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from headrace.broker.partitions.partition import Partition
from headrace.log.interface import Origin
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import ProducerIdentity, TopicPartition
from headrace.model.names import CONSUMER_OFFSETS
from headrace.records.control import build_end_marker

if TYPE_CHECKING:
    from headrace.broker.app import Broker

# A marker that is not committed by then is answered REQUEST_TIMED_OUT and sent again: others wait behind it on their connection.
MARKER_SECONDS_MAX = 5.0
# A transaction coordinator knows partitions, not group coordinators: to it these all mean that the leader is not ready.
NOT_READY = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR})


async def write_markers(
    broker: "Broker",
    producer: ProducerIdentity,
    partitions: Iterable[TopicPartition],
    *,
    committed: bool,
    coordinator_epoch: int,
    transaction_version: int,
) -> dict[TopicPartition, ErrorCode]:
    """What became of the marker in each partition."""
    marker = build_end_marker(producer.producer_id, producer.epoch, committed, coordinator_epoch, broker.clock.wall_ms())
    asked = list(partitions)
    # All are appended before the first is waited for, so that one flush can take them together.
    codes = await asyncio.gather(
        *(
            _end_in_group(broker, each, producer, committed, coordinator_epoch, transaction_version)
            if each.topic == CONSUMER_OFFSETS
            else _append(broker, each, marker, transaction_version)
            for each in asked
        )
    )
    return dict(zip(asked, codes, strict=True))


async def _append(broker: "Broker", identity: TopicPartition, marker: bytes, transaction_version: int) -> ErrorCode:
    try:
        partition = broker.replicas.find(identity.topic, identity.partition)
        partition.require_leader()
        partition.require_replicas()
    except RequestError as error:
        return error.code
    try:
        appended = partition.append(marker, Origin.COORDINATOR, transaction_version=transaction_version)
    except RequestError as error:
        if error.code is ErrorCode.INVALID_PRODUCER_EPOCH:
            # Whatever has closed the transaction here may be this very marker, sent before, which a crash could still take back.
            return await _durable(broker, partition, partition.log.end_offset, ErrorCode.INVALID_PRODUCER_EPOCH)
        return error.code
    return await _durable(broker, partition, appended.last_offset + 1)


async def _durable(broker: "Broker", partition: Partition, offset: int, then: ErrorCode = ErrorCode.NONE) -> ErrorCode:
    """Return `then` when everything below an offset is committed, or why it is not yet."""
    reached: asyncio.Future[ErrorCode] = broker.loop.create_future()

    def on_outcome(code: ErrorCode) -> None:
        if not reached.done():
            reached.set_result(code)

    try:
        if partition.when_durable(offset, -1, on_outcome):
            return then
        async with asyncio.timeout(MARKER_SECONDS_MAX):
            code = await reached
            return then if code is ErrorCode.NONE else code
    except RequestError as error:
        return error.code
    except TimeoutError:
        partition.stop_waiting(on_outcome)
        return ErrorCode.REQUEST_TIMED_OUT


async def _end_in_group(
    broker: "Broker",
    identity: TopicPartition,
    producer: ProducerIdentity,
    committed: bool,
    coordinator_epoch: int,
    transaction_version: int,
) -> ErrorCode:
    try:
        await broker.groups.runtime.end_transaction(
            identity.partition,
            producer,
            committed=committed,
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
        )
    except RequestError as error:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if error.code in NOT_READY else error.code
    return ErrorCode.NONE

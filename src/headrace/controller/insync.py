"""A leader asks to change its in-sync set (AlterPartition).  Checked here, whoever carries it out.

Always: only the leader of the current leader epoch changes the set, by compare-and-swap on the partition; nobody is let in who is
not alive in the very life in which the leader saw it catch up (KIP-903).
"""

from collections.abc import Mapping
from uuid import UUID

from headrace.controller import election, reassignment
from headrace.controller.election import ElectionRules
from headrace.controller.entries import (
    Compare,
    CompareCreated,
    Condition,
    ConditionalWrite,
    PartitionState,
    Put,
    broker_key,
    partition_key,
)
from headrace.controller.image import ClusterImage
from headrace.declaring import dataclass
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import NO_BROKER


@dataclass(frozen=True, slots=True, kw_only=True)
class InSyncChange:
    """What a leader wants: the set as it should be, with the broker epoch of each in it (-1: not known)."""

    topic_id: UUID
    index: int
    leader: int
    broker_epoch: int  # the leader's own life
    leader_epoch: int
    partition_epoch: int
    isr: Mapping[int, int]
    recovering: bool = False


def change_in_sync(image: ClusterImage, change: InSyncChange, rules: ElectionRules) -> tuple[PartitionState, ConditionalWrite]:
    """The state that follows and how to write it.  Raises RequestError with what the leader must hear."""
    state = _current(image, change)
    _check_members(image, change, state)
    after = election.with_isr(state, tuple(b for b in state.replicas if b in change.isr), rules)
    if state.recovering and not change.recovering:
        after = after.changed(recovering=False)
    after = reassignment.completed(after, rules) or after
    key = partition_key(change.topic_id, change.index)
    conditions: list[Condition] = [
        Compare(key, image.mod_revision(key)),
        CompareCreated(broker_key(change.leader), change.broker_epoch),
    ]
    conditions += [
        CompareCreated(broker_key(broker), image.brokers[broker].epoch) for broker in after.isr if broker not in state.isr
    ]
    return after, ConditionalWrite(tuple(conditions), (Put(key, after.to_value()),))


def _current(image: ClusterImage, change: InSyncChange) -> PartitionState:
    topic = image.topics_by_id.get(change.topic_id)
    if topic is None or not 0 <= change.index < topic.partition_count:
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_ID if topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    state = topic.partitions[change.index]
    broker = image.brokers.get(change.leader)
    if broker is None or broker.epoch != change.broker_epoch:
        raise RequestError(ErrorCode.STALE_BROKER_EPOCH)
    if change.leader_epoch < state.leader_epoch:
        raise RequestError(ErrorCode.FENCED_LEADER_EPOCH)
    if change.leader_epoch > state.leader_epoch or change.partition_epoch > state.partition_epoch:
        raise RequestError(ErrorCode.NOT_CONTROLLER)  # our view lags behind the leader's
    if change.leader != state.leader:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"Broker {change.leader} does not lead the partition.")
    if change.partition_epoch < state.partition_epoch:
        raise RequestError(ErrorCode.INVALID_UPDATE_VERSION)
    return state


def _check_members(image: ClusterImage, change: InSyncChange, state: PartitionState) -> None:
    if change.leader not in change.isr:
        raise RequestError(ErrorCode.INVALID_REQUEST, "The leader is always in sync with itself.")
    if change.recovering and (not state.recovering or len(change.isr) > 1):
        raise RequestError(ErrorCode.INVALID_REQUEST, "A leader that recovers is in sync alone.")
    for broker, epoch in change.isr.items():
        if broker not in state.replicas:
            raise RequestError(ErrorCode.INVALID_REQUEST, f"Broker {broker} holds no replica.")
        if broker not in state.isr and not may_join(image, broker, epoch):
            raise RequestError(ErrorCode.INELIGIBLE_REPLICA, f"Broker {broker} is not alive in epoch {epoch}.")


def may_join(image: ClusterImage, broker: int, epoch: int) -> bool:
    """Whether a broker may enter an in-sync set, seen by its leader in this life (-1: the leader cannot tell)."""
    registered = image.brokers.get(broker)
    return (
        registered is not None and image.is_admitted(broker) and not registered.shutting_down and epoch in (-1, registered.epoch)
    )


def has_to_catch_up(state: PartitionState, broker: int) -> bool:
    """Whether a replica is missing from an in-sync set that it belongs in.

    One that is being added does not belong there yet: a move may take hours, and the partition is whole without it."""
    return broker in state.replicas and broker not in state.isr and broker not in state.adding


def waits_for_leader(state: PartitionState) -> bool:
    """Whether nobody is there to catch up with: who led is gone, and may be for good."""
    return state.leader == NO_BROKER

"""Moving replicas (KIP-455): new ones are added, wait until they are in sync, then the old ones go, in one step.

While a move is under way `replicas` holds both, `adding` and `removing` say which are which; the target is what is not being
removed, the origin what is not being added.  A controller that dies half way leaves all of that in the store for the next.
"""

from collections.abc import Iterator

from headrace.controller.election import Elected, ElectionRules, Eligible, elect
from headrace.controller.entries import PartitionState
from headrace.controller.image import ClusterImage, Topic
from headrace.controller.topics import check_replicas
from headrace.declaring import dataclass
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import NO_BROKER


@dataclass(frozen=True, slots=True)
class Move:
    """A partition on its way."""

    topic: Topic
    index: int
    state: PartitionState


def is_moving(state: PartitionState) -> bool:
    return bool(state.adding or state.removing)


def target_of(state: PartitionState) -> tuple[int, ...]:
    return tuple(broker for broker in state.replicas if broker not in state.removing)


def origin_of(state: PartitionState) -> tuple[int, ...]:
    return tuple(broker for broker in state.replicas if broker not in state.adding)


def begin(
    image: ClusterImage, index: int, state: PartitionState, target: tuple[int, ...], rules: ElectionRules
) -> PartitionState:
    """Start moving to `target`, or turn a move under way towards it.  A move with nothing to add is over at once."""
    check_replicas(image, index, target)
    origin = origin_of(state)
    adding = tuple(broker for broker in target if broker not in origin)
    removing = tuple(broker for broker in origin if broker not in target)
    replicas = (*target, *removing)
    if (replicas, adding, removing) == (state.replicas, state.adding, state.removing):
        return state
    # Those an earlier move wanted to add, and this one does not, go at once.
    after = state.changed(
        replicas=replicas,
        adding=adding,
        removing=removing,
        isr=tuple(broker for broker in state.isr if broker in replicas),
        elr=tuple(broker for broker in state.elr if broker in replicas),
    )
    return completed(after, rules) or after


def cancel(state: PartitionState, eligible: Eligible, rules: ElectionRules) -> Elected:
    """Go back to where the replicas were.  Raises RequestError when nothing moves, or when it cannot be done without loss."""
    if not is_moving(state):
        raise RequestError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "The partition is not being moved.")
    origin = origin_of(state)
    isr = tuple(broker for broker in state.isr if broker in origin)
    if not isr and state.isr:
        raise RequestError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "None of the original replicas is in sync; cancelling would lose data."
        )
    after = state.changed(
        replicas=origin, adding=(), removing=(), isr=isr, elr=tuple(broker for broker in state.elr if broker in origin)
    )
    return _with_leader(state, after, eligible, rules)


def completed(state: PartitionState, rules: ElectionRules) -> PartitionState | None:
    """The state after the move, when every new replica is in sync; None while some are not."""
    if not is_moving(state):
        return None
    target = target_of(state)
    isr = tuple(broker for broker in state.isr if broker in target)
    minimum = min(rules.min_insync_replicas, len(target))
    if not set(state.adding) <= set(isr) or len(isr) < max(1, minimum):
        return None
    after = state.changed(replicas=target, adding=(), removing=(), isr=isr, elr=tuple(b for b in state.elr if b in target))
    return _with_leader(state, after, isr.__contains__, rules).state


def _with_leader(before: PartitionState, after: PartitionState, eligible: Eligible, rules: ElectionRules) -> Elected:
    """The leader stays if it keeps its replica."""
    if before.leader == NO_BROKER or before.leader in after.isr:
        return Elected(after)
    return elect(after, eligible, rules)


def moves(image: ClusterImage) -> Iterator[Move]:
    """All partitions on their way."""
    for topic, index, state in image.partitions():
        if is_moving(state):
            yield Move(topic, index, state)

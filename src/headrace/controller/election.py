"""Who leads a partition.  Values in, values out: the state that must follow, or the same state when nothing must.

Always: a leader comes from the in-sync set, or from the eligible ones (KIP-966) when that is empty: both hold everything that
was committed.  Or it is the only replica there is, which nobody could lead better.  Anything else is an unclean election, happens
only where the topic allows it, and is told apart in the result.
A change of leader, to nobody too, gets the next leader epoch.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import Enum

from headrace.controller.entries import Memory, PartitionState
from headrace.controller.image import ClusterImage, Topic
from headrace.declaring import dataclass
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import NO_BROKER
from headrace.model.topic_settings import LogConfig

Eligible = Callable[[int], bool]
"""Whether a broker is alive, admitted and not shutting down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionRules:
    """What a topic's settings say about its elections."""

    min_insync_replicas: int = 1
    unclean_allowed: bool = False
    flushed_before_ack: bool = True  # then a killed broker has forgotten nothing that counted

    @classmethod
    def of(cls, config: LogConfig) -> "ElectionRules":
        return cls(
            min_insync_replicas=config.min_insync_replicas,
            unclean_allowed=config.unclean_leader_election_enable,
            flushed_before_ack=config.flush == "ack",
        )


class Cleanliness(Enum):
    """How safe an election was."""

    CLEAN = "clean"
    ONLY_REPLICA = "only replica"  # it may have forgotten something, and nobody else ever had it
    UNCLEAN = "unclean"  # somebody leads who may lack what was committed


@dataclass(frozen=True, slots=True)
class Elected:
    """The state to write, and how safe it is."""

    state: PartitionState
    cleanliness: Cleanliness = Cleanliness.CLEAN


def elect(state: PartitionState, eligible: Eligible, rules: ElectionRules) -> Elected:
    """Give a partition a leader if it has none that may lead; nobody when there is none to be had."""
    if state.leader != NO_BROKER and eligible(state.leader) and state.leader in state.isr:
        return Elected(state)
    for candidate in state.replicas:
        if candidate in state.isr and eligible(candidate):
            return Elected(_led_by(state, candidate, state.isr, state.elr))
    for candidate in state.replicas:
        if candidate in state.elr and eligible(candidate):
            elr = tuple(broker for broker in state.elr if broker != candidate)
            return Elected(_led_by(state, candidate, (*state.isr, candidate), elr))
    return _elect_without_guarantee(state, eligible, rules)


def _elect_without_guarantee(state: PartitionState, eligible: Eligible, rules: ElectionRules) -> Elected:
    """Nobody who could lead is known to hold everything that was committed.

    KIP-966 would let the last known leader lead once in-sync and eligible replicas are none, whatever the topic says.  But a
    partition comes to that only when each of them has forgotten something: killed with unflushed records, or with a new disk.
    The last leader, too, then may lack what another replica, still away, has kept; so it needs the topic's consent like anybody
    else, and is only asked first, since it had the most.  One case is safe without: where there is one replica, no other can
    have more, and to wait would bring nothing back.
    """
    last = state.last_known_leader
    knows_nobody = not state.isr and not state.elr
    if knows_nobody and state.replicas == (last,) and eligible(last):
        return Elected(_led_by(state, last, (last,), (), recovering=True), Cleanliness.ONLY_REPLICA)
    if rules.unclean_allowed:
        first = (last,) if knows_nobody and last in state.replicas else ()
        for candidate in (*first, *state.replicas):
            if eligible(candidate):
                return Elected(_led_by(state, candidate, (candidate,), (), recovering=True), Cleanliness.UNCLEAN)
    return Elected(_led_by_nobody(state))


def _led_by(
    state: PartitionState, leader: int, isr: tuple[int, ...], elr: tuple[int, ...], *, recovering: bool | None = None
) -> PartitionState:
    return state.changed(
        leader=leader,
        leader_epoch=state.leader_epoch + 1,
        isr=isr,
        elr=elr,
        last_known_leader=NO_BROKER,
        recovering=state.recovering if recovering is None else recovering,
        arrived_in=-1,
    )


def _led_by_nobody(state: PartitionState) -> PartitionState:
    if state.leader == NO_BROKER:
        return state
    return state.changed(leader=NO_BROKER, leader_epoch=state.leader_epoch + 1, last_known_leader=state.leader)


def with_isr(state: PartitionState, isr: tuple[int, ...], rules: ElectionRules) -> PartitionState:
    """Replace the in-sync set.  Below the minimum, those who leave stay eligible: nothing is committed without them."""
    minimum = min(rules.min_insync_replicas, len(state.replicas))
    if len(isr) >= minimum:
        elr: tuple[int, ...] = ()
    else:
        left = (broker for broker in (*state.elr, *state.isr) if broker not in isr)
        elr = tuple(dict.fromkeys(left))
    if isr == state.isr and elr == state.elr:
        return state
    return state.changed(isr=isr, elr=elr)


def without_broker(state: PartitionState, broker: int, eligible: Eligible, rules: ElectionRules) -> Elected:
    """A broker has gone: it is not in sync, and not leader."""
    return _without(state, broker, eligible, rules, Memory.ALL)


def without_damaged(state: PartitionState, broker: int, eligible: Eligible, rules: ElectionRules) -> PartitionState:
    """A replica is damaged: somebody else leads, and it vouches for nothing.  While it is the only one in sync, it stays."""
    if not any(other != broker and eligible(other) for other in state.isr):
        return state
    return _without(state, broker, eligible, rules, Memory.NOTHING).state


def vouches(state: PartitionState, broker: int) -> bool:
    """Whether a replica counts for what was committed: as leader, as one in sync, or as one that may become leader."""
    return broker == state.leader or broker in state.isr or broker in state.elr


def _without(state: PartitionState, broker: int, eligible: Eligible, rules: ElectionRules, memory: Memory) -> Elected:
    if broker not in state.replicas:
        return Elected(state)
    after = with_isr(state, tuple(b for b in state.isr if b != broker), rules)
    if after.leader == broker:
        after = _led_by_nobody(after)
    if memory is Memory.NOTHING or (memory is Memory.FLUSHED and not rules.flushed_before_ack):
        after = _without_memory(after, broker, memory)
    # One event in the cluster is one step of each counter, however many rules it went through here.
    return _as_one_step(state, elect(after, lambda b: b != broker and eligible(b), rules))


def _without_memory(state: PartitionState, broker: int, memory: Memory) -> PartitionState:
    """It can no longer vouch for what was committed.  With nothing at all it must not pass for the last known leader either,
    unless nobody else ever had the partition."""
    after = state
    if broker in after.elr:
        after = after.changed(elr=tuple(b for b in after.elr if b != broker))
    if memory is Memory.NOTHING and after.last_known_leader == broker and len(after.replicas) > 1:
        after = after.changed(last_known_leader=NO_BROKER)
    return after


def restarted(
    state: PartitionState, broker: int, eligible: Eligible, rules: ElectionRules, memory: Memory, life: int = -1
) -> Elected:
    """A broker that had gone is back, in another life, and is admitted by this very step.

    An arrival takes many writes, and one whose answer was lost is gone through again, perhaps by another controller.  What
    the broker was elected to lead in this life then stays as it is: a second election would count twice, for one loss."""
    if state.leader == broker and state.arrived_in == life != -1:
        return Elected(state)
    gone = _without(state, broker, eligible, rules, memory)
    back = elect(gone.state, lambda b: b == broker or eligible(b), rules)
    worst = max((gone, back), key=lambda elected: list(Cleanliness).index(elected.cleanliness))
    elected = _as_one_step(state, Elected(back.state, worst.cleanliness))
    if elected.state.leader == broker and elected.state != state:
        return Elected(replace(elected.state, arrived_in=life), elected.cleanliness)
    return elected


def _as_one_step(before: PartitionState, elected: Elected) -> Elected:
    after = elected.state
    if after == before or after.partition_epoch == before.partition_epoch:
        return Elected(before)
    led_anew = after.leader_epoch != before.leader_epoch
    step = PartitionState(
        replicas=after.replicas,
        leader=after.leader,
        leader_epoch=before.leader_epoch + led_anew,
        isr=after.isr,
        elr=after.elr,
        last_known_leader=after.last_known_leader,
        adding=after.adding,
        removing=after.removing,
        recovering=after.recovering,
        arrived_in=after.arrived_in,
        partition_epoch=before.partition_epoch + 1,
    )
    return Elected(step, elected.cleanliness)


def move_away(state: PartitionState, broker: int, eligible: Eligible, rules: ElectionRules) -> PartitionState:
    """Controlled shutdown: lead elsewhere and leave the in-sync set, unless nobody else could lead."""
    others = tuple(b for b in state.isr if b != broker)
    if broker not in state.isr or not any(eligible(b) for b in others):
        return state
    after = with_isr(state, others, rules)
    if after.leader == broker:
        after = elect(_led_by_nobody(after), lambda b: b != broker and eligible(b), rules).state
    return _as_one_step(state, Elected(after)).state


def prefer(state: PartitionState, eligible: Eligible) -> PartitionState:
    """Let the first replica lead, as placed.  Raises RequestError when it does already or cannot."""
    preferred = state.replicas[0]
    if state.leader == preferred:
        raise RequestError(ErrorCode.ELECTION_NOT_NEEDED, "The preferred replica is the leader already.")
    if preferred not in state.isr or not eligible(preferred):
        raise RequestError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"Broker {preferred} is not in sync.")
    return _led_by(state, preferred, state.isr, state.elr)


def elect_uncleanly(state: PartitionState, eligible: Eligible, rules: ElectionRules) -> Elected:
    """An operator asks for a leader at any price.  Raises RequestError when there is one, or none can be had."""
    if state.leader != NO_BROKER and eligible(state.leader):
        raise RequestError(ErrorCode.ELECTION_NOT_NEEDED, "The partition has a leader.")
    allowed = ElectionRules(
        min_insync_replicas=rules.min_insync_replicas, unclean_allowed=True, flushed_before_ack=rules.flushed_before_ack
    )
    elected = elect(state, eligible, allowed)
    if elected.state.leader == NO_BROKER:
        raise RequestError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "No replica of the partition is alive.")
    return elected


def unbalanced(image: ClusterImage, eligible: Eligible, imbalance_percentage: int) -> Iterator[tuple[Topic, int, PartitionState]]:
    """Partitions that should go back to their preferred leader, of brokers that lead too few of those placed on them."""
    preferred: dict[int, int] = {}
    elsewhere: dict[int, list[tuple[Topic, int, PartitionState]]] = {}
    for topic, index, state in image.partitions():
        first = state.replicas[0]
        preferred[first] = preferred.get(first, 0) + 1
        if state.leader != first:
            elsewhere.setdefault(first, []).append((topic, index, state))
    for broker, partitions in elsewhere.items():
        if len(partitions) * 100 > preferred[broker] * imbalance_percentage:
            yield from ((t, i, s) for t, i, s in partitions if broker in s.isr and eligible(broker))


def eligible_in(image: ClusterImage) -> Eligible:
    """Brokers that may lead: alive, admitted in this life, and not on their way out."""
    able = frozenset(b.broker_id for b in image.brokers.values() if image.is_admitted(b.broker_id) and not b.shutting_down)
    return able.__contains__

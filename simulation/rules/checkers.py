"""The rules, checked over what clients saw and what is in the logs at the end.

Nothing acknowledged is lost; a record is where its acknowledgement said; an idempotent producer's record is there once; records
of one key are in the order in which they were sent; nobody reads what is not there in the end, skips anything, or sees an offset
change its record; transactions are there whole or not at all; committed offsets never go back; no partition has two readers of
one group at a time; what was accepted and answered comes to no share group again, and what was not, comes; only topics that
allow it, and partitions for which an operator consents, are led by somebody who may lack something: then what was there before
the consent may be gone, and nothing else.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from headrace.model.names import SHARE_GROUP_STATE
from simulation.clients.heartbeating import SESSION_MS
from simulation.clients.producing import key_of
from simulation.rules.history import (
    AcceptAnswered,
    Accepting,
    Acknowledged,
    Assigned,
    Consented,
    Delivered,
    Ended,
    GaveUp,
    Heard,
    History,
    Led,
    OffsetCommitted,
    OffsetCommitting,
    OffsetRead,
    OffsetRefused,
    Passed,
    Polled,
    Refused,
    Sent,
    Took,
)
from simulation.rules.observer import Committed

Records = Sequence[tuple[int, str]]
# What the controller's log says of an unclean election, before the partition.
UNCLEAN = "unclean election: "
# A session of a new-style group, on the fastest clock there is.
SESSION_S_MIN = SESSION_MS / 1000 * 0.95


@dataclass(frozen=True, slots=True)
class FinalState:
    """The partitions as read over the wire when all was well again: everything, and only what was committed."""

    everything: Mapping[TopicPartition, Records]
    isolated: Mapping[TopicPartition, Records]
    # Where each begins, if not at 0: what was retained before is gone by right.
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    # Of these only the last record of each key must be there.
    compacted: frozenset[TopicPartition] = frozenset()
    # These may lose anything, since their topic allows an unclean election.
    lossy: frozenset[TopicPartition] = frozenset()

    def has_let_go_of(self, partition: TopicPartition, offset: int, value: str) -> bool:
        """Whether a record may be missing by right: too old, superseded, or in a partition of which nothing is known."""
        if partition not in self.everything or partition in self.lossy or offset < self.starts.get(partition, 0):
            return True
        if partition not in self.compacted:
            return False
        return any(later > offset and key_of(other) == key_of(value) for later, other in self.everything[partition])


def check(history: History, final: FinalState, committed: Mapping[TopicPartition, Committed]) -> list[str]:
    """Every broken rule, as a sentence."""
    return [
        *history.violations,
        *lost_writes(history, final),
        *refused_writes(history),
        *duplicates(final),
        *unknown_records(history, final),
        *overdone_retention(history, final),
        *disorder(history, final),
        *false_reads(history, final),
        *skipped_polls(history, final),
        *unequal_leaders(history, committed),
        *torn_transactions(history, final),
        *offsets_gone_back(history),
        *shared_partitions(history),
        *double_owners(history),
        *work_done_again(history),
        *work_never_done(history, final),
        *unclean_elections(history, final),
    ]


def lost_writes(history: History, final: FinalState) -> Iterator[str]:
    """What was acknowledged by all in-sync replicas is there, at the offset that was told."""
    found = {partition: dict(records) for partition, records in final.everything.items()}
    consents = history.consents()
    for fact in history.of(Acknowledged):
        if fact.order < consents.get(fact.partition, 0):
            continue
        there = found.get(fact.partition, {}).get(fact.offset)
        if there is None and final.has_let_go_of(fact.partition, fact.offset, fact.value):
            continue
        if there != fact.value and fact.partition not in final.lossy:
            yield f"lost write: {fact.value}, acknowledged by {fact.broker} at {fact.partition}@{fact.offset}; there is {there}"


def refused_writes(history: History) -> Iterator[str]:
    """A producer that sends each record until it is acknowledged, one at a time, is never told that it left a gap."""
    consents = history.consents()
    for fact in history.of(Refused):
        if fact.partition in consents and fact.order > consents[fact.partition]:
            continue  # what came before it is gone
        yield f"refused write: {fact.value} to {fact.partition}: {fact.reason}"


def duplicates(final: FinalState) -> Iterator[str]:
    for partition, records in final.everything.items():
        first: dict[str, int] = {}
        for offset, value in records:
            if value in first:
                yield f"duplicate: {value} is at {partition}@{first[value]} and @{offset}"
            first.setdefault(value, offset)


def unknown_records(history: History, final: FinalState) -> Iterator[str]:
    """Only what was sent is there, and where it was sent to."""
    sent = {(fact.partition, fact.value) for fact in history.of(Sent)}
    for partition, records in final.everything.items():
        for offset, value in records:
            if (partition, value) not in sent:
                yield f"unknown record: {value} at {partition}@{offset}"
    for fact in history.of(Polled):
        if (fact.partition, fact.value) not in sent:
            yield f"unknown record: {fact.consumer} got {fact.value} of {fact.partition}, which nobody sent there"


def overdone_retention(history: History, final: FinalState) -> Iterator[str]:
    """Retention leaves the active segment, so the newest record that was acknowledged is always there."""
    newest: dict[TopicPartition, int] = {}
    for fact in history.of(Acknowledged):
        newest[fact.partition] = max(fact.offset, newest.get(fact.partition, -1))
    may_lose = final.lossy | history.consents().keys()
    for partition, start in final.starts.items():
        if partition not in may_lose and start > newest.get(partition, start):
            yield f"{partition} begins at {start}, beyond its newest record at {newest[partition]}"


def disorder(history: History, final: FinalState) -> Iterator[str]:
    """Offsets rise, and records of one producer in one partition are in the order in which they were sent."""
    order = {fact.value: fact.order for fact in history.of(Sent)}
    for partition, records in final.everything.items():
        last: dict[str, tuple[int, str]] = {}
        previous = -1
        for offset, value in records:
            if offset <= previous:
                yield f"disorder: {partition} goes from {previous} to {offset}"
            previous = offset
            producer = value.split("/")[0]
            here = (order.get(value, -1), value)
            if producer in last and here < last[producer]:
                yield f"disorder: {partition} has {last[producer][1]} before {value}"
            last[producer] = here


def false_reads(history: History, final: FinalState) -> Iterator[str]:
    """What a consumer was given is what is there in the end (so no offset ever changes its record)."""
    everything = {partition: dict(records) for partition, records in final.everything.items()}
    isolated = {partition: dict(records) for partition, records in final.isolated.items()}
    consents = history.consents()
    for fact in history.of(Polled):
        if fact.order < consents.get(fact.partition, 0):
            continue
        there = (isolated if fact.isolated else everything).get(fact.partition, {}).get(fact.offset)
        if there is None and final.has_let_go_of(fact.partition, fact.offset, fact.value):
            continue
        if there != fact.value and fact.partition not in final.lossy:
            kind = "aborted read" if everything[fact.partition].get(fact.offset) == fact.value else "false read"
            yield f"{kind}: {fact.consumer} got {fact.value} at {fact.partition}@{fact.offset}; there is {there}"


def skipped_polls(history: History, final: FinalState) -> Iterator[str]:
    """A consumer that was led past offsets got every record in them, in order."""
    got: dict[tuple[str, TopicPartition], list[int]] = defaultdict(list)
    isolation: dict[str, bool] = {}
    consents = history.consents()
    for fact in history.facts:
        if isinstance(fact, Polled | Passed) and fact.order < consents.get(fact.partition, 0):
            continue
        if isinstance(fact, Polled):
            got[fact.consumer, fact.partition].append(fact.offset)
            isolation[fact.consumer] = fact.isolated
        elif isinstance(fact, Passed):
            offsets = got.pop((fact.consumer, fact.partition), [])
            if offsets != sorted(set(offsets)):
                yield f"non-monotonic poll: {fact.consumer} got {offsets} of {fact.partition}"
            records = (final.isolated if isolation.get(fact.consumer, True) else final.everything).get(fact.partition, ())
            # Of a compacted partition the leader of that time may have dropped what another still has.
            missed = [
                value
                for offset, value in records
                if fact.start <= offset < fact.end
                and offset not in set(offsets)
                and not final.has_let_go_of(fact.partition, offset, value)
            ]
            if missed:
                yield f"poll skip: {fact.consumer} passed {fact.partition} [{fact.start}, {fact.end}) without {missed}"


def unequal_leaders(history: History, committed: Mapping[TopicPartition, Committed]) -> Iterator[str]:
    """Whoever acknowledges a record led its partition in the epoch in which the record was written, or in a later one.

    (Later, when a producer asks again.)  That each epoch had one leader only is watched while the simulation runs.
    """
    last_led: dict[tuple[TopicPartition, int], int] = {}
    for led in history.of(Led):
        last_led[led.partition, led.broker] = max(led.leader_epoch, last_led.get((led.partition, led.broker), -1))
    consents = history.consents()
    for fact in history.of(Acknowledged):
        if fact.order < consents.get(fact.partition, 0):
            continue
        if fact.partition not in committed or not committed[fact.partition].batches:
            continue  # another life of a topic, or one that is compacted: what became of the record is checked elsewhere
        batch = committed[fact.partition].batch_at(fact.offset)
        if batch is None:
            yield f"acknowledged but never committed: {fact.value} at {fact.partition}@{fact.offset}"
        elif last_led.get((fact.partition, fact.broker), -1) < batch.leader_epoch:
            yield f"{fact.broker} acknowledged {fact.value} of epoch {batch.leader_epoch} of {fact.partition} and never led it"


def torn_transactions(history: History, final: FinalState) -> Iterator[str]:
    """A committed transaction is there whole, an aborted one not at all, one of unknown end one way or the other.

    Its group's offset is part of it: the offset there is in the end belongs to a transaction that is visible.
    """
    values: dict[str, list[tuple[TopicPartition, str]]] = defaultdict(list)
    consents = history.consents()
    unjudged: set[str] = set()
    for fact in history.of(Sent):
        if fact.transaction is not None and fact.order < consents.get(fact.partition, 0):
            unjudged.add(fact.transaction)
        elif fact.transaction is not None:
            values[fact.transaction].append((fact.partition, fact.value))
    outcomes = {fact.transaction: fact.outcome for fact in history.of(Ended)}
    seen = {(partition, value) for partition, records in final.isolated.items() for _, value in records}
    visible: set[str] = set()
    for transaction, records in values.items():
        outcome = outcomes.get(transaction, "unknown")
        there = [value for partition, value in records if (partition, value) in seen]
        if there:
            visible.add(transaction)
        if outcome == "aborted" and there:
            yield f"aborted transaction {transaction} is visible: {there}"
        elif there and len(there) < len(records):
            yield f"torn transaction {transaction} ({outcome}): of {records} only {there} are visible"
        elif outcome == "committed" and not there:
            yield f"lost transaction {transaction}: {records}"
    yield from _torn_offsets(history, visible, unjudged)


def _torn_offsets(history: History, visible: set[str], unjudged: set[str]) -> Iterator[str]:
    last = {(fact.group, fact.partition): fact.offset for fact in history.of(OffsetRead)}
    for fact in history.of(OffsetCommitting):
        if fact.transaction is None or fact.transaction in unjudged:
            continue
        found = last.get((fact.group, fact.partition), 0)
        if fact.transaction in visible and found < fact.offset:
            yield f"torn transaction {fact.transaction}: its records are visible, its offset {fact.offset} is not: {found}"
        if fact.transaction not in visible and found == fact.offset:
            yield f"torn transaction {fact.transaction}: its offset {fact.offset} is visible, its records are not"


def offsets_gone_back(history: History) -> Iterator[str]:
    """A question asked after a commit was acknowledged is answered with it or a later one.

    A commit whose answer was lost may still take effect, at any time: its offset is never wrong.
    """
    reached: dict[tuple[str, TopicPartition], list[tuple[int, int]]] = defaultdict(list)
    undecided: dict[tuple[str, TopicPartition], set[int]] = defaultdict(set)
    for fact in history.facts:
        if isinstance(fact, OffsetCommitting):
            undecided[fact.group, fact.partition].add(fact.offset)
        elif isinstance(fact, OffsetRefused):
            undecided[fact.group, fact.partition].discard(fact.offset)
        elif isinstance(fact, OffsetCommitted):
            undecided[fact.group, fact.partition].discard(fact.offset)
            reached[fact.group, fact.partition].append((fact.order, fact.offset))
        elif isinstance(fact, OffsetRead):
            before = max((offset for order, offset in reached[fact.group, fact.partition] if order < fact.asked), default=0)
            if fact.offset < before and fact.offset not in undecided[fact.group, fact.partition]:
                yield f"committed offset gone back: {fact.group} at {fact.partition} had {before}, then {fact.offset}"


def shared_partitions(history: History) -> Iterator[str]:
    """In one generation of a group each partition has one reader."""
    owners: dict[tuple[str, int, TopicPartition], str] = {}
    for fact in history.of(Assigned):
        owner = owners.setdefault((fact.group, fact.generation, fact.partition), fact.member)
        if owner != fact.member:
            yield f"{fact.partition} belongs to {owner} and to {fact.member} in generation {fact.generation} of {fact.group}"


def double_owners(history: History) -> Iterator[str]:
    """A partition of a new-style group (KIP-848) is taken only when whoever had it gave it up or was silent for a session.

    Who takes one after a silence as long may be a member no more and not know it: that binds nobody.
    """
    owners: dict[tuple[str, TopicPartition], str] = {}
    heard: dict[tuple[str, str], float] = {}
    for fact in history.facts:
        if isinstance(fact, Heard):
            heard[fact.group, fact.member] = fact.sent_at
        elif isinstance(fact, GaveUp):
            if owners.get((fact.group, fact.partition)) == fact.member:
                del owners[fact.group, fact.partition]
        elif isinstance(fact, Took) and fact.at < heard[fact.group, fact.member] + SESSION_S_MIN:
            owner = owners.get((fact.group, fact.partition), fact.member)
            if owner != fact.member and fact.at < heard[fact.group, owner] + SESSION_S_MIN:
                yield f"{fact.member} took {fact.partition} of {fact.group} at {fact.at:.3f}, which was {owner}'s own"
            owners[fact.group, fact.partition] = fact.member


def unclean_elections(history: History, final: FinalState) -> Iterator[str]:
    """Only a topic that allows it is led by a replica that may lack something, and others once for each consent."""
    allowed = {f"{UNCLEAN}{partition} " for partition in final.lossy}
    consents = Counter(f"{UNCLEAN}{_without_its_life(fact.partition)} " for fact in history.of(Consented))
    for line in history.story:
        if UNCLEAN not in line or any(sign in line for sign in allowed):
            continue
        consent = next((sign for sign in consents.elements() if sign in line), None)
        if consent is None:
            yield f"not allowed: {line.strip()}"
        else:
            consents[consent] -= 1


def _without_its_life(partition: TopicPartition) -> TopicPartition:
    """As brokers name a partition of a topic of which the facts tell several lives apart."""
    return TopicPartition(partition.topic.split("#")[0], partition.partition)


def work_done_again(history: History) -> Iterator[str]:
    """Whoever asks for work after a record was accepted and answered does not get it."""
    if any(partition.topic == SHARE_GROUP_STATE for partition in history.consents()):
        return  # what was accepted may be forgotten by right
    accepted: dict[tuple[str, TopicPartition, int], int] = {}
    for fact in history.of(AcceptAnswered):
        if fact.error is ErrorCode.NONE:
            accepted.setdefault((fact.group, fact.partition, fact.offset), fact.order)
    for delivered in history.of(Delivered):
        since = accepted.get((delivered.group, delivered.partition, delivered.offset))
        if since is not None and delivered.asked > since:
            yield f"work done again: {delivered.partition}@{delivered.offset}, which {delivered.group} had accepted"


def work_never_done(history: History, final: FinalState) -> Iterator[str]:
    """In the end, each record of a topic that a share group works on was accepted by somebody who was not told otherwise."""
    refused = ErrorCode.INVALID_RECORD_STATE
    tries = Counter((fact.group, fact.partition, fact.offset) for fact in history.of(Accepting))
    tries.subtract((fact.group, fact.partition, fact.offset) for fact in history.of(AcceptAnswered) if fact.error is refused)
    consents = history.consents()
    for group, partition in sorted({(fact.group, fact.partition) for fact in history.of(Accepting)}):
        if partition in consents:
            continue
        for offset, value in final.everything.get(partition, ()):
            if tries[group, partition, offset] <= 0:
                yield f"work never done: {value} at {partition}@{offset}, by {group}"

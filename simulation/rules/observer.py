"""Looks over the shoulders of all brokers: what is committed stays, and is the same everywhere.

A broker that is seen to be dead has stopped believing that it leads: it gives its lease up before the store does.

Whenever a high watermark moves, on whichever replica, the batches below it are compared with what was ever seen committed at
these offsets.  That is more than clients can see, and sees it at once.  Topics are told apart by their ids: one that was deleted
and made again is another.  Of a compacted topic the records are compared, since each replica drops old ones in its own time.
Topics that allow an unclean election may change what was committed; their replicas agree in the end.  Where an operator consents
to one, what was committed before is forgotten.
"""

from collections.abc import Container
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from headrace.broker.partitions.partition import Partition
from headrace.model.errors import RequestError, StorageError
from headrace.model.identity import TopicPartition
from headrace.records.batch import iterate_batches
from headrace.records.header import BatchHeader
from headrace.records.record import read_records
from simulation.rules.history import History, Led
from simulation.world.machine import Machine, required_machine

if TYPE_CHECKING:
    from headrace.broker.app import Broker

READ_BYTES = 1 << 22


def _believes_to_lead(broker: "Broker", identity: TopicPartition) -> bool:
    try:
        is_leader = broker.parts.replicas.find(identity.topic, identity.partition).is_leader
    except RequestError:
        return False
    return is_leader and hasattr(broker, "parts") and broker.parts.membership.is_valid


def batch_of(header: BatchHeader) -> "CommittedBatch":
    return CommittedBatch(header.base_offset, header.next_offset, header.leader_epoch, header.crc)


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """What identifies a batch: everything but the bytes themselves, which its checksum covers."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    crc: int


Entry = tuple[bytes | None, bytes | None]
"""The key and the value of a record."""


@dataclass(slots=True)
class Committed:
    """All that was ever below a high watermark, on any replica: batches by base offset or, of a compacted topic, records."""

    batches: dict[int, CommittedBatch] = field(default_factory=dict)
    entries: dict[int, Entry] = field(default_factory=dict)

    def batch_at(self, offset: int) -> CommittedBatch | None:
        return next((each for each in self.batches.values() if each.base_offset <= offset < each.next_offset), None)


class Observer:
    """Watches brokers and writes down what they break."""

    def __init__(self, history: History) -> None:
        self._history = history
        # Of each partition as it is now, and of all there ever were, by topic id.
        self.committed: dict[TopicPartition, Committed] = {}
        self._committed: dict[tuple[UUID, int], Committed] = {}
        self._leaders: dict[tuple[UUID, int, int], int] = {}
        self._led: set[tuple[UUID, int, int]] = set()
        self._alive: dict[Broker, Machine] = {}
        # Brokers whose disks have flipped bits: what lies there is looked at when they do, not before, or they would be warned.
        self.rotten: set[int] = set()
        # Until when a broker whose lease was taken away unfairly cannot know of it.
        self._excused_until: dict[int, float] = {}

    def attach(self, broker: "Broker") -> None:
        """From before the broker's first replica is opened."""
        self._alive[broker] = required_machine()
        checked: dict[Partition, int] = {}
        broker.parts.replica_changes.on_role.append(lambda partition: self._on_role(broker, partition, checked))

    def detach(self, broker: "Broker") -> None:
        """The broker is dead: what it believes no longer counts."""
        self._alive.pop(broker, None)

    def excuse(self, broker_id: int, seconds: float) -> None:
        """The broker's lease was taken away unfairly: it learns that when it next renews."""
        self._excused_until[broker_id] = self._history.now + seconds

    def forget(self, topic_id: UUID, partition: TopicPartition) -> None:
        """An operator consents to lose what was committed in it."""
        self.committed.pop(partition, None)
        self._committed.pop((topic_id, partition.partition), None)

    def _on_role(self, broker: "Broker", partition: Partition, checked: dict[Partition, int]) -> None:
        if partition.is_leader:
            self._on_leader(broker.broker_id, partition)
            self._look_for_the_undead(broker, partition)
        if partition not in checked:
            is_rotten = broker.broker_id in self.rotten
            checked[partition] = partition.high_watermark if is_rotten else partition.log.start_offset
            partition.on_high_watermark.append(lambda: self._on_high_watermark(broker.broker_id, partition, checked))
        self._on_high_watermark(broker.broker_id, partition, checked)

    def _on_leader(self, broker_id: int, partition: Partition) -> None:
        key = (partition.topic_id, partition.identity.partition, partition.leader_epoch)
        first = self._leaders.setdefault(key, broker_id)
        if first != broker_id:
            self._history.violate(f"{partition.identity} is led by {first} and by {broker_id} in epoch {partition.leader_epoch}")
        if key not in self._led:
            self._led.add(key)
            fact = Led(partition=partition.identity, leader_epoch=partition.leader_epoch, broker=broker_id)
            self._history.record(fact)

    def _look_for_the_undead(self, broker: "Broker", partition: Partition) -> None:
        """Whom this leader has seen die must not believe to lead any more."""
        for other, machine in self._alive.items():
            excused = self._excused_until.get(other.broker_id, 0.0) > self._history.now
            if other.broker_id in broker.image.brokers or excused:
                continue
            if machine.context().run(_believes_to_lead, other, partition.identity):
                self._history.violate(
                    f"{broker.broker_id} has seen {other.broker_id} die and leads {partition.identity}, "
                    f"which {other.broker_id} believes to lead under a lease that holds"
                )

    def _on_high_watermark(self, broker_id: int, partition: Partition, checked: dict[Partition, int]) -> None:
        while checked[partition] < partition.high_watermark and partition.failure is None:
            position, end = max(checked[partition], partition.log.start_offset), partition.high_watermark
            try:
                read = partition.log.read(position, max_bytes=READ_BYTES, up_to=end, at_least_one=True, as_stored=True)
            except (RequestError, StorageError) as error:
                self._history.tell(f"{partition.identity} cannot be looked at from {position} to {end}: {error}")
                return
            for header, batch in iterate_batches(read.data):
                self._compare(broker_id, partition, header, batch)
                checked[partition] = header.next_offset
            if checked[partition] <= position:
                return

    def _compare(self, broker_id: int, partition: Partition, header: BatchHeader, batch: memoryview) -> None:
        config, identity = partition.config, partition.identity
        if config.unclean_leader_election_enable:
            return
        committed = self._committed.setdefault((partition.topic_id, identity.partition), Committed())
        self.committed[identity] = committed
        found: object
        known: object
        if config.is_compacted:
            for record in read_records(batch):
                found = (record.key, record.value)
                known = committed.entries.setdefault(record.offset, (record.key, record.value))
                self._require_same(broker_id, f"{identity}@{record.offset}", found, known)
        else:
            found = batch_of(header)
            known = committed.batches.setdefault(header.base_offset, batch_of(header))
            self._require_same(broker_id, str(identity), found, known)

    def _require_same(self, broker_id: int, where: str, found: object, known: object) -> None:
        if known != found:
            self._history.violate(f"{where}: broker {broker_id} has committed {found}, but {known} was committed before")

    def why_not_even(self, brokers: "list[Broker]", in_use: Container[str] = ()) -> str | None:
        """None when nothing is offline, all replicas of each partition have the same end, and everything is committed.

        A topic in use need not be even at any moment: followers hear of a high watermark with the next record, or when their
        fetch has waited long enough.
        """
        ends: dict[TopicPartition, tuple[int, int]] = {}
        for broker in brokers:
            for partition in broker.parts.replicas:
                if partition.failure is not None:
                    return f"{partition.identity} is offline on {broker.broker_id}"
                if partition.identity.topic in in_use:
                    continue
                here = (partition.log.end_offset, partition.high_watermark)
                if here[0] != here[1]:
                    return f"{partition.identity} on {broker.broker_id} is committed only up to {here[1]} of {here[0]}"
                if partition.is_leader and partition.last_stable_offset != here[1]:
                    return f"{partition.identity} has an open transaction at {partition.last_stable_offset}"
                if ends.setdefault(partition.identity, here) != here:
                    return f"{partition.identity} ends at {here} on {broker.broker_id}, elsewhere at {ends[partition.identity]}"
        return None

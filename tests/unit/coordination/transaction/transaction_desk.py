"""A shard with everything around it that a broker would have: a log, partitions that take markers, a clock."""

from dataclasses import dataclass, field, replace
from typing import Any

from headrace.coordination.decision import Decision
from headrace.coordination.moment import Moment
from headrace.coordination.transaction.markers import Marker
from headrace.coordination.transaction.producer_ids import ProducerIds
from headrace.coordination.transaction.requests import (
    AddPartitions,
    EndTransaction,
    InitProducerId,
    TransactionSettings,
    VerifyPartitions,
)
from headrace.coordination.transaction.shard import TransactionShard
from headrace.coordination.transaction.state import Entry, TransactionEntry, TransactionState
from headrace.model.errors import ErrorCode
from headrace.model.identity import ProducerIdentity, TopicPartition

ORDERS = TopicPartition("orders", 0)
BILLS = TopicPartition("bills", 3)
OFFSETS = TopicPartition("__consumer_offsets", 7)
TIMEOUT_MS = 60_000


@dataclass
class Desk:
    """Carries decisions out one after the other, as the broker does."""

    settings: TransactionSettings = field(default_factory=TransactionSettings)
    log: list[Entry] = field(default_factory=list)
    now_ms: int = 1_000_000
    # What each partition holds: the outcomes written for a producer id, in order.
    written: dict[TopicPartition, list[tuple[ProducerIdentity, bool]]] = field(default_factory=dict)
    failing: set[TopicPartition] = field(default_factory=set)
    log_broken: bool = False

    def __post_init__(self) -> None:
        self.producer_ids = ProducerIds()
        self.producer_ids.add(range(1000, 9000))
        self.shard = TransactionShard(self.settings, self.producer_ids)
        self.shard.on_loaded(self.moment)

    @property
    def moment(self) -> Moment:
        return Moment(self.now_ms, self.now_ms / 1000)

    def restart(self) -> None:
        """The coordinator is gone; another one replays the log."""
        self.shard = TransactionShard(self.settings, self.producer_ids)
        for offset, entry in enumerate(self.log):
            # The written form has no field for the last epoch.
            read = replace(entry, last_producer_epoch=-1) if isinstance(entry, TransactionEntry) else entry
            self.shard.replay(read, offset)
        self.carry_out(self.shard.on_loaded(self.moment))

    def carry_out(self, decision: Decision[Any]) -> Any:
        if self.log_broken and decision.entries:
            return None
        for entry in decision.entries:
            self.log.append(entry)
            self.shard.replay(entry, len(self.log) - 1)
        return decision.replies[0].message if decision.replies else None

    # --- requests

    def init(
        self, transactional_id: str = "t", *, expected: tuple[int, int] | None = None, timeout_ms: int = TIMEOUT_MS, **more: bool
    ) -> Any:
        producer = None if expected is None else ProducerIdentity(*expected)
        request = InitProducerId(transactional_id=transactional_id, timeout_ms=timeout_ms, expected=producer, **more)
        return self.carry_out(self.shard.init_producer_id(request, 1, self.moment))

    def add(self, producer: tuple[int, int], *partitions: TopicPartition, version: int = 2, transactional_id: str = "t") -> Any:
        request = AddPartitions(
            transactional_id=transactional_id,
            producer=ProducerIdentity(*producer),
            partitions=frozenset(partitions),
            client_version=version,
        )
        return self.carry_out(self.shard.add_partitions(request, 1, self.moment)).error

    def verify(self, producer: tuple[int, int], *partitions: TopicPartition) -> Any:
        request = VerifyPartitions(transactional_id="t", producer=ProducerIdentity(*producer), partitions=frozenset(partitions))
        return self.shard.verify_partitions(request)

    def end(self, producer: tuple[int, int], *, committed: bool, version: int = 2, transactional_id: str = "t") -> Any:
        request = EndTransaction(
            transactional_id=transactional_id, producer=ProducerIdentity(*producer), committed=committed, client_version=version
        )
        return self.carry_out(self.shard.end(request, 1, self.moment))

    # --- markers and time

    def take_markers(self, committed_to: int | None = None) -> tuple[Marker, ...]:
        return self.shard.take_markers(self.moment, len(self.log) if committed_to is None else committed_to)

    def write_markers(self, markers: tuple[Marker, ...] | None = None) -> None:
        """Send what is due to the partitions, and tell the shard what they answered."""
        for marker in self.take_markers() if markers is None else markers:
            self.carry_out(self.shard.note_markers(marker, self.deliver(marker), self.moment))

    def deliver(self, marker: Marker) -> dict[TopicPartition, ErrorCode]:
        results = {}
        for partition in marker.partitions:
            if partition in self.failing:
                results[partition] = ErrorCode.NOT_LEADER_OR_FOLLOWER
            else:
                self.written.setdefault(partition, []).append((marker.producer, marker.committed))
                results[partition] = ErrorCode.NONE
        return results

    def pass_time(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        for _ in range(100):
            deadline = self.shard.next_deadline()
            if deadline is None or deadline > self.moment.monotonic:
                return
            self.carry_out(self.shard.tick(self.moment))
            if self.log_broken:
                return
        raise AssertionError("the shard is never done with its deadlines")

    # --- looking

    @property
    def transaction(self) -> TransactionEntry:
        found = self.shard.get("t")
        assert found is not None
        return found

    @property
    def state(self) -> TransactionState:
        return self.transaction.state

    def begun(self, *partitions: TopicPartition, version: int = 2) -> tuple[int, int]:
        """A producer with an open transaction."""
        identified = self.init()
        producer = (identified.producer_id, identified.producer_epoch)
        assert self.add(producer, *(partitions or (ORDERS,)), version=version) == ErrorCode.NONE
        return producer

    def at_epoch(self, epoch: int) -> tuple[int, int]:
        """A producer that has used up that many epochs."""
        identified = self.init()
        aged = TransactionEntry(
            transactional_id="t",
            producer_id=identified.producer_id,
            producer_epoch=epoch,
            timeout_ms=TIMEOUT_MS,
            last_update_ms=self.now_ms,
        )
        self.carry_out(Decision((aged,)))
        return identified.producer_id, epoch

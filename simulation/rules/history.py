"""What happened in a simulation, as clients and onlookers saw it: facts for the checkers, and a story for people.

Two runs with one seed write the same story, byte for byte.
"""

import hashlib
import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from headrace.broker.cluster.peers import PeerUnreachable
from headrace.metadata.store import LeaseLost, StoreUnavailable
from headrace.model.errors import ErrorCode, RequestError, StorageError
from headrace.model.identity import TopicPartition
from simulation.world.loop import SimulatedLoop
from simulation.world.machine import current_machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something that happened; `order` tells which of two was first."""

    order: int = 0
    at: float = 0.0

    def sentence(self) -> str:
        """For people; who it is about stands before it."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent(Fact):
    """A producer is about to send a record for the first time."""

    producer: str
    partition: TopicPartition
    value: str
    transaction: str | None = None

    def sentence(self) -> str:
        within = f" in transaction {self.transaction}" if self.transaction is not None else ""
        return f"sends {self.value} to {self.partition}{within}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged(Fact):
    """A broker told a producer that all in-sync replicas have the record."""

    producer: str
    partition: TopicPartition
    value: str
    offset: int
    broker: int

    def sentence(self) -> str:
        return f"hears from broker {self.broker} that {self.value} is at {self.partition}@{self.offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(Fact):
    """A broker refused a record for good; a producer that does everything right never hears this."""

    producer: str
    partition: TopicPartition
    value: str
    reason: str

    def sentence(self) -> str:
        return f"is refused {self.value} by {self.partition}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Fact):
    """How a transaction ended, as its producer was told: committed, aborted, or it does not know."""

    transaction: str
    outcome: str

    def sentence(self) -> str:
        return f"transaction {self.transaction} ended: {self.outcome}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Polled(Fact):
    """A consumer got a record."""

    consumer: str
    partition: TopicPartition
    offset: int
    value: str
    isolated: bool  # read_committed

    def sentence(self) -> str:
        return f"reads {self.value} at {self.partition}@{self.offset}" + (" (committed only)" if self.isolated else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed(Fact):
    """A consumer was told that nothing (more) is to be had in [start, end)."""

    consumer: str
    partition: TopicPartition
    start: int
    end: int

    def sentence(self) -> str:
        return f"has all of {self.partition} [{self.start}, {self.end})"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitting(Fact):
    """A consumer is about to ask for an offset to be kept, by itself or with a transaction."""

    group: str
    partition: TopicPartition
    offset: int
    transaction: str | None = None

    def sentence(self) -> str:
        within = f" in transaction {self.transaction}" if self.transaction is not None else ""
        return f"commits offset {self.offset} of {self.partition} for {self.group}{within}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitted(Fact):
    """A group's coordinator acknowledged an offset."""

    group: str
    partition: TopicPartition
    offset: int

    def sentence(self) -> str:
        return f"hears that offset {self.offset} of {self.partition} is committed for {self.group}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRefused(Fact):
    """A group's coordinator refused an offset: it was not kept, and never will be."""

    group: str
    partition: TopicPartition
    offset: int
    reason: str

    def sentence(self) -> str:
        return f"is refused offset {self.offset} of {self.partition} for {self.group}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned(Fact):
    """A member of a group was told that a partition is its own in a generation."""

    group: str
    generation: int
    member: str
    partition: TopicPartition

    def sentence(self) -> str:
        return f"is given {self.partition} in generation {self.generation} of {self.group}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Took(Fact):
    """A member of a new-style group (KIP-848) begins to read a partition as its own."""

    group: str
    member: str
    partition: TopicPartition

    def sentence(self) -> str:
        return f"takes {self.partition} of {self.group}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GaveUp(Fact):
    """A member of a new-style group no longer reads a partition."""

    group: str
    member: str
    partition: TopicPartition

    def sentence(self) -> str:
        return f"gives {self.partition} of {self.group} up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard(Fact):
    """A member's heartbeat, sent at that time, was answered well: the member stays one for a session from then on."""

    group: str
    member: str
    sent_at: float

    def sentence(self) -> str:
        return f"is a member of {self.group}, as of {self.sent_at:.4f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRead(Fact):
    """A group's coordinator told the committed offset; `asked` is the order of the question."""

    group: str
    partition: TopicPartition
    offset: int
    asked: int

    def sentence(self) -> str:
        return f"is told that {self.group} has offset {self.offset} of {self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered(Fact):
    """A member of a share group got a record to work on; `asked` is the order of its question."""

    group: str
    partition: TopicPartition
    offset: int
    asked: int

    def sentence(self) -> str:
        return f"is to work on {self.partition}@{self.offset} for {self.group}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepting(Fact):
    """A member of a share group is about to say that a record is done."""

    group: str
    partition: TopicPartition
    offset: int

    def sentence(self) -> str:
        return f"accepts {self.partition}@{self.offset} for {self.group}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptAnswered(Fact):
    """A leader answered a member that had accepted a record."""

    group: str
    partition: TopicPartition
    offset: int
    error: ErrorCode

    def sentence(self) -> str:
        return f"hears of {self.partition}@{self.offset} for {self.group}: {self.error.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Led(Fact):
    """A broker took up the leadership of a partition."""

    partition: TopicPartition
    leader_epoch: int
    broker: int

    def sentence(self) -> str:
        return f"leads {self.partition} in epoch {self.leader_epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Consented(Fact):
    """An operator lets a partition lose what was in it, so that it has a leader again."""

    partition: TopicPartition

    def sentence(self) -> str:
        return f"consents to an unclean election of {self.partition}"


Kind = TypeVar("Kind", bound=Fact)

# What a broker may log, with all its particulars, when something around it breaks.  Anything else is a bug in the broker itself.
WHAT_FAULTS_CAUSE = (RequestError, StorageError, OSError, PeerUnreachable, StoreUnavailable, LeaseLost)


class History:
    """Facts in order, and the story."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self.facts: list[Fact] = []
        self.story: list[str] = []
        # Broken rules noticed while the simulation ran.
        self.violations: list[str] = []

    @property
    def now(self) -> float:
        return self._loop.now

    @property
    def next_order(self) -> int:
        return len(self.facts)

    def record(self, fact: Fact) -> None:
        object.__setattr__(fact, "order", self.next_order)
        object.__setattr__(fact, "at", self._loop.now)
        self.facts.append(fact)
        self.tell(fact.sentence())

    def tell(self, text: str, who: str | None = None) -> None:
        """Add a line to the story."""
        machine = current_machine.get()
        name = who or (machine.name if machine is not None else "world")
        self.story.append(f"{self._loop.now:9.4f} {name:<10} {text}")

    def violate(self, text: str) -> None:
        """A rule was broken, here and now."""
        self.violations.append(text)
        self.tell(f"VIOLATION: {text}")

    def of(self, kind: type[Kind]) -> Iterator[Kind]:
        return (fact for fact in self.facts if isinstance(fact, kind))

    def consents(self) -> dict[TopicPartition, int]:
        """For each partition that had an operator's consent, the order of the last: what was before it may be lost."""
        return {fact.partition: fact.order for fact in self.of(Consented)}

    def digest(self) -> str:
        return hashlib.sha256("\n".join(self.story).encode()).hexdigest()


class StoryHandler(logging.Handler):
    """What brokers log becomes part of the story: those of the simulation, which has one thread, and no others."""

    def __init__(self, history: History) -> None:
        super().__init__(logging.INFO)
        self._history = history
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread != self._thread:
            return
        text = f"[{record.levelname.lower()}] {record.getMessage()}"
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            text += f" ({error!r})"
        self._history.tell(text)
        if error is not None and not isinstance(error, WHAT_FAULTS_CAUSE):
            self._history.violate(f"a broker did not expect this, and went on: {text}")

"""What the coordinator knows of one transactional id, and which states may follow which.

A `TransactionEntry` is a value: every change makes a new one, and the new one is the entry written to `__transaction_state`.
Always: an Empty transaction has no partitions; a Prepare state has one outcome, and only its own Complete state follows it.
"""

from dataclasses import field, replace
from enum import IntEnum
from typing import Any

from headrace.declaring import dataclass
from headrace.model.identity import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, ProducerIdentity, TopicPartition

PRODUCER_EPOCH_MAX = 32767
PRODUCER_EPOCH_EXHAUSTED = PRODUCER_EPOCH_MAX - 1  # the last epoch is kept so that an exhausted producer can still be fenced
TIMEOUT_NEVER_MS = 2**31 - 1  # two-phase commit (KIP-939): such a transaction is ended by its owner only
EPOCH_BUMP_VERSION = 2  # transactions version 2 (KIP-890): every end of a transaction bumps the epoch


class TransactionState(IntEnum):
    """The numbers stand in the log, the labels in DescribeTransactions and ListTransactions."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """The name the protocol uses, e.g. `PrepareCommit`."""
        return "".join(word.capitalize() for word in self.name.split("_"))


# DEAD and PREPARE_EPOCH_FENCE are passed through within one decision and never written: the first becomes a tombstone,
# the second PREPARE_ABORT with a higher epoch.
TRANSITIONS: dict[TransactionState, frozenset[TransactionState]] = {
    TransactionState.EMPTY: frozenset(
        # PREPARE_ABORT: with version 2 a client that does not know whether its transaction began may always abort.
        {TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.PREPARE_ABORT, TransactionState.DEAD}
    ),
    TransactionState.ONGOING: frozenset(
        {
            TransactionState.ONGOING,
            TransactionState.PREPARE_COMMIT,
            TransactionState.PREPARE_ABORT,
            TransactionState.PREPARE_EPOCH_FENCE,
        }
    ),
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.COMPLETE_COMMIT}),
    TransactionState.PREPARE_ABORT: frozenset({TransactionState.COMPLETE_ABORT}),
    TransactionState.COMPLETE_COMMIT: frozenset(
        {TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.PREPARE_ABORT, TransactionState.DEAD}
    ),
    TransactionState.COMPLETE_ABORT: frozenset(
        {TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.PREPARE_ABORT, TransactionState.DEAD}
    ),
    TransactionState.DEAD: frozenset(),
    TransactionState.PREPARE_EPOCH_FENCE: frozenset({TransactionState.PREPARE_ABORT}),
}

IDLE = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})
PREPARED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEntry:
    """The newest entry of one transactional id."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIMESTAMP
    last_update_ms: int = NO_TIMESTAMP
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID  # the id that takes over on completion, once the epochs of this one are used up
    client_version: int = 0  # the transactions version that the client spoke when it last changed this
    # Lets a producer repeat an InitProducerId whose reply was lost.  Kafka's entry has no field for it: a restart forgets it.
    last_producer_epoch: int = field(default=NO_PRODUCER_EPOCH, compare=False)

    @property
    def identity(self) -> ProducerIdentity:
        """Who may write in this transaction."""
        return ProducerIdentity(self.producer_id, self.producer_epoch)

    @property
    def epochs_exhausted(self) -> bool:
        """Whether this producer id has no epoch left to hand out."""
        return self.producer_epoch >= PRODUCER_EPOCH_EXHAUSTED

    @property
    def prepared(self) -> bool:
        """Whether the outcome is decided and markers are still to be written."""
        return self.state in PREPARED

    @property
    def committing(self) -> bool:
        """The outcome, once it is decided."""
        assert self.prepared, f"{self.transactional_id} is {self.state.label}: it has no outcome yet"
        return self.state is TransactionState.PREPARE_COMMIT

    def moved_to(self, state: TransactionState, **changes: Any) -> "TransactionEntry":
        """The same transactional id one state further; a step that is not in the table is our mistake."""
        assert state in TRANSITIONS[self.state], f"{self.transactional_id}: {self.state.label} cannot become {state.label}"
        return replace(self, state=state, previous_producer_id=self.producer_id, **changes)


@dataclass(frozen=True, slots=True)
class Tombstone:
    """The entry that removes a transactional id nobody has used for `transactional.id.expiration.ms`."""

    transactional_id: str


Entry = TransactionEntry | Tombstone

"""What the coordinator is asked and what it answers, free of the wire's versions."""

from headrace.declaring import dataclass
from headrace.model.errors import ErrorCode
from headrace.model.identity import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, ProducerIdentity, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """The broker settings that transactions obey."""

    max_timeout_ms: int = 15 * 60 * 1000  # transaction.max.timeout.ms
    transactional_id_expiration_ms: int = 7 * 24 * 60 * 60 * 1000  # transactional.id.expiration.ms
    two_phase_commit_enable: bool = False  # transaction.two.phase.commit.enable
    version: int = 2  # the finalized feature transaction.version


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerId:
    """A producer starts, or starts again."""

    transactional_id: str
    timeout_ms: int
    expected: ProducerIdentity | None = None  # KIP-360: the producer goes on from this identity
    enable_two_phase_commit: bool = False
    keep_prepared_transaction: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """The producer is about to write into these partitions.  AddOffsetsToTxn adds a partition of `__consumer_offsets`."""

    transactional_id: str
    producer: ProducerIdentity
    partitions: frozenset[TopicPartition]
    client_version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyPartitions:
    """A partition leader asks whether a producer that writes to it has an open transaction there."""

    transactional_id: str
    producer: ProducerIdentity
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    """Commit or abort.  `client_version` 2 means EndTxn v5 and later, which bumps the epoch."""

    transactional_id: str
    producer: ProducerIdentity
    committed: bool
    client_version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFilter:
    """Empty sets, a negative duration and a missing pattern let everything through."""

    states: frozenset[str] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    duration_ms: int = -1
    transactional_id_pattern: str | None = None


@dataclass(frozen=True, slots=True)
class Identified:
    """The answer to InitProducerId and to EndTxn: an error, or who the producer is from now on."""

    error: ErrorCode = ErrorCode.NONE
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True)
class Added:
    """The answer to AddPartitionsToTxn and AddOffsetsToTxn: one error for all, as all or none are added."""

    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The answer to DescribeTransactions for one transactional id."""

    transactional_id: str
    error: ErrorCode = ErrorCode.NONE
    state: str = ""
    timeout_ms: int = 0
    start_ms: int = NO_TIMESTAMP
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    partitions: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of ListTransactions."""

    transactional_id: str
    producer_id: int
    state: str

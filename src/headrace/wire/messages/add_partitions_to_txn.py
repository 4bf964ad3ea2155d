"""AddPartitionsToTxn: partitions that a transaction is going to write to."""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.schema import Api, Since, Until, array, boolean, int16, int32, int64, string

ADD_PARTITIONS_TO_TXN = Api(key=24, versions=range(6), flexible_from=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnTopic:
    """The partitions of one topic."""

    name: Annotated[str, string]
    partitions: Annotated[tuple[int, ...], array(int32)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnTransaction:
    """A transaction and its new partitions."""

    transactional_id: Annotated[str, string]
    producer_id: Annotated[int, int64]
    producer_epoch: Annotated[int, int16]
    verify_only: Annotated[bool, boolean] = False
    topics: Annotated[tuple[AddPartitionsToTxnTopic, ...], array(AddPartitionsToTxnTopic)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnRequest:
    """From producers until v3: one transaction.

    From brokers since v4: many, also only to verify.  v3 is the first flexible version; v5 may answer TRANSACTION_ABORTABLE.
    """

    api: ClassVar[Api] = ADD_PARTITIONS_TO_TXN
    transactions: Annotated[tuple[AddPartitionsToTxnTransaction, ...], array(AddPartitionsToTxnTransaction), Since(4)] = ()
    v3_and_below_transactional_id: Annotated[str, string, Until(3)] = ""
    v3_and_below_producer_id: Annotated[int, int64, Until(3)] = 0
    v3_and_below_producer_epoch: Annotated[int, int16, Until(3)] = 0
    v3_and_below_topics: Annotated[tuple[AddPartitionsToTxnTopic, ...], array(AddPartitionsToTxnTopic), Until(3)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnPartitionResult:
    """What became of one partition."""

    partition_index: Annotated[int, int32]
    partition_error_code: Annotated[int, int16]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnTopicResult:
    """The answers for one topic."""

    name: Annotated[str, string]
    results_by_partition: Annotated[tuple[AddPartitionsToTxnPartitionResult, ...], array(AddPartitionsToTxnPartitionResult)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnResult:
    """The answers for one transaction."""

    transactional_id: Annotated[str, string]
    topic_results: Annotated[tuple[AddPartitionsToTxnTopicResult, ...], array(AddPartitionsToTxnTopicResult)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnResponse:
    """For each partition, whether it is part of the transaction."""

    api: ClassVar[Api] = ADD_PARTITIONS_TO_TXN
    throttle_time_ms: Annotated[int, int32] = 0
    error_code: Annotated[int, int16, Since(4)] = 0
    results_by_transaction: Annotated[tuple[AddPartitionsToTxnResult, ...], array(AddPartitionsToTxnResult), Since(4)] = ()
    results_by_topic_v3_and_below: Annotated[
        tuple[AddPartitionsToTxnTopicResult, ...], array(AddPartitionsToTxnTopicResult), Until(3)
    ] = ()

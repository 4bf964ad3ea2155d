"""Keys and values of `__transaction_state`, as Kafka writes them.

The key begins with the number of its kind, of which there is one; the value begins with its version.  A record without a value
takes the transactional id away.
"""

from typing import Annotated, ClassVar

from headrace.declaring import dataclass
from headrace.wire.codec import WireError, decode, encode_versioned, read_version
from headrace.wire.schema import Layout, Since, Tagged, array, int8, int16, int32, int64, string

TRANSACTION_LOG = 0
VALUE_VERSION = 1
"""The version we write: the first that tells which producer ids come before and after, and which version the client speaks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLogKey:
    layout: ClassVar[Layout] = Layout(versions=range(1))
    transactional_id: Annotated[str, string]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsSchema:
    topic: Annotated[str, string]
    partition_ids: Annotated[tuple[int, ...], array(int32)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLogValue:
    """Version 1 is flexible.  `next_producer_epoch` is there for prepared transactions (KIP-939)."""

    layout: ClassVar[Layout] = Layout(versions=range(2), flexible_from=1)
    producer_id: Annotated[int, int64]
    previous_producer_id: Annotated[int, int64, Since(1), Tagged(0)] = -1
    next_producer_id: Annotated[int, int64, Since(1), Tagged(1)] = -1
    producer_epoch: Annotated[int, int16] = -1
    next_producer_epoch: Annotated[int, int16, Since(1), Tagged(3)] = -1
    transaction_timeout_ms: Annotated[int, int32] = 0
    transaction_status: Annotated[int, int8] = 0
    transaction_partitions: Annotated[tuple[PartitionsSchema, ...] | None, array(PartitionsSchema)] = None
    transaction_last_update_timestamp_ms: Annotated[int, int64] = -1
    transaction_start_timestamp_ms: Annotated[int, int64] = -1
    client_transaction_version: Annotated[int, int16, Since(1), Tagged(2)] = 0


def encode_key(transactional_id: str) -> bytes:
    return encode_versioned(TransactionLogKey(transactional_id=transactional_id), TRANSACTION_LOG)


def encode_value(value: TransactionLogValue, version: int = VALUE_VERSION) -> bytes:
    return encode_versioned(value, version)


def read_key(key: bytes) -> str | None:
    """The transactional id; None for a kind of key that we do not know.  Raises WireError."""
    kind, position = read_version(key)
    if kind != TRANSACTION_LOG:
        return None
    return decode(TransactionLogKey, key, 0, position).transactional_id


def read_value(value: bytes) -> TransactionLogValue:
    """Raises WireError, also for a version newer than we are: to overlook a transaction could lose its outcome."""
    version, position = read_version(value)
    if version not in TransactionLogValue.layout.versions:
        raise WireError(f"TransactionLogValue version {version} is newer than this broker")
    return decode(TransactionLogValue, value, version, position)

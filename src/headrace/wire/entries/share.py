"""Keys and values of `__share_group_state`, as Kafka writes them.

A key begins with the number of its kind, a value with its version.  A snapshot without a value takes the share-partition away.
"""

from typing import Annotated, ClassVar
from uuid import UUID

from headrace.declaring import dataclass
from headrace.wire.codec import WireError, decode, encode_versioned, read_version
from headrace.wire.schema import Layout, Tagged, array, int8, int16, int32, int64, string, uuid

SNAPSHOT = 0
UPDATE = 1
VALUE_VERSION = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePartitionKey:
    """Of both kinds."""

    layout: ClassVar[Layout] = Layout(versions=range(2))
    group_id: Annotated[str, string]
    topic_id: Annotated[UUID, uuid]
    partition: Annotated[int, int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBatch:
    """Offsets include the last.  State 0 is available, 2 acknowledged, 4 archived."""

    first_offset: Annotated[int, int64]
    last_offset: Annotated[int, int64]
    delivery_state: Annotated[int, int8]
    delivery_count: Annotated[int, int16]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSnapshotValue:
    layout: ClassVar[Layout] = Layout(versions=range(1), flexible_from=0)
    snapshot_epoch: Annotated[int, int32]
    state_epoch: Annotated[int, int32]
    leader_epoch: Annotated[int, int32]
    start_offset: Annotated[int, int64]
    delivery_complete_count: Annotated[int, int32, Tagged(0)] = -1
    create_timestamp: Annotated[int, int64]
    write_timestamp: Annotated[int, int64]
    state_batches: Annotated[tuple[StateBatch, ...], array(StateBatch)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareUpdateValue:
    layout: ClassVar[Layout] = Layout(versions=range(1), flexible_from=0)
    snapshot_epoch: Annotated[int, int32]
    leader_epoch: Annotated[int, int32]
    start_offset: Annotated[int, int64]
    delivery_complete_count: Annotated[int, int32, Tagged(0)] = -1
    state_batches: Annotated[tuple[StateBatch, ...], array(StateBatch)]


def encode_key(kind: int, key: SharePartitionKey) -> bytes:
    return encode_versioned(key, kind)


def encode_value(value: ShareSnapshotValue | ShareUpdateValue) -> bytes:
    return encode_versioned(value, VALUE_VERSION)


def read_key(key: bytes) -> tuple[int, SharePartitionKey] | None:
    """The kind of a record and what it is about; None for a kind that we do not know.  Raises WireError."""
    kind, position = read_version(key)
    if kind not in (SNAPSHOT, UPDATE):
        return None
    return kind, decode(SharePartitionKey, key, kind, position)


def read_snapshot(value: bytes) -> ShareSnapshotValue:
    return decode(ShareSnapshotValue, value, VALUE_VERSION, _after_version(value))


def read_update(value: bytes) -> ShareUpdateValue:
    return decode(ShareUpdateValue, value, VALUE_VERSION, _after_version(value))


def _after_version(value: bytes) -> int:
    version, position = read_version(value)
    if version != VALUE_VERSION:
        raise WireError(f"version {version} of a share group's state is newer than this broker")
    return position

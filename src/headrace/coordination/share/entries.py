"""What a share coordinator writes into its log, and knows by it: how far a group is in one partition.

A snapshot says all, an update what has changed since.  Each entry is one record of `__share_group_state`.
"""

from typing import NamedTuple
from uuid import UUID

from headrace.coordination.share.delivery import StateBatch
from headrace.declaring import dataclass

NOT_SET = -1  # for a start offset that is not known, or not changed, and for a number that was not told


class ShareKey(NamedTuple):
    """A share-partition: one partition as one group works on it."""

    group_id: str
    topic_id: UUID
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareState:
    """All that is kept of a share-partition."""

    snapshot_epoch: int
    state_epoch: int  # of which Initialize: an offset that was moved by hand counts from then on
    leader_epoch: int
    start_offset: int
    done: int = NOT_SET
    created_ms: int = 0
    written_ms: int = 0
    batches: tuple[StateBatch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareUpdate:
    """What has changed since the snapshot of that epoch, and the updates after it."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int = NOT_SET
    done: int = NOT_SET
    batches: tuple[StateBatch, ...] = ()


@dataclass(frozen=True, slots=True)
class SnapshotEntry:
    """Without a value, nothing is kept of the share-partition any more."""

    key: ShareKey
    value: ShareState | None


@dataclass(frozen=True, slots=True)
class UpdateEntry:
    key: ShareKey
    value: ShareUpdate


Entry = SnapshotEntry | UpdateEntry

"""Control batches: the markers with which a coordinator ends a transaction in a partition.

A marker is a batch of one record, flagged control and transactional.  Its key names the kind (version, type), its value the
epoch of the coordinator that wrote it (version, epoch).
"""

import struct
from typing import Final, NamedTuple

from headrace.model.errors import ErrorCode
from headrace.records.batch import BatchError, Buffer, build_batch, read_header, rebuild_batch
from headrace.records.record import Record, read_records

ABORT: Final = 0
COMMIT: Final = 1

STEP_OFFSETS_MAX: Final = 2**31 - 1  # that one batch can stand for

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_VERSION = 0


class Marker(NamedTuple):
    """How a transaction ended."""

    committed: bool
    coordinator_epoch: int


def build_end_marker(producer_id: int, epoch: int, committed: bool, coordinator_epoch: int, timestamp: int) -> bytes:
    """The whole batch that ends a producer's transaction."""
    key = _KEY.pack(_VERSION, COMMIT if committed else ABORT)
    value = _VALUE.pack(_VERSION, coordinator_epoch)
    return build_batch(
        [Record(0, timestamp, key, value)],
        producer_id=producer_id,
        producer_epoch=epoch,
        transactional=True,
        control=True,
    )


def build_step_over(first_offset: int, next_offset: int, leader_epoch: int) -> bytes:
    """A control batch that stands for offsets without records.  It belongs to no producer and ends no transaction.

    Every client that reads transactions takes it for a commit of somebody else, shows nothing and goes on at `next_offset`.
    """
    record = Record(next_offset - 1, -1, _KEY.pack(_VERSION, COMMIT), _VALUE.pack(_VERSION, -1))
    template = read_header(build_batch([record], base_offset=first_offset, leader_epoch=leader_epoch, control=True))
    return rebuild_batch(template._replace(last_offset_delta=next_offset - 1 - first_offset), [record])


def read_marker(batch: Buffer) -> Marker | None:
    """The end-of-transaction marker in a control batch; None for control records of another kind or an emptied batch."""
    records = read_records(batch)
    if not records:
        return None
    key, value = records[0].key, records[0].value
    if key is None or len(key) < _KEY.size:
        raise BatchError("a control record has no kind", ErrorCode.INVALID_RECORD)
    _, kind = _KEY.unpack_from(key)
    if kind not in (ABORT, COMMIT):
        return None
    if value is None or len(value) < _VALUE.size:
        raise BatchError("an end-of-transaction marker has no coordinator epoch", ErrorCode.INVALID_RECORD)
    _, coordinator_epoch = _VALUE.unpack_from(value)
    return Marker(kind == COMMIT, coordinator_epoch)

"""From what a Fetch answers to the records that a reader is shown.

Left out are offsets before the one asked for, markers, aborted transactions (when reading committed) and records whose time to
live has ended.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from headrace.model.time_to_live import is_expired
from headrace.records.control import read_marker
from headrace.records.header import iterate_fetched_batches
from headrace.records.record import Record, read_records
from headrace.wire.messages.fetch import PartitionData


class Fetched(NamedTuple):
    """Records in order, and the offset after all that was looked at, shown or not."""

    records: list[Record]
    next_offset: int


def decoded(data: PartitionData, offset: int, *, committed_only: bool) -> Fetched:
    """What of a reply is shown to somebody who asked from `offset` on."""
    assert not isinstance(data.records, list), "only replies that are written are in pieces"
    buffer = memoryview(data.records or b"")
    pending = sorted(data.aborted_transactions or (), key=lambda one: one.first_offset, reverse=True) if committed_only else []
    aborted: set[int] = set()
    records: list[Record] = []
    position = offset
    now_ms = time.time_ns() // 1_000_000
    for header, at in iterate_fetched_batches(buffer):
        batch = buffer[at : at + header.size]
        position = max(position, header.next_offset)
        while pending and pending[-1].first_offset <= header.last_offset:
            aborted.add(pending.pop().producer_id)
        if header.is_control:
            if header.producer_id in aborted and (marker := read_marker(batch)) and not marker.committed:
                aborted.discard(header.producer_id)
            continue
        if header.is_transactional and header.producer_id in aborted:
            continue
        for record in read_records(batch):
            if record.offset >= offset and not (record.headers and is_expired(record.headers, record.timestamp, now_ms)):
                records.append(record)
    return Fetched(records, position)

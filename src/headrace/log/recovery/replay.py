"""Producer states from the log itself: the newest snapshot, then every batch after it."""

from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

from headrace.host.disk import Disk
from headrace.log.indexes.aborted_index import AbortedEntry
from headrace.log.producers.producer_state import ProducerStates
from headrace.log.producers.snapshots import latest_snapshot, snapshot_offsets
from headrace.log.segments.segment import Segment
from headrace.records.control import read_marker
from headrace.records.header import CONTROL_BIT, BatchHeader


def take_batch(producers: ProducerStates, header: BatchHeader, segment: Segment, position: int) -> AbortedEntry | None:
    """Let a batch that is in the log count for its producer; the aborted transaction it ends, if it does."""
    if header.producer_id < 0:
        return None
    if not header.attributes & CONTROL_BIT:
        producers.apply(header, header.base_offset)
        return None
    marker = read_marker(segment.batch_at(position)[1])
    completed = producers.apply_marker(header, header.base_offset, marker) if marker is not None else None
    if completed is None or not completed.aborted:
        return None
    stable = producers.stable_offset_after(completed)
    return AbortedEntry(completed.producer_id, completed.first_offset, completed.last_offset, stable)


def replay_producers(
    disk: Disk, directory: Path, segments: Sequence[Segment], producers: ProducerStates, *, snapshot_up_to: int
) -> dict[int, list[AbortedEntry]]:
    """Make the states anew from these segments; the aborted transactions met, by the base offset of their segment."""
    producers.clear()
    known_to = segments[0].base_offset
    found = latest_snapshot(disk, directory, snapshot_offsets(disk.list_names(directory)), snapshot_up_to)
    if found is not None:
        known_to = max(known_to, found[0])
        producers.load(found[1])
    first = max(0, bisect_right(segments, known_to, key=lambda segment: segment.base_offset) - 1)
    aborted: dict[int, list[AbortedEntry]] = {}
    for segment in segments[first:]:
        for position, header in segment.headers(0, skip_damage=True):
            if header.base_offset >= known_to:
                entry = take_batch(producers, header, segment, position)
                if entry is not None:
                    aborted.setdefault(segment.base_offset, []).append(entry)
    return aborted

"""Producer states from the log itself: the newest snapshot, then every batch after it."""

from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

from headrace.host.disk import Disk
from headrace.log.indexes.aborted_index import AbortedEntry
from headrace.log.producers.producer_state import ProducerStates
from headrace.log.producers.snapshots import latest_snapshot, snapshot_offsets
from headrace.log.segments.segment import Segment


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
                entry = producers.take(header, lambda segment=segment, position=position: segment.batch_at(position)[1])  # type: ignore[misc]
                if entry is not None:
                    aborted.setdefault(segment.base_offset, []).append(entry)
    return aborted

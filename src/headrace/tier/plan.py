"""What the leader of a partition does with its manifest: each a function from the manifest that is there to the next one.

A leader first claims the manifest for its epoch.  From then on nobody with an older epoch can replace it: theirs is the one
before, which is gone.  `Deposed` is for the one who finds a newer epoch in it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from headrace.tier.manifest import Epochs, Manifest, RemoteSegment


class Deposed(Exception):
    """Another leader, of a newer epoch, has the manifest."""


class OtherHistory(Exception):
    """The store has records of which this leader's log has none, and knows none: neither may go before a person has looked."""


class KnownEpochs(Protocol):
    """What the leader's own log knows of epochs."""

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """The largest known epoch at or below this one, and where it ended; (-1, -1) when it is newer than all known."""
        ...


class LocalSegment(NamedTuple):
    """A closed segment on the leader's disk."""

    base_offset: int
    end_offset: int
    size: int
    max_timestamp: int


def claim(manifest: Manifest, leader_epoch: int, epochs: KnownEpochs) -> Manifest:
    """The manifest as this leader takes it over: without what its own log does not have, as after an unclean election."""
    if manifest.leader_epoch > leader_epoch:
        raise Deposed(f"epoch {manifest.leader_epoch} has the manifest of {manifest.topic}-{manifest.partition}")
    shared = _shared(manifest.segments, epochs)
    if manifest.segments and not shared:
        where = f"[{manifest.start_offset}, {manifest.end_offset})"
        raise OtherHistory(f"the store has {where} of {manifest.topic}-{manifest.partition}, and the log here is another one")
    return manifest.successor(leader_epoch=leader_epoch, segments=shared)


def _shared(segments: Sequence[RemoteSegment], epochs: KnownEpochs) -> tuple[RemoteSegment, ...]:
    """What both histories have in common, from the start."""
    kept: list[RemoteSegment] = []
    for segment in segments:
        end = _shared_end(segment, epochs)
        if end >= segment.end_offset:
            kept.append(segment)
            continue
        if end > segment.start_offset:
            kept.append(_cut(segment, end))
        break
    return tuple(kept)


def _shared_end(segment: RemoteSegment, epochs: KnownEpochs) -> int:
    """Up to where a segment holds what this leader's log holds, or held before its beginning went to the store."""
    end = segment.end_offset
    for (epoch, start), following in zip(segment.epochs, [*segment.epochs[1:], (0, segment.end_offset)], strict=True):
        known, known_end = epochs.end_offset_for(epoch)
        if known != epoch:
            return max(segment.start_offset, start)
        if known_end < following[1]:
            return known_end
    return end


def _cut(segment: RemoteSegment, end: int) -> RemoteSegment:
    return replace(segment, end_offset=end, epochs=tuple(each for each in segment.epochs if each[1] < end))


def require_own(manifest: Manifest, leader_epoch: int) -> None:
    """Whoever writes to a manifest has claimed it."""
    if manifest.leader_epoch != leader_epoch:
        raise Deposed(f"epoch {manifest.leader_epoch} has the manifest of {manifest.topic}-{manifest.partition}")


def with_segment(manifest: Manifest, leader_epoch: int, segment: RemoteSegment) -> Manifest:
    """A segment whose objects are in the store becomes part of the log there.  Named already, it stays as it is."""
    require_own(manifest, leader_epoch)
    if segment in manifest.segments:
        return manifest
    assert segment.start_offset >= manifest.end_offset, f"{segment} is not after {manifest.end_offset}"
    return manifest.successor(segments=(*manifest.segments, segment))


def begun_at(manifest: Manifest, leader_epoch: int, log_start: int) -> Manifest:
    """The log begins here: segments wholly below are not part of it any more."""
    require_own(manifest, leader_epoch)
    kept = tuple(segment for segment in manifest.segments if segment.end_offset > log_start)
    if log_start <= manifest.log_start and len(kept) == len(manifest.segments):
        return manifest
    return manifest.successor(log_start=max(log_start, manifest.log_start), segments=kept)


def written_again(manifest: Manifest, leader_epoch: int) -> Manifest:
    """The same once more: what was still on its way to replace the one before is refused from then on."""
    require_own(manifest, leader_epoch)
    return manifest.successor()


def no_longer_named(before: Manifest, after: Manifest) -> frozenset[str]:
    """The objects that may be deleted once `after` is what the store has."""
    return before.objects - after.objects


def to_upload(manifest: Manifest, closed: Iterable[LocalSegment], up_to: int) -> list[tuple[LocalSegment, int]]:
    """Segments that are not in the store yet and whose every record is decided, oldest first, each with the offset from which
    it counts there."""
    end = manifest.end_offset
    wanted = []
    for segment in closed:
        if segment.end_offset > up_to:
            break
        if segment.end_offset > end and segment.size:
            wanted.append((segment, max(segment.base_offset, end, manifest.log_start)))
            end = segment.end_offset
    return wanted


def epochs_within(epochs: Iterable[tuple[int, int]], start: int, end: int) -> Epochs:
    """The epochs that the records of [start, end) were written in."""
    found: list[tuple[int, int]] = []
    for epoch, begins in epochs:
        if begins >= end:
            break
        if begins <= start:
            found = [(epoch, begins)]
        else:
            found.append((epoch, begins))
    return tuple(found)

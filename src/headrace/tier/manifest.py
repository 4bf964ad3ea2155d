"""What one partition has in the store, as one object: the only thing that makes other objects part of the log.

Always: segments are in the order of their offsets and do not overlap; `leader_epoch` and `revision` only grow.  Whoever writes a
manifest has read the one before and replaces just that one, so of two leaders one loses and finds out.
"""

import json
from bisect import bisect_right
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

from crc32c import crc32c

from headrace.declaring import dataclass

VERSION: Final = 1

Epochs = tuple[tuple[int, int], ...]
"""Epochs and the offsets they begin at, oldest first."""


class ManifestBroken(ValueError):
    """The bytes are not a manifest that this version wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSegment:
    """A closed segment in the store.  It counts for [start_offset, end_offset), though its file may hold more at both ends."""

    base_offset: int  # of the file, which its indexes count from
    start_offset: int
    end_offset: int
    file_end: int  # where the file ends, and the producers were written down
    size: int
    data: str  # the object with the batches
    data_checksum: int
    rest: str  # the object with all else
    rest_size: int
    rest_checksum: int
    max_timestamp: int
    max_timestamp_offset: int
    aborted: int  # how many aborted transactions end in it
    epochs: Epochs  # those that its records were written in

    @property
    def objects(self) -> tuple[str, str]:
        return self.data, self.rest


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """All segments of a partition in the store, by whom it was last written, and where the log begins."""

    topic: str
    partition: int
    leader_epoch: int = -1
    revision: int = 0
    log_start: int = 0
    segments: tuple[RemoteSegment, ...] = ()

    @property
    def end_offset(self) -> int:
        """Everything from the first segment up to here is in the store; -1 when nothing is."""
        return self.segments[-1].end_offset if self.segments else -1

    @property
    def start_offset(self) -> int:
        """The first offset that can be read from the store; -1 when there is none."""
        return max(self.segments[0].start_offset, self.log_start) if self.segments else -1

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def objects(self) -> frozenset[str]:
        """Every object that it names."""
        return frozenset(name for segment in self.segments for name in segment.objects)

    def holding(self, offset: int) -> RemoteSegment | None:
        """The segment in which an offset lies, or the next one where none does."""
        index = bisect_right(self.segments, offset, key=lambda segment: segment.end_offset)
        return self.segments[index] if index < len(self.segments) else None

    def epochs(self) -> Epochs:
        """Those of all segments, each from where it began."""
        known: list[tuple[int, int]] = []
        for segment in self.segments:
            for epoch, start in segment.epochs:
                if not known or epoch > known[-1][0]:
                    known.append((epoch, max(start, segment.start_offset)))
        return tuple(known)

    def successor(self, **changes: Any) -> "Manifest":
        """The next one."""
        return replace(self, revision=self.revision + 1, **changes)


_FIELDS: Final = (
    "base_offset",
    "start_offset",
    "end_offset",
    "file_end",
    "size",
    "data",
    "data_checksum",
    "rest",
    "rest_size",
    "rest_checksum",
    "max_timestamp",
    "max_timestamp_offset",
    "aborted",
    "epochs",
)


def encode_manifest(manifest: Manifest) -> bytes:
    """A line with a checksum, then the manifest as JSON."""
    body = json.dumps(
        {
            "version": VERSION,
            "topic": manifest.topic,
            "partition": manifest.partition,
            "leader_epoch": manifest.leader_epoch,
            "revision": manifest.revision,
            "log_start": manifest.log_start,
            "fields": _FIELDS,
            "segments": [[getattr(segment, name) for name in _FIELDS] for segment in manifest.segments],
        },
        separators=(",", ":"),
    ).encode()
    return b"headrace manifest %08x\n" % crc32c(body) + body


def decode_manifest(data: bytes) -> Manifest:
    """Raises ManifestBroken."""
    head, _, body = data.partition(b"\n")
    if head != b"headrace manifest %08x" % crc32c(body):
        raise ManifestBroken("a manifest's checksum does not match its bytes")
    document = json.loads(body)
    if document["version"] != VERSION:
        raise ManifestBroken(f"manifest version {document['version']} is not known")
    fields = document["fields"]
    segments = tuple(_segment(dict(zip(fields, values, strict=True))) for values in document["segments"])
    if any(before.end_offset > after.start_offset for before, after in pairwise(segments)):
        raise ManifestBroken("segments of a manifest overlap")
    return Manifest(
        topic=document["topic"],
        partition=document["partition"],
        leader_epoch=document["leader_epoch"],
        revision=document["revision"],
        log_start=document["log_start"],
        segments=segments,
    )


def _segment(values: dict[str, Any]) -> RemoteSegment:
    epochs = tuple((epoch, start) for epoch, start in values.pop("epochs"))
    return RemoteSegment(epochs=epochs, **{name: values[name] for name in _FIELDS if name != "epochs"})

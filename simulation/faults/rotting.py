"""Bits that flip on a medium, where that can be told from a write that was torn: below what the directory says is durable.

Any file of a partition may be hit but the last segment, whose end nobody has noted yet.  Spared is what has no second copy by
design: the committed offsets, which one broker alone may hold, and the few bytes that say whose the directory is.  And the leader
epochs of batches, which no checksum covers: a read notices a wrong one, a start after a crash believes it (docs/disk.md).
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

from headrace.log.durability.durable_offset import read_durable_offset
from headrace.log.segments.segment import LOG_SUFFIX
from headrace.log.segments.swapping import base_of
from headrace.records.header import FRAME_BYTES, batch_bytes
from simulation.world.disk import SimulatedDisk
from simulation.world.medium import Directory, Inode, Medium

LEADER_EPOCH_BYTES = 4
SPARED_TOPICS = ("__consumer_offsets-", "risky-", "reborn-")
SPARED_FILES = frozenset({"partition.metadata", "durable-offset"})


def flip_bits(medium: Medium, data: Path, count: int) -> Iterator[str]:
    """Flip bits, each somewhere else; say where."""
    candidates = [(path, inode) for path, inode in _candidates(medium, data) if inode.durable and not inode.pending]
    for path, inode in medium.chance.sample(candidates, min(count, len(candidates))):
        position, bit = medium.chance.randrange(len(inode.data)), 1 << medium.chance.randrange(8)
        if path.suffix == LOG_SUFFIX and _is_leader_epoch(inode.data, position):
            continue
        inode.data[position] ^= bit
        inode.durable[position] ^= bit
        yield f"{path} at {position}"


def _is_leader_epoch(content: bytearray, position: int) -> bool:
    start = 0
    while start + FRAME_BYTES <= len(content):
        size = batch_bytes(content, start)
        if position < start + size:
            return FRAME_BYTES <= position - start < FRAME_BYTES + LEADER_EPOCH_BYTES
        start += size
    return False


def _candidates(medium: Medium, data: Path) -> Iterator[tuple[Path, Inode]]:
    disk = SimulatedDisk(medium, lambda: 0, lambda: None)
    for name, directory in sorted(medium.directory(data).names.items()):
        if not isinstance(directory, Directory) or name.startswith(SPARED_TOPICS) or name.endswith("-delete"):
            continue
        try:
            durable = read_durable_offset(disk, data / name)
        except ValueError:
            continue
        bases = sorted(base for file in directory.names if file.endswith(LOG_SUFFIX) and (base := base_of(file)) is not None)
        sealed = {base for base, following in itertools.pairwise(bases) if following <= durable}
        for file, inode in sorted(directory.names.items()):
            if (
                isinstance(inode, Inode)
                and file not in SPARED_FILES
                and (not file.endswith(LOG_SUFFIX) or base_of(file) in sealed)
            ):
                yield data / name / file, inode

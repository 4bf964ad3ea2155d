"""What is done for one partition, now and then: on the leader, uploads, retention and the manifest; on every replica, what is in
the store leaves the disk when it need not be there.

Always: a segment leaves the disk only when a manifest that was read from the store names it; an object is deleted only when the
manifest that was written last, and read back, does not name it.  What the store refuses is tried again with the next round."""

import itertools
import logging

from headrace.broker.housekeeping.file_removal import FileRemoval
from headrace.broker.metrics.figures import TierFigures
from headrace.broker.partitions.log_starts import LogStarts
from headrace.broker.partitions.partition import Partition
from headrace.broker.tiering.remote_part import RemotePart
from headrace.broker.tiering.uploading import Uploading, upload
from headrace.declaring import dataclass
from headrace.host.clock import Clock
from headrace.log.log import Log
from headrace.log.results import CorruptBatch
from headrace.log.segments.segment import Segment
from headrace.model.errors import StorageError
from headrace.objects.store import ObjectStore
from headrace.tier.manifest import Manifest
from headrace.tier.plan import (
    Deposed,
    LocalSegment,
    begun_at,
    claim,
    no_longer_named,
    require_own,
    to_upload,
    with_segment,
)
from headrace.tier.retention import local_start_after, log_start_after

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tending:
    """What it takes to tend partitions."""

    store: ObjectStore
    uploading: Uploading
    removal: FileRemoval
    log_starts: LogStarts
    clock: Clock
    figures: TierFigures

    async def tend(self, part: RemotePart) -> None:
        """One round.  Raises StoreError, StorageError."""
        partition, log = part.partition, part.partition.log
        if not isinstance(log, Log) or partition.failure is not None:
            return
        if not partition.is_leader:
            note_lag(part, log, self.clock.monotonic())
            if part.behind_bytes:
                # There is something that the store may have by now.
                await part.manifest.read()
            self._release(part, log)
            return
        try:
            await self._lead(part, log, partition.leader_epoch)
        except Deposed as error:
            # The metadata will tell, too, a little later.
            logger.info("%s: %s", partition.identity, error)

    async def _lead(self, part: RemotePart, log: Log, epoch: int) -> None:
        note_lag(part, log, self.clock.monotonic())
        await self.retain(part, log)
        if part.claimed_epoch != epoch:
            await self._claim(part, log, epoch)
        await self._write_log_start(part, log, epoch)
        for segment, start, end in self._wanted(part, log):
            if not self._leads(part, epoch):
                return
            await self._upload(part, log, segment, start, end, epoch)
            note_lag(part, log, self.clock.monotonic())
            self._release(part, log)
        self._release(part, log)

    def _leads(self, part: RemotePart, epoch: int) -> bool:
        partition = part.partition
        return partition.is_leader and partition.leader_epoch == epoch and partition.failure is None

    async def _claim(self, part: RemotePart, log: Log, epoch: int) -> None:
        """From here on no leader before this one can change the manifest."""
        before = await part.manifest.read()
        after = await part.manifest.change(lambda manifest: claim(manifest, epoch, log.epochs))
        part.claimed_epoch = epoch
        lost = no_longer_named(before, after)
        if lost:
            logger.warning("%s: %d objects in the store are of a history that was given up", part.partition.identity, len(lost))
        # It is sure now what the store has: the log begins there, or here.
        start = min(after.start_offset, log.state.local_start) if after.segments else log.state.local_start
        await self._begin_at(part, log, max(start, after.log_start))

    async def _begin_at(self, part: RemotePart, log: Log, start: int) -> None:
        start = min(start, part.partition.high_watermark)
        if start > log.start_offset:
            self.removal.unlink_soon(log.delete_before(start))
            part.partition.replica_readers.wake()
            await self.log_starts.write([part.partition])

    async def retain(self, part: RemotePart, log: Log) -> None:
        """What is too old or too much goes, in both parts; the store need not answer for that."""
        manifest = part.known
        if manifest is None or part.claimed_epoch != part.partition.leader_epoch:
            return
        local = _closed(log, part.partition.high_watermark)
        start = log_start_after(manifest, local, log.config, self.clock.wall_ms(), log.start_offset)
        await self._begin_at(part, log, start)

    async def _write_log_start(self, part: RemotePart, log: Log, epoch: int) -> None:
        """Records were deleted, or are too old: the manifest says so, and then their objects go."""
        before = part.known
        start = min(log.start_offset, part.partition.durable_start)
        after = await part.manifest.change(lambda manifest: begun_at(manifest, epoch, start))
        if before is not None:
            await self.delete(no_longer_named(before, after))

    async def delete(self, keys: frozenset[str]) -> None:
        """Objects that no manifest names any more."""
        for key in sorted(keys):
            await self.store.delete(key)
            self.figures.deleted_objects += 1

    def _wanted(self, part: RemotePart, log: Log) -> list[tuple[Segment, int, int]]:
        assert part.known is not None, "a manifest that was claimed is known"
        by_base = {segment.base_offset: segment for segment in log.segments}
        planned = to_upload(part.known, _closed(log, part.partition.high_watermark), committed_end(part.partition))
        return [(by_base[local.base_offset], start, local.end_offset) for local, start in planned]

    async def _upload(self, part: RemotePart, log: Log, segment: Segment, start: int, end: int, epoch: int) -> None:
        try:
            uploaded = await upload(self.uploading, part.folder, log, segment, start, end, epoch)
        except CorruptBatch:
            part.partition.note_damage()
            raise
        except OSError as error:
            raise StorageError(segment.log.path, "uploading", error) from error
        if not self._leads(part, epoch):
            raise Deposed(f"{part.partition.identity} is led by somebody else by now")
        await part.manifest.change(lambda manifest: with_segment(manifest, epoch, uploaded))
        self.figures.uploaded_segments += 1
        self.figures.uploaded_bytes += segment.size
        logger.info("%s: [%d, %d) is in the object store", part.partition.identity, start, end)

    def _release(self, part: RemotePart, log: Log) -> None:
        """What the manifest names, as it was last read from the store, leaves the disk if it need not be there."""
        manifest = part.known
        if manifest is None or not manifest.segments:
            return
        end = shared_end(manifest, log)
        local = _closed(log, part.partition.high_watermark)
        start = local_start_after(end, local, log.size_bytes, log.config, self.clock.wall_ms(), log.state.local_start)
        self.removal.unlink_soon(log.release_below(start))


def shared_end(manifest: Manifest, log: Log) -> int:
    """Up to where the store has what this log has: all of it, unless a manifest of another history was read."""
    last = manifest.segments[-1]
    epoch = last.epochs[-1][0] if last.epochs else -1
    known, end = log.epochs.end_offset_for(epoch)
    return min(end, last.end_offset) if known == epoch else -1


def _closed(log: Log, high_watermark: int) -> list[LocalSegment]:
    """Segments that get no more records and whose every record is committed."""
    segments = list(log.segments)
    found = []
    for segment, following in itertools.pairwise(segments):
        if following.base_offset > high_watermark:
            break
        timestamp = log.segments.largest_timestamp(segment) if segment.size else -1
        found.append(LocalSegment(segment.base_offset, following.base_offset, segment.size, timestamp))
    return found


def committed_end(partition: Partition) -> int:
    """Up to here every record is committed, decided and on this disk: nothing of it can change."""
    # A topic may leave that to the operating system; what goes to the store is on the disk first.
    partition.flush_soon()
    return min(partition.last_stable_offset, partition.log.flushed_offset)


def note_lag(part: RemotePart, log: Log, now: float) -> None:
    """How much there is to be uploaded, and since when there is something."""
    end = part.end_offset
    behind = sum(each.size for each in _closed(log, part.partition.high_watermark) if each.end_offset > end)
    part.behind_bytes = behind
    if not behind:
        part.behind_since = None
    elif part.behind_since is None:
        part.behind_since = now


def own_manifest(part: RemotePart, epoch: int) -> Manifest:
    """The manifest, which this leader has claimed.  Raises Deposed."""
    manifest = part.known
    if manifest is None or part.claimed_epoch != epoch:
        raise Deposed(f"{part.partition.identity} is not claimed")
    require_own(manifest, epoch)
    return manifest

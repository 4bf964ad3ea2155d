"""Compaction: the last value of each key stays.  And expiry: records whose time to live is over go.

Three steps, so that nothing stalls producers or consumers:
1. `plan_compaction`, or `plan_expiry` in `expiry.py`, on the loop's thread decide what may be cleaned;
2. `compact` in a worker process reads the segments and writes their replacements beside them (`.cleaned`), and `publish` in a
   thread makes them durable under `.swap`: from then on a crash finishes the replacement;
3. `swap_in` on the loop's thread puts them in place.
Always: only closed segments below the high watermark and below the first open transaction are touched; a segment with broken
bytes is left alone and reported, never rewritten.
"""

import os
from collections.abc import Sequence
from dataclasses import field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.declaring import dataclass
from headrace.host.disk import Disk, SystemDisk
from headrace.log.cleaning.rules import KEYS_MAX, BatchCleaner, KeyMap, LastWritten, TransactionTracker, collect_keys, emptied
from headrace.log.cleaning.steps import finish
from headrace.log.indexes.aborted_index import AbortedEntry
from headrace.log.results import CorruptBatch, RemovedSegment
from headrace.log.segments.files import FilePool
from headrace.log.segments.scanning import ScannedBatch, Scanner
from headrace.log.segments.segment import LOG_SUFFIX, NEVER_LOOKED, SEGMENT_SUFFIXES, Segment, segment_path, stored
from headrace.log.segments.swapping import CLEANED_SUFFIX, SWAP_SUFFIX, begin_swap, finish_swap
from headrace.records.header import CONTROL_BIT, BatchHeader, read_header

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.log.log import Log

# How fast segments are written anew for records that expired, on average: where something always expires, not always.
EXPIRY_BYTES_PER_S = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One segment as it was when the plan was made."""

    base_offset: int
    size: int
    next_base: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """Everything a worker needs, in values that travel between processes."""

    directory: Path
    sources: tuple[Source, ...]
    # From here on keys are collected; below, the log was compacted before.  None: only expired records go.
    first_dirty: int | None
    upper_bound: int
    now_ms: int
    delete_retention_ms: int
    ttl_enabled: bool
    segment_bytes: int
    index_interval_bytes: int
    aborted: tuple[AbortedEntry, ...]
    last_written: dict[int, LastWritten]
    keys_max: int = KEYS_MAX

    @property
    def bytes_to_read(self) -> int:
        return sum(source.size for source in self.sources)


@dataclass(slots=True, kw_only=True)
class CompactionResult:
    """What a worker made."""

    directory: Path
    groups: list[tuple[Source, ...]] = field(default_factory=list)
    # When the first record of each group expires.
    expiries: list[int | None] = field(default_factory=list)
    # Everything below is clean now.
    clean_offset: int = 0
    records_read: int = 0
    records_kept: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    is_expiry: bool = False


class CompactionAbandoned(Exception):
    """The broker that asked is gone."""


# -- planning


def plan_compaction(log: "Log", now_ms: int, high_watermark: int) -> CompactionPlan | None:
    """What to compact, if the log asks for it and enough of it is dirty."""
    config = log.config
    if not config.is_compacted:
        return None
    upper_bound = first_uncleanable(log, now_ms, high_watermark, config.min_compaction_lag_ms)
    first_dirty = max(log.segments.clean_offset, log.segments[0].base_offset)
    if upper_bound <= first_dirty:
        return None
    sources = sources_below(log, upper_bound)
    dirty = sum(source.size for source in sources if source.next_base > first_dirty)
    total = sum(source.size for source in sources)
    overdue = _is_overdue(log, first_dirty, now_ms) or _has_expired(log, first_dirty, upper_bound, now_ms)
    if not dirty or (dirty / total < config.min_cleanable_dirty_ratio and not overdue):
        return None
    return plan_for(log, sources, first_dirty, upper_bound, now_ms)


def first_uncleanable(log: "Log", now_ms: int, high_watermark: int, lag_ms: int) -> int:
    """Nothing from this offset on may be touched: active, not replicated, undecided, or too young."""
    bound = min(high_watermark, log.segments[-1].base_offset)
    unstable = log.producers.first_unstable_offset
    if unstable is not None:
        bound = min(bound, unstable)
    if lag_ms > 0:
        for segment in log.segments:
            if segment.size and log.segments.largest_timestamp(segment) > now_ms - lag_ms:
                return min(bound, segment.base_offset)
    return bound


def sources_below(log: "Log", bound: int) -> tuple[Source, ...]:
    """The closed segments that lie wholly below an offset."""
    segments = log.segments
    return tuple(
        Source(base_offset=segment.base_offset, size=segment.size, next_base=following.base_offset)
        for segment, following in pairwise(segments)
        if following.base_offset <= bound
    )


def _is_overdue(log: "Log", first_dirty: int, now_ms: int) -> bool:
    for segment, following in pairwise(log.segments):
        if following.base_offset > first_dirty and segment.size:
            began = segment.rolling_timestamp()
            return began is not None and began >= 0 and now_ms - began > log.config.max_compaction_lag_ms
    return False


def _has_expired(log: "Log", first_dirty: int, bound: int, now_ms: int) -> bool:
    """Whether a record's time is over where it can go only with older ones of its key."""
    if not log.config.message_ttl_enable:
        return False
    return any(
        0 < (segment.next_expiry_ms or 0) < now_ms
        for segment, following in pairwise(log.segments)
        if first_dirty < following.base_offset <= bound
    )


def plan_for(log: "Log", sources: tuple[Source, ...], first_dirty: int | None, bound: int, now_ms: int) -> CompactionPlan:
    """Everything the worker needs to know to clean these segments."""
    last_written = {state.producer_id: LastWritten(state.last_data_offset, state.epoch) for state in log.producers}
    aborted = [entry for segment in log.segments for entry in log.segments.aborted_of(segment, log.start_offset)]
    config = log.config
    return CompactionPlan(
        directory=log.directory,
        sources=sources,
        first_dirty=first_dirty,
        upper_bound=min(bound, sources[-1].next_base) if sources else bound,
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        ttl_enabled=config.message_ttl_enable,
        segment_bytes=config.segment_bytes,
        index_interval_bytes=config.index_interval_bytes,
        aborted=tuple(aborted),
        last_written=last_written,
    )


# -- working, in another process


def compact(plan: CompactionPlan, disk: Disk | None = None) -> CompactionResult:
    """Write the replacements of a plan's segments.  Raises CorruptBatch, and leaves nothing, when a segment is broken."""
    return _Compaction(plan, disk or SystemDisk()).run()


class _Compaction:
    def __init__(self, plan: CompactionPlan, disk: Disk) -> None:
        self._plan = plan
        self._disk = disk
        self._result = CompactionResult(directory=plan.directory, is_expiry=plan.first_dirty is None)

    def run(self) -> CompactionResult:
        plan, result = self._plan, self._result
        keys = self._collect_keys() if plan.first_dirty is not None else None
        end = plan.upper_bound if keys is None else min(plan.upper_bound, keys.latest_offset + 1)
        sources = [source for source in plan.sources if source.base_offset < end]
        cleaner = BatchCleaner(
            now_ms=plan.now_ms,
            delete_retention_ms=plan.delete_retention_ms,
            ttl_enabled=plan.ttl_enabled,
            keys=keys,
            transactions=TransactionTracker(plan.aborted),
            last_written=plan.last_written.get,
        )
        try:
            for group in grouped(sources, plan.segment_bytes):
                self._clean_group(group, cleaner)
        except BaseException:
            discard(result, self._disk)
            raise
        self._disk.sync_directory(plan.directory)
        result.clean_offset = end
        result.records_read, result.records_kept = cleaner.records_read, cleaner.records_kept
        return result

    def _collect_keys(self) -> KeyMap:
        plan = self._plan
        assert plan.first_dirty is not None
        keys = KeyMap(plan.keys_max)
        tracker = TransactionTracker(plan.aborted)
        for source in plan.sources:
            if source.next_base <= plan.first_dirty:
                continue
            for header, _, batch in self._batches(source):
                if header.attributes & CONTROL_BIT:
                    tracker.marker_stands_alone(header, batch)
                elif not tracker.is_aborted(header) and not finish(collect_keys(keys, header, batch, plan.first_dirty)):
                    return keys
                keys.latest_offset = header.last_offset
            keys.latest_offset = source.next_base - 1
        return keys

    def _batches(self, source: Source) -> "Iterator[ScannedBatch]":
        return batches_of(self._disk, self._plan.directory, source.base_offset, 0, source.size)

    def _clean_group(self, group: tuple[Source, ...], cleaner: BatchCleaner) -> None:
        plan, result = self._plan, self._result
        base_offset = group[0].base_offset
        self._remove_leftovers(base_offset)
        result.groups.append(group)
        target = Segment(
            FilePool(self._disk),
            plan.directory,
            base_offset,
            index_interval_bytes=plan.index_interval_bytes,
            is_new=True,
            file_suffix=CLEANED_SUFFIX,
        )
        target.log.file()
        cleaner.transactions.still_needed.clear()
        cleaner.next_expiry_ms = None
        dropped: BatchHeader | None = None
        for source in group:
            for header, _, batch in self._batches(source):
                kept = cleaner.clean(header, batch)
                dropped = header if kept is None else None
                if kept is not None:
                    _write(target, kept)
        if dropped is not None:
            # The group's last batch stays, empty: after a crash it says which segments the replacement covers.
            _write(target, emptied(dropped))
        for entry in self._aborted_in(group, cleaner):
            target.aborted.append(entry)
        target.seal()
        for handle in target.handles():
            if self._disk.exists(handle.path):
                handle.sync()
        result.bytes_before += sum(source.size for source in group)
        result.bytes_after += target.size
        result.expiries.append(self._next_expiry(cleaner, target.size))
        target.close()

    def _next_expiry(self, cleaner: BatchCleaner, size: int) -> int | None:
        """When this group is to be written anew; whoever writes much at a time does so less often."""
        if not self._plan.ttl_enabled or cleaner.next_expiry_ms is None:
            return None if self._plan.ttl_enabled else NEVER_LOOKED
        return max(cleaner.next_expiry_ms, self._plan.now_ms + size * 1000 // EXPIRY_BYTES_PER_S)

    def _aborted_in(self, group: tuple[Source, ...], cleaner: BatchCleaner) -> list[AbortedEntry]:
        if self._plan.first_dirty is not None:
            return sorted(cleaner.transactions.still_needed, key=lambda entry: entry.last_offset)
        low, high = group[0].base_offset, group[-1].next_base
        return [entry for entry in self._plan.aborted if low <= entry.last_offset < high]

    def _remove_leftovers(self, base_offset: int) -> None:
        for suffix in SEGMENT_SUFFIXES:
            self._disk.remove(segment_path(self._plan.directory, base_offset, suffix + CLEANED_SUFFIX))


def batches_of(disk: Disk, directory: Path, base_offset: int, start: int, size: int) -> "Iterator[ScannedBatch]":
    """The batches of a segment in a stretch of its bytes; CorruptBatch at the first that is broken."""
    path = segment_path(directory, base_offset, LOG_SUFFIX)
    parent = os.getppid()
    file = disk.open(path)
    try:
        scanner = Scanner(file, base_offset, start=start, size=size)
        for scanned in scanner:
            if scanner.holes:
                break
            if os.getppid() != parent:
                raise CompactionAbandoned
            yield scanned
        if scanner.holes or scanner.bad_tail:
            reason = scanner.holes[0].reason if scanner.holes else scanner.bad_tail
            raise CorruptBatch(path, scanner.end, scanner.next_offset, reason or "")
    finally:
        file.close()


def _write(target: Segment, batch: bytes | memoryview) -> None:
    target.append([stored(read_header(batch))], [batch])


def grouped(sources: Sequence[Source], segment_bytes: int) -> list[tuple[Source, ...]]:
    """Neighbours that fit one segment together become one, so that a compacted log has few files."""
    groups: list[list[Source]] = []
    for source in sources:
        group = groups[-1] if groups else None
        fits = (
            group is not None
            and group[-1].next_base == source.base_offset
            and sum(each.size for each in group) + source.size <= segment_bytes
            and source.next_base - group[0].base_offset <= 2**31 - 1
        )
        if fits and group is not None:
            group.append(source)
        else:
            groups.append([source])
    return [tuple(group) for group in groups]


# -- putting in place


def publish(result: CompactionResult, disk: Disk | None = None) -> None:
    """In a thread: make the replacements final.  From here on a crash finishes the work."""
    begin_swap(disk or SystemDisk(), result.directory, [group[0].base_offset for group in result.groups])


def discard(result: CompactionResult, disk: Disk | None = None) -> None:
    """Remove replacements that will not be used."""
    disk = disk or SystemDisk()
    for group in result.groups:
        for suffix in SEGMENT_SUFFIXES:
            for stage in (CLEANED_SUFFIX, SWAP_SUFFIX):
                disk.remove(segment_path(result.directory, group[0].base_offset, suffix + stage))


def swap_in(log: "Log", result: CompactionResult) -> list[RemovedSegment]:
    """On the loop's thread: the log goes on with the replacements.  Nothing happens when the log has changed meanwhile."""
    sizes = {segment.base_offset: segment.size for segment in log.segments[:-1]}
    if any(sizes.get(source.base_offset) != source.size for group in result.groups for source in group):
        discard(result, log.disk)
        return []
    removed: list[RemovedSegment] = []
    for group, next_expiry_ms in zip(result.groups, result.expiries, strict=True):
        removed += log.segments.replace([source.base_offset for source in group], finish_swap, next_expiry_ms)
    if not result.is_expiry:
        log.segments.clean_offset = max(log.segments.clean_offset, result.clean_offset)
    return removed

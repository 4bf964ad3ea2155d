"""The disk: flushes, cold reads, room, and what retention and compaction had and have to do."""

from collections.abc import Iterable, Sized

from headrace.broker.health.disk_space import DiskSpace
from headrace.broker.metrics.collecting import Collecting, Page
from headrace.broker.metrics.figures import DiskFigures
from headrace.broker.partitions.partition import Partition
from headrace.log.log import Log
from headrace.metrics.families import counter, gauge, histogram
from headrace.metrics.scrape import Scrape

FLUSHES = histogram("headrace_flush_seconds", "How long each flush of a log to the disk (fdatasync) took.")
FLUSH_FAILURES = counter("headrace_flush_failures_total", "Flushes that failed; each takes its partition offline.")
COLD_READS = histogram("headrace_cold_read_seconds", "Reads that had to wait for the disk, and how long each waited for it.")
FREE = gauge("headrace_disk_free_bytes", "Free room on the disk of the logs.")
TOTAL = gauge("headrace_disk_size_bytes", "Size of the disk of the logs.")
LEFT = gauge(
    "headrace_disk_writable_bytes", "Room that clients may still fill before writes are refused; the reserve is taken off."
)
REMOVED_SEGMENTS = counter(
    "headrace_removed_segments_total",
    "Segments that left their logs, by why: retention by time or size, log start, compaction, truncation.",
    "reason",
)
REMOVED_BYTES = counter("headrace_removed_bytes_total", "Bytes of these segments.", "reason")
REMOVALS = gauge("headrace_removals_waiting", "Files of removed segments and logs that wait to be unlinked.")
CLEANINGS = histogram("headrace_cleaning_seconds", "How long each compaction of a log, or expiry of its records, took.")
CLEANED = counter("headrace_cleaned_bytes_total", "Bytes that compaction and expiry have read.")
FREED = counter("headrace_cleaning_freed_bytes_total", "Bytes by which compaction and expiry made logs smaller.")
FAILED = counter("headrace_cleaning_failures_total", "Compactions and expiries that failed; the log tells why.")
BACKLOG = gauge("headrace_cleaning_backlog_bytes", "Bytes of compacted topics that were written since they were last compacted.")


class DiskCollector:
    """What the flusher, the readers and the housekeeping counted, and what there is to do."""

    def __init__(self, figures: DiskFigures, space: DiskSpace, removal: Sized, replicas: Iterable[Partition]) -> None:
        self._figures = figures
        self._space = space
        self._removal = removal
        self._replicas = replicas

    def collect(self, scrape: Scrape, page: Page) -> Collecting:
        if page is not Page.SUMMARY:
            return
        figures, space = self._figures, self._space
        scrape.add(FLUSHES, figures.flushes.taken())
        scrape.add(FLUSH_FAILURES, figures.flush_failures)
        scrape.add(COLD_READS, figures.cold_reads.taken())
        is_known = space.total >= 0
        scrape.add(FREE, space.free if is_known else None)
        scrape.add(TOTAL, space.total if is_known else None)
        scrape.add(LEFT, max(0, int(space.left)) if is_known else None)
        removed = scrape.rows(REMOVED_SEGMENTS, REMOVED_BYTES)
        for reason, count in figures.removed_segments.items():
            removed.append(((reason,), (count, figures.removed_bytes[reason])))
        scrape.add(REMOVALS, len(self._removal))
        scrape.add(CLEANINGS, figures.cleanings.taken())
        scrape.add(CLEANED, figures.cleaned_bytes)
        scrape.add(FREED, figures.freed_bytes)
        scrape.add(FAILED, figures.failed_cleanings)
        backlog = 0
        for partition in list(self._replicas):
            if partition.config.is_compacted:
                backlog += uncleaned_bytes(partition)
            yield
        scrape.add(BACKLOG, backlog)


def uncleaned_bytes(partition: Partition) -> int:
    """What compaction has not seen yet; in memory it has no backlog."""
    log = partition.log
    if not isinstance(log, Log):
        return 0
    segments = log.segments
    return sum(segment.size for segment in segments.all if segment.base_offset >= segments.clean_offset)

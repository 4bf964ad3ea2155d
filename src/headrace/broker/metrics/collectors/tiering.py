"""Tiered storage: what went to the object store, what waits to, and what was read from there.  Nothing where there is none."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.broker.metrics.collecting import Collecting, Page
from headrace.metrics.families import counter, gauge
from headrace.metrics.scrape import Scrape

if TYPE_CHECKING:
    from headrace.broker.tiering.tiering import Tiering

UPLOADED_SEGMENTS = counter("headrace_remote_uploaded_segments_total", "Segments that went to the object store.")
UPLOADED = counter("headrace_remote_uploaded_bytes_total", "Bytes of these segments.")
PENDING = gauge(
    "headrace_remote_pending_bytes", "Bytes of closed segments of led partitions that are not in the object store yet."
)
PENDING_SECONDS = gauge(
    "headrace_remote_pending_seconds", "For how long the partition that is furthest behind has had something to upload."
)
STORED = gauge("headrace_remote_size_bytes", "Bytes that led partitions have in the object store.")
DELETED = counter(
    "headrace_remote_deleted_objects_total", "Objects that were deleted: too old, left behind, or of deleted topics."
)
FAILURES = counter(
    "headrace_remote_failures_total", "Rounds over a partition that were cut short, as a rule because the store did not answer."
)
FETCHED = counter("headrace_remote_fetched_bytes_total", "Bytes that were read from the object store for readers.")
CACHED = gauge("headrace_remote_cache_bytes", "Bytes of the object store that are kept on disk for readers.")


class TieringCollector:
    """What the partitions of tiered topics have in the store, and have not."""

    def __init__(self, tiering: "Tiering | None", now: Callable[[], float]) -> None:
        self._tiering = tiering
        self._now = now

    def collect(self, scrape: Scrape, page: Page) -> Collecting:
        tiering = self._tiering
        if tiering is None or page is not Page.SUMMARY:
            return
        figures, cache = tiering.figures, tiering.cache
        scrape.add(UPLOADED_SEGMENTS, figures.uploaded_segments)
        scrape.add(UPLOADED, figures.uploaded_bytes)
        scrape.add(DELETED, figures.deleted_objects)
        scrape.add(FAILURES, figures.failures)
        scrape.add(FETCHED, cache.bytes_fetched)
        scrape.add(CACHED, cache.size_bytes)
        pending = stored = 0
        seconds = 0.0
        for part in list(tiering.parts.values()):
            if part.partition.is_leader:
                pending += part.behind_bytes
                stored += part.known.size_bytes if part.known is not None else 0
                if part.behind_since is not None:
                    seconds = max(seconds, self._now() - part.behind_since)
            yield
        scrape.add(PENDING, pending)
        scrape.add(PENDING_SECONDS, seconds)
        scrape.add(STORED, stored)

"""Which segments are too old, too many, or below the log start.

Only whole segments go, oldest first, and only those whose every record is below the high watermark.  Everything that blocks
(unlinking large files) is left to the caller.
"""

from typing import TYPE_CHECKING

from headrace.log.results import RemovedSegment

if TYPE_CHECKING:
    from headrace.log.log import Log


def apply_retention(log: "Log", now_ms: int, high_watermark: int) -> list[RemovedSegment]:
    """Remove what the topic's settings no longer keep."""
    log.producers.remove_expired(log.config.producer_id_expiration_ms)
    removed = remove_below(log, log.start_offset)
    # What has a part in an object store is kept or removed as a whole, by who knows both parts.
    if "delete" in log.config.cleanup_policy and not log.config.remote_storage_enable:
        removed += _remove_by_time(log, now_ms, high_watermark)
        removed += _remove_by_size(log, high_watermark)
    return removed


def _remove_by_time(log: "Log", now_ms: int, high_watermark: int) -> list[RemovedSegment]:
    retention_ms = log.config.retention_ms
    if retention_ms < 0:
        return []
    count = 0
    for index, segment in enumerate(log.segments):
        if not segment.size or _upper_bound(log, index) > high_watermark:
            break
        timestamp = log.segments.largest_timestamp(segment)
        # Records without a timestamp age from when the file was last written.
        written = timestamp if timestamp >= 0 else log.disk.modified_ms(segment.log.path)
        if now_ms - written <= retention_ms:
            break
        count += 1
    return _remove(log, count, "retention.ms")


def _remove_by_size(log: "Log", high_watermark: int) -> list[RemovedSegment]:
    retention_bytes = log.config.retention_bytes
    if retention_bytes < 0:
        return []
    excess = log.size_bytes - retention_bytes
    count = 0
    for index, segment in enumerate(log.segments):
        if not segment.size or segment.size > excess or _upper_bound(log, index) > high_watermark:
            break
        excess -= segment.size
        count += 1
    return _remove(log, count, "retention.bytes")


def _upper_bound(log: "Log", index: int) -> int:
    return log.segments[index + 1].base_offset if index + 1 < len(log.segments) else log.end_offset


def _remove(log: "Log", count: int, reason: str) -> list[RemovedSegment]:
    if count and count == len(log.segments):
        # The active segment goes too: the log needs another one first.
        log.roll()
    removed = log.segments.remove_oldest(count, reason)
    if removed:
        log.begin_at(max(log.start_offset, log.segments[0].base_offset))
    return removed


def remove_below(log: "Log", offset: int) -> list[RemovedSegment]:
    """Let go of segments that lie wholly below an offset; the active one stays."""
    bases = log.segments.bases
    count = 0
    while count + 1 < len(bases) and bases[count + 1] <= offset:
        count += 1
    return _remove(log, count, "log start")

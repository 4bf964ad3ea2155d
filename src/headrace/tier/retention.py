"""How much of a log is kept, over both its parts: what the store has, and what is only on the leader's disk.

The leader decides; its followers hear of the log start with their next fetch, and the objects go when the manifest no longer
names them.  What is on a disk goes earlier (`local.retention.*`), but never before the manifest names it.
"""

from collections.abc import Iterable, Sequence

from headrace.model.topic_settings import LogConfig
from headrace.tier.manifest import Manifest
from headrace.tier.plan import LocalSegment

NO_LIMIT = -1
AS_ALL = -2


def log_start_after(manifest: Manifest, local: Sequence[LocalSegment], config: LogConfig, now_ms: int, log_start: int) -> int:
    """Where the log begins once what is too old or too much is gone; `local` is all that is closed and committed on disk."""
    parts = [LocalSegment(each.start_offset, each.end_offset, each.size, each.max_timestamp) for each in manifest.segments]
    parts += [each for each in local if each.end_offset > manifest.end_offset]
    parts = [each for each in parts if each.end_offset > log_start]
    gone = max(_too_old(parts, config.retention_ms, now_ms), _too_many(parts, config.retention_bytes))
    return parts[gone - 1].end_offset if gone else log_start


def _too_old(parts: Sequence[LocalSegment], retention_ms: int, now_ms: int) -> int:
    if retention_ms < 0:
        return 0
    count = 0
    for each in parts:
        if each.max_timestamp < 0 or now_ms - each.max_timestamp <= retention_ms:
            break
        count += 1
    return count


def _too_many(parts: Sequence[LocalSegment], retention_bytes: int) -> int:
    if retention_bytes < 0:
        return 0
    excess = sum(each.size for each in parts) - retention_bytes
    count = 0
    for each in parts:
        if each.size > excess:
            break
        excess -= each.size
        count += 1
    return count


def local_ms(config: LogConfig) -> int:
    """How long what is in the store stays on disk, too; -1 for as long as there is room."""
    return config.retention_ms if config.local_retention_ms == AS_ALL else config.local_retention_ms


def local_bytes(config: LogConfig) -> int:
    """How much of a partition stays on disk."""
    return config.retention_bytes if config.local_retention_bytes == AS_ALL else config.local_retention_bytes


def local_start_after(
    manifest_end: int, local: Iterable[LocalSegment], size_bytes: int, config: LogConfig, now_ms: int, local_start: int
) -> int:
    """Where the part on disk begins once what the store has, and the disk need not keep, is gone.

    `local` are closed segments, oldest first; `size_bytes` is all that is on disk."""
    ms, limit = local_ms(config), local_bytes(config)
    excess = size_bytes - limit
    for each in local:
        if each.end_offset > manifest_end:
            break
        is_old = ms >= 0 and each.max_timestamp >= 0 and now_ms - each.max_timestamp > ms
        is_too_much = limit >= 0 and each.size <= excess
        if not is_old and not is_too_much:
            break
        excess -= each.size
        local_start = max(local_start, each.end_offset)
    return local_start

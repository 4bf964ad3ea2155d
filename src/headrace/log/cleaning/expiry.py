"""Expiry on disk: when a segment's first record expires, and which segments are then written anew without the expired ones.

Nobody looks at records while they are appended.  A segment that is closed is looked at once, in a worker process; from then on it
is known when its first record expires (`Segment.next_expiry_ms`), and it is left alone until then.
Always: on a compacted topic only what was compacted may lose records to their time alone: above, an expired record still hides
older ones of its key.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.host.disk import Disk, SystemDisk
from headrace.log.cleaning.compaction import (
    CompactionPlan,
    Source,
    batches_of,
    first_uncleanable,
    grouped,
    plan_for,
    sources_below,
)
from headrace.log.cleaning.rules import earlier, first_expiry
from headrace.log.cleaning.steps import finish
from headrace.log.segments.segment import NEVER_LOOKED, Segment

if TYPE_CHECKING:
    from headrace.log.log import Log

# With a time to live, what is written is closed after so long, so that the cleaner can get at it.
ROLL_MS: Final = 600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The segments of a log that nobody has looked at yet."""

    directory: Path
    sources: tuple[Source, ...]


def close_for_expiry(log: "Log", now_ms: int) -> None:
    """Begin a new segment when the active one has been written to for long enough."""
    active = log.segments[-1]
    if (
        log.config.message_ttl_enable
        and active.size
        and not 0 <= now_ms - active.created_ms < min(ROLL_MS, log.config.segment_ms)
    ):
        log.roll()


def plan_look(log: "Log", high_watermark: int) -> Look | None:
    """Which segments to look at, if the topic has a time to live."""
    if not log.config.message_ttl_enable:
        return None
    unknown = {segment.base_offset for segment in log.segments[:-1] if segment.next_expiry_ms == NEVER_LOOKED}
    bound = min(high_watermark, log.segments[-1].base_offset)
    sources = tuple(source for source in sources_below(log, bound) if source.base_offset in unknown)
    return Look(directory=log.directory, sources=sources) if sources else None


def look(plan: Look, disk: Disk | None = None) -> dict[int, int | None]:
    """In another process: when the first record of each segment expires, by the segment's base offset."""
    found: dict[int, int | None] = {}
    for source in plan.sources:
        first: int | None = None
        for header, _, batch in batches_of(disk or SystemDisk(), plan.directory, source):
            first = earlier(first, finish(first_expiry(header, batch)))
        found[source.base_offset] = first
    return found


def note(log: "Log", plan: Look, found: Mapping[int, int | None]) -> None:
    """Remember what was seen, of segments that are still as they were."""
    sizes = {source.base_offset: source.size for source in plan.sources}
    for segment in log.segments[:-1]:
        if sizes.get(segment.base_offset) == segment.size:
            segment.next_expiry_ms = found[segment.base_offset]


def plan_expiry(log: "Log", now_ms: int, high_watermark: int) -> CompactionPlan | None:
    """What to rewrite without its expired records, if the topic has a time to live and something is due."""
    if not log.config.message_ttl_enable:
        return None
    bound = first_uncleanable(log, now_ms, high_watermark, 0)
    if log.config.is_compacted:
        bound = min(bound, log.clean_offset)
    due = {segment.base_offset for segment in log.segments[:-1] if is_due(segment, now_ms)}
    # Small neighbours become one on the way, so that a log that is closed often has few files.
    groups = [group for group in grouped(sources_below(log, bound), log.config.segment_bytes) if _has_any(group, due)]
    sources = tuple(source for group in groups for source in group)
    return plan_for(log, sources, None, bound, now_ms) if sources else None


def is_due(segment: Segment, now_ms: int) -> bool:
    """Whether something in a segment is known to have expired."""
    expiry = segment.next_expiry_ms
    return expiry is not None and expiry != NEVER_LOOKED and expiry < now_ms


def _has_any(group: Sequence[Source], bases: set[int]) -> bool:
    return any(source.base_offset in bases for source in group)

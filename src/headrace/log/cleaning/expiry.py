"""Expiry on disk: when a segment's first record expires, and which segments are then written anew without the expired ones.

Nobody looks at records while they are appended.  Every byte is looked at once, soon after, in a worker process; from then on it
is known when the first record of a segment expires (`Segment.next_expiry_ms`), and the segment is left alone until then.  The
active one is closed when something in it has expired, so that it can be written anew.
Always: on a compacted topic only what was compacted may lose records to their time alone: above, an expired record still hides
older ones of its key.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.declaring import dataclass
from headrace.host.disk import Disk, SystemDisk
from headrace.log.cleaning.compaction import (
    EXPIRY_BYTES_PER_S,
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

# An active segment in which something expired is closed at this age at the earliest and, on compacted topics, which are rewritten
# as a whole, at this one at the latest.  `segment.ms` may say less.
ROLL_MIN_MS: Final = 5_000
ROLL_MAX_MS: Final = 600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Bytes of a segment that nobody has looked at yet."""

    base_offset: int
    start: int
    size: int
    cuts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The parts of a log that nobody has looked at yet."""

    directory: Path
    stretches: tuple[Stretch, ...]

    @property
    def bytes_to_read(self) -> int:
        return sum(each.size - each.start for each in self.stretches)


def has_expiry_work(log: "Log", now_ms: int) -> bool:
    """Whether there is something to look at, or something to remove."""
    if not log.config.message_ttl_enable:
        return False
    return any(segment.looked_to < segment.size or is_due(segment, now_ms) for segment in log.segments)


def close_for_expiry(log: "Log", now_ms: int) -> None:
    """Begin a new segment when something in the active one has expired, but not too often."""
    active = log.segments[-1]
    if log.config.message_ttl_enable and is_due(active, now_ms) and not 0 <= now_ms - active.created_ms < _roll_ms(log):
        log.roll()


def _roll_ms(log: "Log") -> int:
    rewriting_ms = log.size_bytes * 1000 // EXPIRY_BYTES_PER_S if log.config.is_compacted else 0
    return min(log.config.segment_ms, ROLL_MAX_MS, max(ROLL_MIN_MS, rewriting_ms))


def plan_look(log: "Log") -> Look | None:
    """What to look at, if the topic has a time to live."""
    if not log.config.message_ttl_enable:
        return None
    stretches = tuple(
        Stretch(base_offset=segment.base_offset, start=segment.looked_to, size=segment.size, cuts=segment.cuts)
        for segment in log.segments
        if segment.looked_to < segment.size
    )
    return Look(directory=log.directory, stretches=stretches) if stretches else None


def look(plan: Look, disk: Disk | None = None) -> dict[int, int | None]:
    """In another process: when the first record of each stretch expires, by the segment's base offset."""
    found: dict[int, int | None] = {}
    for each in plan.stretches:
        first: int | None = None
        for header, _, batch in batches_of(disk or SystemDisk(), plan.directory, each.base_offset, each.start, each.size):
            first = earlier(first, finish(first_expiry(header, batch)))
        found[each.base_offset] = first
    return found


def note(log: "Log", plan: Look, found: Mapping[int, int | None]) -> None:
    """Remember what was seen, of segments that have only grown since."""
    stretches = {each.base_offset: each for each in plan.stretches}
    for segment in log.segments:
        each = stretches.get(segment.base_offset)
        if each is not None and (segment.looked_to, segment.cuts) == (each.start, each.cuts) and segment.size >= each.size:
            known = None if segment.next_expiry_ms == NEVER_LOOKED else segment.next_expiry_ms
            segment.next_expiry_ms = earlier(known, found[segment.base_offset])
            segment.looked_to = each.size


def is_outdated(log: "Log", plan: Look) -> bool:
    """Whether something that was to be looked at has been cut or removed since: what was seen there means nothing."""
    cuts = {segment.base_offset: segment.cuts for segment in log.segments}
    return any(cuts.get(each.base_offset) != each.cuts for each in plan.stretches)


def plan_expiry(log: "Log", now_ms: int, high_watermark: int) -> CompactionPlan | None:
    """What to rewrite without its expired records, if the topic has a time to live and something is due."""
    if not log.config.message_ttl_enable:
        return None
    bound = first_uncleanable(log, now_ms, high_watermark, 0)
    if log.config.is_compacted:
        bound = min(bound, log.segments.clean_offset)
    due = {segment.base_offset for segment in log.segments[:-1] if is_due(segment, now_ms)}
    groups = grouped(sources_below(log, bound), log.config.segment_bytes)
    sources = tuple(source for group in groups for source in _worth_rewriting(group, due))
    return plan_for(log, sources, None, bound, now_ms) if sources else None


def is_due(segment: Segment, now_ms: int) -> bool:
    """Whether something in a segment is known to have expired."""
    expiry = segment.next_expiry_ms
    return expiry is not None and expiry != NEVER_LOOKED and expiry < now_ms


def _worth_rewriting(group: Sequence[Source], due: set[int]) -> Sequence[Source]:
    """What is due, and neighbours before it that are no larger: a log that is closed often has few files, and what is large is
    not written anew for what is small."""
    places = [place for place, source in enumerate(group) if source.base_offset in due]
    if not places:
        return ()
    start, end = places[0], places[-1] + 1
    size = sum(source.size for source in group[start:end])
    while start and group[start - 1].size <= size:
        start -= 1
        size += group[start].size
    return group[start:end]

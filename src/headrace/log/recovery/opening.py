"""Opening a log: its parts take over what recovery found in the directory."""

from collections.abc import Callable

from headrace.log.parts import LogParts
from headrace.log.recovery.recovery import Recovered, Recovery
from headrace.log.segments.files import FilePool


def open_parts(parts: LogParts, sync: Callable[[], int], *, clean: bool, recovery_point: int, start_offset: int) -> None:
    """`clean`, `recovery_point` and `start_offset` as in `Log.open`; `sync` makes all of the log durable.  Raises OSError."""
    state, segments, durability = parts.state, parts.segments, parts.durability
    directory, disk = segments.directory, segments.disk
    is_new = not disk.exists(directory)
    disk.make_directory(directory)
    # Several logs may be opened at once in threads of their own: each with files of its own until it is handed over.
    own_files = FilePool(disk, giving_up=segments.files.giving_up)
    recovery = Recovery(directory, state.config, disk, parts.clock, own_files, parts.epochs, parts.producers)
    found = recovery.run(clean=clean and not is_new, recovery_point=recovery_point, first_offset=start_offset)
    _take_over(parts, found, start_offset)
    end = state.end_offset
    is_durable = clean or is_new or end <= recovery_point
    durability.is_new = is_new
    durability.found(min(found.noted_offset, end), end if is_durable else state.local_start)
    if not is_new and (not clean or found.unsure_from < end):
        _note_found(parts, found.unsure_from, is_durable)
        if not is_durable or durability.has_companions:
            sync()
    if start_offset > end:
        _go_on_behind_deleted(parts, start_offset)
        sync()


def _take_over(parts: LogParts, found: Recovered, start_offset: int) -> None:
    state, segments = parts.state, parts.segments
    for segment in found.segments:
        for handle in segment.handles():
            handle.move_to(segments.files)
    segments.take_over(found.segments)
    parts.small_files.checksums = found.checksums
    state.corruption_count = found.corruption_count
    state.findings = found.findings
    state.end_offset = found.end_offset
    state.local_start = max(found.segments[0].base_offset, min(start_offset, found.end_offset))
    # Where the log's beginning is in an object store, where it begins is what was written down, and not what is on this disk.
    state.start_offset = min(start_offset, state.local_start) if state.config.remote_storage_enable else state.local_start
    segments.clean_offset = state.local_start
    parts.epochs.truncate_from_start(state.start_offset)
    parts.producers.on_high_watermark(state.end_offset)


def _note_found(parts: LogParts, unsure_from: int, is_durable: bool) -> None:
    """What a start finds in the page cache may never have reached the medium: it counts as flushed only after a sync."""
    for segment in parts.segments:
        if segment.base_offset >= unsure_from:
            parts.small_files.note_sealed(segment, segment.base_offset)
            parts.segments.sync_aborted_along(segment)
            if not is_durable:
                parts.durability.log_file_written(segment.log)


def _go_on_behind_deleted(parts: LogParts, start_offset: int) -> None:
    """Records that were never flushed, and then deleted, went in a power failure: no other may get their offsets."""
    finding = f"the log ends at {parts.state.end_offset}, before its start; it goes on at {start_offset}"
    parts.state.findings.append(finding)
    for removed in parts.truncation.start_over_unprepared(start_offset):
        removed.unlink()

"""What the tests of compaction and expiry share: one round of it, and short ways to write and read."""

from dataclasses import replace
from typing import Any

from headrace.log.cleaning.compaction import compact, plan_compaction, publish, swap_in
from headrace.log.cleaning.expiry import close_for_expiry, look, note, plan_expiry, plan_look
from headrace.log.log import Log
from headrace.model.topic_settings import LogConfig
from headrace.records.record import Record
from tests.unit.log.storing import (
    TIME,
    keyed,
)

COMPACTED = LogConfig(
    cleanup_policy=frozenset({"compact"}), segment_bytes=600, index_interval_bytes=100, min_cleanable_dirty_ratio=0.01
)


def clean(log: Log, now_ms: int = TIME, **changes: Any) -> None:
    """One round of compaction or expiry, all three steps."""
    look_for_expiries(log, now_ms)
    plan = plan_compaction(log, now_ms, log.end_offset) or plan_expiry(log, now_ms, log.end_offset)
    if plan is None:
        return
    result = compact(replace(plan, **changes), log.disk)
    publish(result, log.disk)
    for removed in swap_in(log, result):
        removed.unlink()


def look_for_expiries(log: Log, now_ms: int = TIME) -> None:
    unknown = plan_look(log)
    if unknown is not None:
        note(log, unknown, look(unknown, log.disk))
    close_for_expiry(log, now_ms)


def put(log: Log, *pairs: tuple[bytes, bytes | None], **options: Any) -> int:
    return log.append(keyed(*pairs, **options), 0).base_offset


def latest_of(records: list[Record]) -> dict[bytes | None, bytes | None]:
    state = {record.key: record.value for record in records}
    return {key: value for key, value in state.items() if value is not None}

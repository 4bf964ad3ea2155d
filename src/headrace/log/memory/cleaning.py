"""Retention, expiry and compaction of a log in memory, in short steps: the log is served on the same thread.

Between two steps anything may happen to the log.  So places are remembered as offsets, a batch is changed only if it is still
there, and whoever cuts the log (`truncations`) ends the work under way; the next round begins anew.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.log.cleaning.rules import (
    KEYS_MAX,
    BatchCleaner,
    KeyMap,
    LastWritten,
    TransactionTracker,
    collect_keys,
    earlier,
    emptied,
    first_expiry,
)
from headrace.log.cleaning.steps import BATCHES_PER_STEP, Steps
from headrace.records.header import CONTROL_BIT, read_header

if TYPE_CHECKING:
    from headrace.log.memory.held_batches import HeldBatch
    from headrace.log.memory.memory_log import MemoryLog


class MemoryCleaning:
    """One round over one log."""

    def __init__(self, log: "MemoryLog", now_ms: int, high_watermark: int, keys_max: int = KEYS_MAX) -> None:
        self._log = log
        self._keys_max = keys_max
        self._now_ms = now_ms
        self._high_watermark = high_watermark
        unstable = log.producers.first_unstable_offset
        self._bound = high_watermark if unstable is None else min(high_watermark, unstable)
        self._truncations = log.truncations

    def steps(self) -> Steps[None]:
        """Remove what is too old, too much, expired or superseded."""
        config = self._log.config
        self._log.producers.remove_expired(config.producer_id_expiration_ms)
        if "delete" in config.cleanup_policy:
            yield from self._remove_old()
        if config.message_ttl_enable:
            yield from self._learn_expiries()
        yield from self._compact_or_expire()
        yield from self._shrink()
        self._log.forget_below_start()

    def expiry_steps(self) -> Steps[None]:
        """Remove what has expired; the rest waits for its own time."""
        yield from self._learn_expiries()
        if self._is_due():
            yield from self._compact_or_expire()
            yield from self._shrink()

    def _compact_or_expire(self) -> Steps[None]:
        config = self._log.config
        if config.is_compacted and self._must_compact():
            yield from self._compact()
        elif config.message_ttl_enable and self._is_due():
            # Where nothing was compacted yet, an expired record still hides older ones of its key.
            yield from self._expire(min(self._bound, self._log.batches.compacted_to) if config.is_compacted else self._bound)

    @property
    def _is_over(self) -> bool:
        return self._log.truncations != self._truncations

    # -- retention

    def _remove_old(self) -> Steps[None]:
        log, config = self._log, self._log.config
        count = 0
        while (batch := log.batches.first()) is not None:
            too_old = config.retention_ms >= 0 and 0 <= batch.max_timestamp < self._now_ms - config.retention_ms
            too_many = config.retention_bytes >= 0 and log.size_bytes - len(batch.data) >= config.retention_bytes
            if batch.next_offset > self._high_watermark or not (too_old or too_many):
                return
            log.batches.drop_first()
            count += 1
            if count % BATCHES_PER_STEP == 0:
                yield None

    # -- expiry

    def _batches(self, start: int, bound: int) -> Iterator["HeldBatch | None"]:
        """The batches in a stretch of the log, and None where it is time for a turn of others.  It ends when the log is cut."""
        count, offset = 0, start
        while not self._is_over:
            for batch in self._log.batches.some_from(offset, BATCHES_PER_STEP):
                if batch.next_offset > bound:
                    return
                offset = batch.next_offset
                if batch.data:
                    yield batch
                    if self._is_over:
                        return
                count += 1
            if count == 0:
                return
            count = 0
            yield None

    def _learn_expiries(self) -> Steps[None]:
        """Look once at each batch that came since the last round."""
        log = self._log
        for batch in self._batches(log.looked_to, self._bound):
            if batch is None:
                yield None
                continue
            batch.next_expiry_ms = yield from first_expiry(read_header(batch.data), memoryview(batch.data))
            log.next_expiry_ms = earlier(log.next_expiry_ms, batch.next_expiry_ms)
            log.looked_to = batch.next_offset

    def _is_due(self) -> bool:
        return self._log.next_expiry_ms is not None and self._log.next_expiry_ms < self._now_ms

    def _expire(self, bound: int) -> Steps[None]:
        log = self._log
        cleaner = self._cleaner(None)
        next_expiry_ms: int | None = None
        for batch in self._batches(log.start_offset, log.end_offset):
            if batch is None:
                yield None
                continue
            if batch.next_expiry_ms is not None and batch.next_expiry_ms < self._now_ms and batch.next_offset <= bound:
                yield from self._clean(batch, cleaner)
            if batch.next_offset <= log.looked_to:
                next_expiry_ms = earlier(next_expiry_ms, batch.next_expiry_ms)
        if not self._is_over:
            log.next_expiry_ms = next_expiry_ms

    # -- compaction

    def _must_compact(self) -> bool:
        log = self._log
        if self._compactable_to() <= log.batches.compacted_to or not log.batches.dirty_bytes:
            return False
        return log.batches.dirty_bytes / log.size_bytes >= log.config.min_cleanable_dirty_ratio or self._is_due()

    def _compactable_to(self) -> int:
        """What was written last stays as it is, as Kafka's active segment does: it shows readers where the log ends."""
        last = self._log.batches.last()
        if last is None or self._log.config.message_ttl_enable:
            return self._bound
        return min(self._bound, last.base_offset)

    def _compact(self) -> Steps[None]:
        log, bound = self._log, self._compactable_to()
        keys = KeyMap(self._keys_max)
        yield from self._collect_keys(keys)
        cleaner = self._cleaner(keys)
        next_expiry_ms: int | None = None
        for batch in self._batches(log.start_offset, bound):
            if batch is None:
                yield None
                continue
            yield from self._clean(batch, cleaner)
            next_expiry_ms = earlier(next_expiry_ms, batch.next_expiry_ms)
            yield None
        if not self._is_over:
            log.next_expiry_ms = next_expiry_ms
        # Where there were too many keys for the map, the rest waits for the next round.
        compacted_to = min(bound, keys.latest_offset + 1)
        while not self._is_over and not log.batches.note_compacted(compacted_to, BATCHES_PER_STEP):
            yield None
        yield from keys.let_go()

    def _collect_keys(self, keys: KeyMap) -> Steps[None]:
        """Of what is not compacted yet: below, each key is there once."""
        tracker = TransactionTracker(self._log.batches.aborted)
        for batch in self._batches(max(self._log.start_offset, self._log.batches.compacted_to), self._bound):
            if batch is None:
                yield None
                continue
            header, data = read_header(batch.data), memoryview(batch.data)
            if header.attributes & CONTROL_BIT:
                tracker.marker_stands_alone(header, data)
            elif not tracker.is_aborted(header) and not (yield from collect_keys(keys, header, data)):
                return
            keys.latest_offset = header.last_offset
            yield None

    # -- one batch

    def _cleaner(self, keys: KeyMap | None) -> BatchCleaner:
        log = self._log
        return BatchCleaner(
            now_ms=self._now_ms,
            delete_retention_ms=log.config.delete_retention_ms,
            ttl_enabled=log.config.message_ttl_enable,
            keys=keys,
            transactions=TransactionTracker(log.batches.aborted),
            last_written=self._last_written,
        )

    def _last_written(self, producer_id: int) -> LastWritten | None:
        state = self._log.producers.get(producer_id)
        return None if state is None else LastWritten(state.last_data_offset, state.epoch)

    def _clean(self, batch: "HeldBatch", cleaner: BatchCleaner) -> Steps[None]:
        before = batch.data
        header = read_header(before)
        cleaner.next_expiry_ms = None
        after = yield from cleaner.steps(header, memoryview(before))
        if self._is_over or batch.data is not before:
            return
        if after is None and batch.next_offset in (self._bound, self._log.end_offset):
            # Readers must be able to reach the end of what they may see.
            after = emptied(header)
        batch.next_expiry_ms = cleaner.next_expiry_ms
        if header.attributes & CONTROL_BIT and (after is None or not read_header(after).record_count):
            self._log.batches.forget_aborted_at(header.last_offset)
        if not isinstance(after, memoryview):
            self._log.batches.replace(batch, after or b"")

    def _shrink(self) -> Steps[None]:
        """Batches of which nothing is left leave the list."""
        offset = self._log.start_offset
        while not self._is_over and (following := self._log.batches.shrink(offset, BATCHES_PER_STEP)) is not None:
            offset = following
            yield None

"""Whether share groups get records now: paused by hand, or by their breaker."""

import logging

from headrace.broker.metrics.figures import ShareFigures
from headrace.broker.sharing.settings import SettingsOf
from headrace.coordination.share.breaker import Breaker
from headrace.coordination.share.delivery import RecordState, StateBatch
from headrace.host.clock import Clock

logger = logging.getLogger(__name__)


class Breakers:
    """By group; one that never gave anything up has none."""

    def __init__(self, settings_of: SettingsOf, clock: Clock, figures: ShareFigures) -> None:
        self._settings_of = settings_of
        self._clock = clock
        self._figures = figures
        self._breakers: dict[str, Breaker] = {}

    def is_paused(self, group_id: str) -> bool:
        settings = self._settings_of(group_id)
        if settings.is_paused:
            return True
        breaker = self._breakers.get(group_id)
        return breaker is not None and breaker.is_open(settings.breaker, self._clock.wall_ms())

    def why_paused(self, group_id: str) -> str:
        """In words; empty where records are delivered."""
        if not self.is_paused(group_id):
            return ""
        settings, breaker = self._settings_of(group_id), self._breakers.get(group_id)
        if settings.is_paused or breaker is None or breaker.paused_at_ms is None:
            return "paused by hand"
        left_s = max(0, breaker.paused_at_ms + settings.breaker.pause_ms - self._clock.wall_ms()) // 1000
        return f"paused by its breaker for {left_s} s more: {breaker.given_up} of {breaker.looked_at} records were given up"

    def open_count(self) -> int:
        """Groups that a breaker has paused here."""
        now_ms = self._clock.wall_ms()
        return sum(each.is_open(self._settings_of(group).breaker, now_ms) for group, each in self._breakers.items())

    def note(self, group_id: str, batches: tuple[StateBatch, ...]) -> None:
        """Word of records has taken effect."""
        limits = self._settings_of(group_id).breaker
        if not limits.percent:
            self._breakers.pop(group_id, None)
            return
        breaker = self._breakers.setdefault(group_id, Breaker())
        for batch in batches:
            if batch.state is RecordState.AVAILABLE:
                continue
            given_up = batch.state is RecordState.ARCHIVED
            if breaker.note(batch.end - batch.first, given_up=given_up, limits=limits, now_ms=self._clock.wall_ms()):
                self._figures.breaker_trips += 1
                logger.warning(
                    "share group %s: delivery pauses for %d s, as %d of the last %d records were given up; "
                    "`headrace queue resume` ends the pause",
                    group_id,
                    limits.pause_ms // 1000,
                    breaker.given_up,
                    breaker.looked_at,
                )

    def forget(self, group_id: str) -> None:
        self._breakers.pop(group_id, None)

"""Share groups: what they have not done, told by the share coordinator whether somebody works on it or not; and what is under way
on the partitions that this broker leads.

What is ready is what is not done and not in flight: those who ask for it take the one from the other.
"""

import asyncio
from collections.abc import Generator, Iterator
from typing import Any, NamedTuple

from headrace.broker.coordinators.share_state.coordinator import ShareStateShards
from headrace.broker.housekeeping.slices import in_slices
from headrace.broker.metrics.collecting import Collecting, Page
from headrace.broker.metrics.figures import ShareFigures
from headrace.broker.metrics.log_positions import LogPositions
from headrace.broker.sharing.partitions import SharePartitions
from headrace.controller.image import CurrentImage
from headrace.coordination.share.entries import NOT_SET
from headrace.coordination.share.sessions import ShareSessions
from headrace.host.clock import Clock
from headrace.metrics.families import counter, gauge
from headrace.metrics.scrape import Scrape
from headrace.model.identity import TopicPartition

SESSIONS = gauge("headrace_share_sessions", "Share consumers that fetch from this broker.")
NOT_DONE = gauge(
    "headrace_share_lag_records",
    "Records that share groups have not done, of those whose states this broker keeps: ready, or in flight.",
)
OLDEST = gauge(
    "headrace_share_oldest_seconds", "The age of the oldest record that some share group has not done; 0 where there is none."
)
IN_FLIGHT = gauge("headrace_share_records_in_flight", "Records that are some share consumer's now.")
DELIVERIES = counter("headrace_share_deliveries_total", "Records delivered to share consumers, each time that they were.")
OUTCOMES = counter(
    "headrace_share_outcomes_total",
    "How deliveries to share groups ended: accepted, released (or the lock ran out), given_up (rejected, or the last one).",
    "outcome",
)
ONE = ("group", "topic", "partition")
PAUSED = gauge("headrace_share_breakers_open", "Share groups whose breaker has paused delivery on this broker.")
TRIPS = counter("headrace_share_breaker_trips_total", "How often the breaker of a share group has paused delivery.")
LETTERS_LOST = counter(
    "headrace_share_letters_lost_total",
    "Dead letters that their topic did not take at any size: the records are given up without.",
)
LAG = gauge(
    "headrace_share_group_lag_records", "Records of a partition that a share group has not done: ready, or in flight.", *ONE
)
AGE = gauge(
    "headrace_share_group_oldest_seconds", "The age of the first record of a partition that a share group has not done.", *ONE
)
GROUP_IN_FLIGHT = gauge(
    "headrace_share_group_in_flight_records", "Records of a partition that are some consumer's of a share group now.", *ONE
)
DEAD = counter(
    "headrace_share_group_dead_records_total",
    "Records that a share group has given up, because they were rejected or delivered for the last time.",
    "group",
    "topic",
)


class Undone(NamedTuple):
    """Of one partition, what a share group has to do."""

    group: str
    identity: TopicPartition
    records: int
    next_offset: int


class SharingCollector:
    """What was counted, and what can be seen."""

    def __init__(
        self,
        figures: ShareFigures,
        sessions: ShareSessions,
        partitions: SharePartitions,
        states: ShareStateShards,
        positions: LogPositions,
        image: CurrentImage,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._figures = figures
        self._sessions = sessions
        self._partitions = partitions
        self._states = states
        self._positions = positions
        self._image = image
        self._clock = clock
        self._loop = loop

    async def prepare(self, page: Page) -> None:
        if self._positions.has_others:
            stand_at = await in_slices(self._loop, self._clock, self._stand_elsewhere())
            await self._positions.ask(stand_at, ages=True)

    def _stand_elsewhere(self) -> Generator[Any, Any, dict[TopicPartition, set[int]]]:
        found: dict[TopicPartition, set[int]] = {}
        for _, identity, start, _ in self._kept():
            if self._positions.is_elsewhere(identity):
                found.setdefault(identity, set()).add(start)
            yield
        return found

    def _kept(self) -> Iterator[tuple[str, TopicPartition, int, int]]:
        """Every share-partition that has begun: from where on there is something to do, and how much behind that is done."""
        topics = self._image().topics_by_id
        for led in self._states.loaded():
            for key, state in led.shard.states():
                topic = topics.get(key.topic_id)
                if topic is not None and state.start_offset != NOT_SET:
                    yield key.group_id, TopicPartition(topic.name, key.partition), state.start_offset, max(0, state.done)

    def _undone(self) -> Iterator[Undone]:
        for group, identity, start, done in self._kept():
            if (ends := self._positions.ends_of(identity)) is not None:
                first = max(start, ends.start)
                yield Undone(group, identity, max(0, ends.high_watermark - first - done), first)

    def _age_of(self, undone: Undone) -> Generator[Any, Any, float | None]:
        if not undone.records:
            return 0.0
        written_ms = yield from self._positions.written_ms(undone.identity, undone.next_offset)
        return None if written_ms is None else max(0, self._clock.wall_ms() - written_ms) / 1000

    def collect(self, scrape: Scrape, page: Page) -> Collecting:
        return self._details(scrape) if page is Page.DETAIL else self._summary(scrape)

    def _summary(self, scrape: Scrape) -> Collecting:
        records, oldest = 0, 0.0
        for undone in self._undone():
            records += undone.records
            oldest = max(oldest, (yield from self._age_of(undone)) or 0.0)
            yield
        scrape.add(SESSIONS, len(self._sessions))
        scrape.add(NOT_DONE, records)
        scrape.add(OLDEST, oldest)
        scrape.add(IN_FLIGHT, sum(led.in_flight for led in self._partitions.all()))
        scrape.add(DELIVERIES, self._figures.deliveries)
        scrape.add(PAUSED, self._partitions.breakers.open_count())
        scrape.add(TRIPS, self._figures.breaker_trips)
        scrape.add(LETTERS_LOST, self._figures.letters_lost)
        scrape.rows(OUTCOMES).extend(((outcome,), (count,)) for outcome, count in self._figures.outcomes.items())
        yield

    def _details(self, scrape: Scrape) -> Collecting:
        rows = scrape.rows(LAG, AGE)
        for undone in self._undone():
            age = yield from self._age_of(undone)
            rows.append(((undone.group, *undone.identity), (undone.records, age)))
            yield
        under_way = scrape.rows(GROUP_IN_FLIGHT)
        for led in self._partitions.all():
            under_way.append(((led.key.group_id, *led.partition.identity), (led.in_flight,)))
            yield
        scrape.rows(DEAD).extend((names, (count,)) for names, count in self._figures.dead.items())

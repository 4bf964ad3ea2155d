"""Delayed records that wait under partitions of `__headrace_delayed` that this broker leads, and those it delivered."""

from headrace.broker.delaying.coordinator import DelayCoordinator
from headrace.broker.metrics.collecting import Collecting, Page
from headrace.broker.metrics.figures import DelayFigures
from headrace.controller.image import CurrentImage
from headrace.metrics.families import counter, gauge, histogram
from headrace.metrics.scrape import Scrape

WAITING = gauge("headrace_delayed_records", "Delayed records that wait for their time.")
OVERDUE = gauge(
    "headrace_delayed_overdue_seconds", "For how long the first of those that wait has been due; 0 where none is due yet."
)
NEXT = gauge("headrace_delayed_next_due_timestamp_seconds", "When the first of those that wait is due; 0 where none waits.")
DELIVERED = counter("headrace_delayed_delivered_total", "Delayed records that were delivered.")
LATE = histogram(
    "headrace_delayed_late_seconds", "How long after its time each delayed record was committed where it was delivered."
)
BY_TOPIC = gauge("headrace_delayed_records_by_topic", "Delayed records that wait to be delivered to a topic.", "topic")


class DelaysCollector:
    """All shards of delayed records that this broker leads."""

    def __init__(self, figures: DelayFigures, delays: DelayCoordinator, image: CurrentImage) -> None:
        self._figures = figures
        self._delays = delays
        self._image = image

    def collect(self, scrape: Scrape, page: Page) -> Collecting:
        return self._details(scrape) if page is Page.DETAIL else self._summary(scrape)

    def _summary(self, scrape: Scrape) -> Collecting:
        count, first_ms = 0, None
        for led in self._delays.shards.loaded():
            count += led.shard.count()
            due_ms = led.shard.oldest_due_ms()
            if due_ms is not None and (first_ms is None or due_ms < first_ms):
                first_ms = due_ms
            yield
        now_ms = self._delays.now().wall_ms
        scrape.add(WAITING, count)
        scrape.add(OVERDUE, 0.0 if first_ms is None else max(0, now_ms - first_ms) / 1000)
        scrape.add(NEXT, 0.0 if first_ms is None else first_ms / 1000)
        scrape.add(DELIVERED, self._figures.delivered)
        scrape.add(LATE, self._figures.late.taken())

    def _details(self, scrape: Scrape) -> Collecting:
        topics: dict[str, int] = {}
        for led in self._delays.shards.loaded():
            for target, count in led.shard.counts().items():
                topic = self._image().topics_by_id.get(target.topic_id)
                if topic is not None:
                    topics[topic.name] = topics.get(topic.name, 0) + count
            yield
        scrape.rows(BY_TOPIC).extend(((name,), (count,)) for name, count in sorted(topics.items()))

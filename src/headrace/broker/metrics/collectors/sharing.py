"""Share groups at work on the partitions that this broker leads; on the page of details, how much is left to do for each."""

from headrace.broker.metrics.collecting import Collecting, Page
from headrace.broker.metrics.figures import ShareFigures
from headrace.broker.sharing.partitions import SharePartitions
from headrace.coordination.share.sessions import ShareSessions
from headrace.metrics.families import counter, gauge
from headrace.metrics.scrape import Scrape

SESSIONS = gauge("headrace_share_sessions", "Share consumers that fetch from this broker.")
IN_FLIGHT = gauge("headrace_share_records_in_flight", "Records that are some share consumer's now.")
DELIVERIES = counter("headrace_share_deliveries_total", "Records delivered to share consumers, each time that they were.")
OUTCOMES = counter(
    "headrace_share_outcomes_total",
    "How deliveries to share groups ended: accepted, released (or the lock ran out), given_up (rejected, or the last one).",
    "outcome",
)
LAG = gauge(
    "headrace_share_group_lag_records",
    "Records of a partition that a share group has not done; only while it works there.",
    "group",
    "topic",
    "partition",
)


class SharingCollector:
    """What was counted, and what can be seen."""

    def __init__(self, figures: ShareFigures, sessions: ShareSessions, partitions: SharePartitions) -> None:
        self._figures = figures
        self._sessions = sessions
        self._partitions = partitions

    def collect(self, scrape: Scrape, page: Page) -> Collecting:
        return self._details(scrape) if page is Page.DETAIL else self._summary(scrape)

    def _summary(self, scrape: Scrape) -> Collecting:
        scrape.add(SESSIONS, len(self._sessions))
        scrape.add(IN_FLIGHT, sum(led.in_flight for led in self._partitions.all()))
        scrape.add(DELIVERIES, self._figures.deliveries)
        scrape.rows(OUTCOMES).extend(((outcome,), (count,)) for outcome, count in self._figures.outcomes.items())
        yield

    def _details(self, scrape: Scrape) -> Collecting:
        rows = scrape.rows(LAG)
        for led in self._partitions.all():
            lag = led.lag
            if lag is not None:
                identity = led.partition.identity
                rows.append(((led.key.group_id, identity.topic, str(identity.partition)), (lag,)))
            yield

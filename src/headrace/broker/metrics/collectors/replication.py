"""Replicas: who leads, who is in sync, and how far followers are behind."""

from collections import Counter
from collections.abc import Callable, Iterable

from headrace.broker.cluster.leadership import FollowedLeadership
from headrace.broker.metrics.collecting import Collecting, Page
from headrace.broker.metrics.figures import WriteFigures
from headrace.broker.partitions.partition import Partition
from headrace.log.interface import PartitionLog
from headrace.log.log import Log
from headrace.metrics.families import counter, gauge
from headrace.metrics.scrape import Scrape
from headrace.replication.progress import NEVER, FollowerProgress

PARTITIONS = gauge("headrace_partitions", "Replicas of partitions on this broker.")
LED = gauge("headrace_partitions_led", "Partitions that this broker leads.")
IN_SYNC_SIZES = gauge(
    "headrace_partitions_by_in_sync", "Partitions that this broker leads, by how many replicas are in sync.", "in_sync"
)
UNDER_REPLICATED = gauge(
    "headrace_partitions_under_replicated", "Partitions that this broker leads, and of which a replica is not in sync."
)
UNDER_MINIMUM = gauge(
    "headrace_partitions_under_minimum",
    "Partitions that this broker leads with fewer replicas in sync than min.insync.replicas: they refuse acks=all.",
)
OFFLINE = gauge("headrace_partitions_offline", "Replicas on this broker that are offline because their disk failed.")
ELECTIONS = counter(
    "headrace_elections_total",
    "Times that this broker became the leader of a partition, by whether nothing was lost by it (clean) or records may be "
    "(unclean).",
    "kind",
)
SHRINKS = counter(
    "headrace_in_sync_shrinks_total", "Times that a replica left the in-sync set of a partition that this broker leads."
)
EXPANSIONS = counter(
    "headrace_in_sync_expansions_total", "Times that a replica came into the in-sync set of a partition that this broker leads."
)
LAG_RECORDS = gauge(
    "headrace_replication_lag_records", "Records that a follower lacks of all that this broker leads.", "follower"
)
LAG_BYTES = gauge(
    "headrace_replication_lag_bytes", "Bytes that a follower lacks of all that this broker leads, about.", "follower"
)
LAG_SECONDS = gauge(
    "headrace_replication_lag_seconds",
    "Time since a follower last had all of the partition in which it is furthest behind.",
    "follower",
)

ONE = ("topic", "partition")
ONE_LEADER = gauge("headrace_partition_leader", "1 where this broker leads the partition, 0 where it follows.", *ONE)
ONE_IN_SYNC = gauge("headrace_partition_in_sync_replicas", "Replicas in sync, as the leader has it.", *ONE)
ONE_REPLICAS = gauge("headrace_partition_replicas", "Replicas that the partition should have.", *ONE)
FOLLOWED = (*ONE, "follower")
ONE_LAG_RECORDS = gauge("headrace_partition_replication_lag_records", "Records of a partition that a follower lacks.", *FOLLOWED)
ONE_LAG_BYTES = gauge("headrace_partition_replication_lag_bytes", "Bytes of a partition that a follower lacks, about.", *FOLLOWED)
ONE_LAG_SECONDS = gauge(
    "headrace_partition_replication_lag_seconds", "Time since a follower last had all of a partition.", *FOLLOWED
)


class ReplicationCollector:
    """All replicas on this broker, as leaders and as followers."""

    def __init__(self, replicas: Iterable[Partition], writes: WriteFigures, now: Callable[[], float]) -> None:
        """`now` is the event loop's time."""
        self._replicas = replicas
        self._writes = writes
        self._now = now

    def collect(self, scrape: Scrape, page: Page) -> Collecting:
        return self._one_by_one(scrape) if page is Page.DETAIL else self._summary(scrape)

    def _summary(self, scrape: Scrape) -> Collecting:
        count = led = under_replicated = under_minimum = offline = 0
        sizes: Counter[int] = Counter()
        behind: dict[int, list[float]] = {}
        for partition in list(self._replicas):
            count += 1
            offline += partition.failure is not None
            if partition.is_leader:
                state = partition.state
                in_sync = len(state.isr)
                led += 1
                sizes[in_sync] += 1
                under_replicated += in_sync < len(state.replicas)
                under_minimum += in_sync < min(partition.config.min_insync_replicas, len(state.replicas))
                if isinstance(partition.leadership, FollowedLeadership):
                    self._add_lags(partition, partition.leadership, behind)
            yield
        scrape.add(PARTITIONS, count)
        scrape.add(LED, led)
        scrape.rows(IN_SYNC_SIZES).extend(((size,), (number,)) for size, number in sorted(sizes.items()))
        scrape.add(UNDER_REPLICATED, under_replicated)
        scrape.add(UNDER_MINIMUM, under_minimum)
        scrape.add(OFFLINE, offline)
        scrape.add(ELECTIONS, self._writes.elections_clean, "clean")
        scrape.add(ELECTIONS, self._writes.elections_unclean, "unclean")
        scrape.add(SHRINKS, self._writes.in_sync_shrinks)
        scrape.add(EXPANSIONS, self._writes.in_sync_expansions)
        scrape.rows(LAG_RECORDS, LAG_BYTES, LAG_SECONDS).extend(((follower,), lags) for follower, lags in sorted(behind.items()))

    def _add_lags(self, partition: Partition, leadership: FollowedLeadership, behind: dict[int, list[float]]) -> None:
        now = self._now()
        for follower, progress in leadership.leader.followers.items():
            records, size, seconds = lag_of(partition.log, progress, now)
            sums = behind.setdefault(follower, [0, 0, 0])
            sums[0] += records
            sums[1] += size
            sums[2] = max(sums[2], seconds)

    def _one_by_one(self, scrape: Scrape) -> Collecting:
        rows = scrape.rows(ONE_LEADER, ONE_IN_SYNC, ONE_REPLICAS)
        lags = scrape.rows(ONE_LAG_RECORDS, ONE_LAG_BYTES, ONE_LAG_SECONDS)
        for partition in list(self._replicas):
            topic, index = partition.identity.topic, partition.identity.partition
            state = partition.state
            rows.append(((topic, index), (int(partition.is_leader), len(state.isr), len(state.replicas))))
            if partition.is_leader and isinstance(partition.leadership, FollowedLeadership):
                now = self._now()
                for follower, progress in partition.leadership.leader.followers.items():
                    lags.append(((topic, index, follower), lag_of(partition.log, progress, now)))
            yield


def lag_of(log: PartitionLog, progress: FollowerProgress, now: float) -> tuple[int, int, float]:
    """How many records and bytes a follower lacks, and for how many seconds it has lacked some.

    One that was never heard of in this leader's time lacks everything, for as long as nobody knows: that is told as no time."""
    reached = max(progress.end_offset, log.start_offset)
    records = max(0, log.end_offset - reached)
    if not records:
        return 0, 0, 0.0
    seconds = 0.0 if progress.caught_up_at == NEVER else max(0.0, now - progress.caught_up_at)
    return records, bytes_from(log, reached), seconds


def bytes_from(log: PartitionLog, offset: int) -> int:
    """About how many bytes lie from an offset on: whole segments as they are, and of the one it lies in a share."""
    if not isinstance(log, Log):
        return round(log.size_bytes * (log.end_offset - offset) / max(1, log.end_offset - log.start_offset))
    segments = log.segments
    place = max(0, segments.holding(offset))
    first, later = segments.all[place], segments.all[place + 1 :]
    end = later[0].base_offset if later else log.end_offset
    share = (end - max(offset, first.base_offset)) / max(1, end - first.base_offset)
    return round(first.size * share) + sum(segment.size for segment in later)

"""Groups and transactions whose coordinator this broker is; on the page of details, each group's lag.

The lag in seconds is the age of the first record that a group has not committed: it is read from the log, and remembered for as
long as the group stands there.  Where the coordinator holds no replica of a partition, it tells no lag of it.
"""

from collections import Counter
from collections.abc import Generator, Iterator
from functools import partial
from typing import Any, NamedTuple

from headrace.broker.coordinators.groups.coordinator import GroupShards
from headrace.broker.coordinators.transactions.requests import TransactionShards
from headrace.broker.metrics.collecting import Collecting, Page
from headrace.broker.metrics.figures import CoordinatorFigures
from headrace.broker.partitions.partition import Partition
from headrace.broker.partitions.reading import is_warm
from headrace.broker.partitions.replicas import Replicas
from headrace.coordination.group.classic.state import ClassicGroup
from headrace.coordination.transaction.state import TransactionState
from headrace.host.clock import Clock
from headrace.host.disk import Disk
from headrace.metrics.families import counter, gauge, histogram
from headrace.metrics.scrape import Scrape
from headrace.model.errors import RequestError, StorageError
from headrace.model.identity import TopicPartition
from headrace.records.batch import iterate_batches

GROUPS = gauge("headrace_groups", "Groups that this broker coordinates, by protocol and state.", "protocol", "state")
MEMBERS = gauge("headrace_group_members", "Members of these groups.")
OFFSETS = gauge("headrace_group_offsets", "Offsets that these groups have committed, one for each partition.")
REBALANCES = histogram(
    "headrace_group_rebalance_seconds",
    "How long each rebalance of a classic group took, from its first cause until all have their partitions.",
)
LAG_MOST = gauge("headrace_groups_lag_records_max", "The lag of the group and partition that is furthest behind, in records.")
OPEN = gauge("headrace_transactions_open", "Transactions that are open.")
OLDEST = gauge("headrace_transactions_oldest_seconds", "The age of the oldest open transaction; 0 where there is none.")
ENDED = counter("headrace_transactions_total", "Transactions that ended, by outcome: committed or aborted.", "outcome")

GROUP_MEMBERS = gauge("headrace_group_members_by_group", "Members of a group.", "group")
LAG = ("group", "topic", "partition")
LAG_RECORDS = gauge("headrace_group_lag_records", "Records of a partition that a group has not committed.", *LAG)
LAG_SECONDS = gauge(
    "headrace_group_lag_seconds", "The age of the first record of a partition that a group has not committed.", *LAG
)
COMMITTED = gauge("headrace_group_committed_offset", "The offset that a group has committed.", *LAG)

READS_MAX = 500  # batches looked into in one scrape, to learn their age; the others are told the next time


class Behind(NamedTuple):
    """A group that has not committed all of a partition."""

    group: str
    partition: Partition
    committed: int

    @property
    def records(self) -> int:
        return max(0, self.partition.high_watermark - max(self.committed, self.partition.log.start_offset))


class CoordinatorsCollector:
    """All shards that this broker leads."""

    def __init__(
        self,
        figures: CoordinatorFigures,
        groups: GroupShards,
        transactions: TransactionShards,
        replicas: Replicas,
        clock: Clock,
        disk: Disk,
    ) -> None:
        self._figures = figures
        self._groups = groups
        self._transactions = transactions
        self._replicas = replicas
        self._clock = clock
        self._disk = disk
        # When the record at an offset was written, of those at which groups stood in the last scrape.
        self._written_at: dict[tuple[TopicPartition, int], int | None] = {}

    def collect(self, scrape: Scrape, page: Page) -> Collecting:
        return self._details(scrape) if page is Page.DETAIL else self._summary(scrape)

    def _summary(self, scrape: Scrape) -> Collecting:
        states: Counter[tuple[str, str]] = Counter()
        members = offsets = most = 0
        for led in self._groups.loaded():
            offsets += led.shard.offsets.count()
            for group in list(led.shard.groups.values()):
                is_classic = isinstance(group, ClassicGroup)
                state = group.state.value if isinstance(group, ClassicGroup) else group.state
                states["classic" if is_classic else "consumer", state] += 1
                members += len(group.members)
                yield
            for share_group in list(led.shard.shares.groups.values()):
                states["share", share_group.state] += 1
                members += len(share_group.members)
                yield
        for behind in self._behind():
            most = max(most, behind.records)
            yield
        scrape.rows(GROUPS).extend((key, (count,)) for key, count in sorted(states.items()))
        scrape.add(MEMBERS, members)
        scrape.add(OFFSETS, offsets)
        scrape.add(LAG_MOST, most)
        scrape.add(REBALANCES, self._figures.rebalances.taken())
        yield from self._open_transactions(scrape)

    def _open_transactions(self, scrape: Scrape) -> Collecting:
        count, oldest_ms, now_ms = 0, 0, self._clock.wall_ms()
        for led in self._transactions.loaded():
            for transaction in list(led.shard):
                if transaction.state is TransactionState.ONGOING:
                    count += 1
                    oldest_ms = max(oldest_ms, now_ms - transaction.start_ms)
                yield
        scrape.add(OPEN, count)
        scrape.add(OLDEST, oldest_ms / 1000)
        for outcome in ("committed", "aborted"):
            scrape.add(ENDED, self._figures.transactions.get(outcome, 0), outcome)

    # -- lag

    def _behind(self) -> Iterator[Behind]:
        """Every offset that was committed for a partition of which there is a replica here."""
        for led in self._groups.loaded():
            for group in led.shard.offsets.group_ids():
                for (topic, index), stored in list(led.shard.offsets.of_group(group).items()):
                    partition = self._replicas.get(TopicPartition(topic, index))
                    if partition is not None and partition.failure is None:
                        yield Behind(group, partition, stored.value.offset)

    def _details(self, scrape: Scrape) -> Collecting:
        for led in self._groups.loaded():
            rows = scrape.rows(GROUP_MEMBERS)
            for name, group in list(led.shard.groups.items()):
                rows.append(((name,), (len(group.members),)))
                yield
        scrape.rows(GROUP_MEMBERS)
        lags = scrape.rows(LAG_RECORDS, LAG_SECONDS, COMMITTED)
        known, self._written_at = self._written_at, {}
        reads = 0
        for behind in self._behind():
            records, seconds = behind.records, 0.0 if not behind.records else None
            if records:
                key = behind.partition.identity, max(behind.committed, behind.partition.log.start_offset)
                if key in known or reads < READS_MAX:
                    reads += key not in known
                    written_ms = known[key] if key in known else (yield from self._age(behind.partition, key[1]))
                    self._written_at[key] = written_ms
                    seconds = None if written_ms is None else max(0, self._clock.wall_ms() - written_ms) / 1000
            identity = behind.partition.identity
            lags.append(((behind.group, identity.topic, identity.partition), (records, seconds, behind.committed)))
            yield

    def _age(self, partition: Partition, offset: int) -> Generator[Any, Any, int | None]:
        """When the record at an offset was written, by its batch; None where nobody can tell.  A thread fetches what is cold."""
        if not is_warm(partition, offset):
            ahead = partition.log.ahead_of_read(offset, 1)
            if ahead is not None:
                yield partial(ahead.run, self._disk)
        try:
            read = partition.log.read(offset, max_bytes=1, up_to=partition.high_watermark, at_least_one=True)
        except (RequestError, StorageError):
            return None
        for header, _ in iterate_batches(read.data):
            return header.base_timestamp if header.base_timestamp >= 0 else None
        return None

"""Groups and transactions whose coordinator this broker is; on the page of details, each group's lag.

The lag in seconds is the age of the first record that a group has not committed: it is read from the log, here or at the leader,
and remembered for as long as the group stands there.
"""

import asyncio
from collections import Counter
from collections.abc import Generator, Iterator
from typing import Any, NamedTuple

from headrace.broker.coordinators.groups.coordinator import GroupShards
from headrace.broker.coordinators.transactions.requests import TransactionShards
from headrace.broker.housekeeping.slices import in_slices
from headrace.broker.metrics.collecting import Collecting, Page
from headrace.broker.metrics.figures import CoordinatorFigures
from headrace.broker.metrics.log_positions import Ends, LogPositions
from headrace.coordination.group.classic.state import ClassicGroup
from headrace.coordination.transaction.state import TransactionState
from headrace.host.clock import Clock
from headrace.metrics.families import counter, gauge, histogram
from headrace.metrics.scrape import Scrape
from headrace.model.identity import TopicPartition

GROUPS = gauge("headrace_groups", "Groups that this broker coordinates, by protocol and state.", "protocol", "state")
MEMBERS = gauge("headrace_group_members", "Members of these groups.")
OFFSETS = gauge("headrace_group_offsets", "Offsets that these groups have committed, one for each partition.")
REBALANCES = histogram(
    "headrace_group_rebalance_seconds",
    "How long each rebalance of a group took, of either protocol, from its first cause until all have their partitions.",
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
AT_A_TIME = 50  # offsets between two looks at the clock


class Behind(NamedTuple):
    """A group that has not committed all of a partition."""

    group: str
    identity: TopicPartition
    committed: int
    ends: Ends

    @property
    def next_offset(self) -> int:
        return max(self.committed, self.ends.start)

    @property
    def records(self) -> int:
        return max(0, self.ends.high_watermark - self.next_offset)


class CoordinatorsCollector:
    """All shards that this broker leads."""

    def __init__(
        self,
        figures: CoordinatorFigures,
        groups: GroupShards,
        transactions: TransactionShards,
        positions: LogPositions,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._figures = figures
        self._groups = groups
        self._transactions = transactions
        self._positions = positions
        self._clock = clock
        self._loop = loop

    async def prepare(self, page: Page) -> None:
        self._positions.begin(forgets=page is Page.DETAIL)
        if self._positions.has_others:
            stand_at = await in_slices(self._loop, self._clock, self._stand_elsewhere())
            await self._positions.ask(stand_at, ages=page is Page.DETAIL)

    def _stand_elsewhere(self) -> Generator[Any, Any, dict[TopicPartition, set[int]]]:
        found: dict[TopicPartition, set[int]] = {}
        for _, identity, offset in self._committed():
            if self._positions.is_elsewhere(identity):
                found.setdefault(identity, set()).add(offset)
            yield
        return found

    def collect(self, scrape: Scrape, page: Page) -> Collecting:
        return self._details(scrape) if page is Page.DETAIL else self._summary(scrape)

    def _summary(self, scrape: Scrape) -> Collecting:
        states: Counter[tuple[str, str]] = Counter()
        members = offsets = 0
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
        most = yield from self._largest_lag()
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

    def _committed(self) -> Iterator[tuple[str, TopicPartition, int]]:
        """Every group's offset for every partition."""
        for led in self._groups.loaded():
            for group in led.shard.offsets.group_ids():
                for identity, stored in list(led.shard.offsets.of_group(group).items()):
                    yield group, identity, stored.value.offset

    def _largest_lag(self) -> Generator[Any, Any, int]:
        """In records.  There may be a million offsets, and this is asked four times a minute: no object is made for each."""
        most = seen = 0
        known: dict[TopicPartition, Ends | None] = {}
        for led in self._groups.loaded():
            for group in led.shard.offsets.group_ids():
                for place, stored in list(led.shard.offsets.of_group(group).items()):
                    if place in known:
                        ends = known[place]
                    else:
                        ends = known[place] = self._positions.ends_of(place)
                    if ends is not None and (behind := ends.high_watermark - stored.value.offset) > most:
                        most = max(most, min(behind, ends.high_watermark - ends.start))
                    seen += 1
                    if seen % AT_A_TIME == 0:
                        yield
        return most

    def _behind(self) -> Iterator[Behind]:
        """Those of which it is known where they end."""
        for group, identity, offset in self._committed():
            if (ends := self._positions.ends_of(identity)) is not None:
                yield Behind(group, identity, offset, ends)

    def _details(self, scrape: Scrape) -> Collecting:
        for led in self._groups.loaded():
            rows = scrape.rows(GROUP_MEMBERS)
            for name, group in list(led.shard.groups.items()):
                rows.append(((name,), (len(group.members),)))
                yield
        scrape.rows(GROUP_MEMBERS)
        lags = scrape.rows(LAG_RECORDS, LAG_SECONDS, COMMITTED)
        for behind in self._behind():
            records, seconds = behind.records, None
            if not records:
                seconds = 0.0
            elif (written_ms := (yield from self._positions.written_ms(behind.identity, behind.next_offset))) is not None:
                seconds = max(0, self._clock.wall_ms() - written_ms) / 1000
            lags.append(((behind.group, *behind.identity), (records, seconds, behind.committed)))
            yield

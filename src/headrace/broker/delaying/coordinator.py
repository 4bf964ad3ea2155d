"""Delayed records on this broker: the shards of `__headrace_delayed` that it leads, and what they have delivered."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from headrace.broker.coordinators.led_shard import LedShard
from headrace.broker.coordinators.roles import RoleFollower
from headrace.broker.coordinators.shards import Shards
from headrace.broker.delaying.context import TimedContext
from headrace.broker.delaying.delivering import Deliveries, Outlet
from headrace.broker.delaying.entries import DelayEntryCodec
from headrace.broker.delaying.index import SqliteIndex, open_database
from headrace.broker.metrics.figures import DelayFigures
from headrace.broker.partitions.replica_changes import ReplicaChanges
from headrace.broker.supervision.supervision import Scope
from headrace.coordination.delay.shard import DelayShard
from headrace.host.clock import Clock
from headrace.host.disk import Disk
from headrace.model.broker_settings import BrokerConfig
from headrace.model.names import DELAYED

DelayShards = Shards[DelayShard]


class DelayCoordinator:
    """Make one before the replicas start, so that it hears of each role they take; `close` it before they stop."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        outlet: Outlet,
        replica_changes: ReplicaChanges,
        clock: Clock,
        disk: Disk,
        loop: asyncio.AbstractEventLoop,
        scope: Scope,
        index_directory: Callable[[], Path | None],
        figures: DelayFigures,
    ) -> None:
        """`index_directory` is where what waits is kept in order; None where that is in memory."""
        self._index_directory = index_directory
        context: TimedContext[DelayShard] = TimedContext(
            topic=DELAYED,
            codec=DelayEntryCodec(),
            make_shard=self._make_shard,
            clock=clock,
            scope=scope,
            write_timeout_s=config["request.timeout.ms"] / 1000,
            on_committed=self._on_committed,
            clock_confirmed_after_ms=config["headrace.delay.clock.confirm.ms"],
        )
        self.now = context.now
        self.shards: DelayShards = Shards(context, _no_keys)
        self._deliveries = Deliveries(self.shards, outlet, scope, figures)
        RoleFollower(DELAYED, self.shards, replica_changes, disk, loop)

    def look_at_clock(self) -> None:
        """The clock was set, in a test: something may be due."""
        for led in self.shards.loaded():
            led.look_at_clock()

    def close(self) -> None:
        self._deliveries.close()
        self.shards.close()

    def _make_shard(self) -> DelayShard:
        return DelayShard(SqliteIndex(open_database(self._index_directory())))

    def _on_committed(self, led: LedShard[DelayShard]) -> None:
        led.shard.term = led.term
        self._deliveries.start_due(led)


def _no_keys(key: str) -> int:
    raise AssertionError("delayed records are found by the partition that they are for")

"""What shards that go by the clock share: as those of groups do, but with a clock by which things become due."""

from dataclasses import field

from headrace.broker.coordinators.led_shard import ShardContext, ShardType
from headrace.coordination.delay.clock import DeliveryClock
from headrace.coordination.moment import Moment
from headrace.declaring import dataclass


@dataclass(slots=True, kw_only=True)
class TimedContext(ShardContext[ShardType]):
    """Time goes by the wall clock here, as far as it can be believed."""

    clock_confirmed_after_ms: int
    _delivery_clock: DeliveryClock = field(init=False)

    def __post_init__(self) -> None:
        ShardContext.__post_init__(self)
        self._delivery_clock = DeliveryClock(self.clock.wall_ms(), self.clock.monotonic(), self.clock_confirmed_after_ms)

    def now(self) -> Moment:
        return self._delivery_clock.read(self.clock.wall_ms(), self.clock.monotonic())

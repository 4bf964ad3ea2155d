"""What the leader of a partition decides: the high watermark, and who is in sync.

The in-sync set that counts for the high watermark is the largest that might hold (KIP-497): what the store last confirmed and,
while a proposal to let somebody in is under way, those too.  A proposal to put somebody out counts only once it is confirmed.  So
whichever way the store decides, every member of the true set has everything below the high watermark.

With fewer in sync than the topic demands the high watermark stands still (KIP-966): nothing is committed that an eligible leader
outside the set might lack.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Protocol

from headrace.declaring import dataclass
from headrace.replication.progress import FollowerProgress

MayJoin = Callable[[int, int], bool]
"""Whether a broker, seen in this broker epoch, may enter the in-sync set."""


class Assignment(Protocol):
    """What the cluster's metadata says about a partition."""

    @property
    def replicas(self) -> tuple[int, ...]: ...
    @property
    def isr(self) -> tuple[int, ...]: ...
    @property
    def leader(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def partition_epoch(self) -> int: ...
    @property
    def recovering(self) -> bool: ...


@dataclass(slots=True)
class LeaderState:
    """One partition as its leader sees it.  All methods are synchronous and take the time as an argument."""

    broker_id: int
    state: Assignment
    epoch_start_offset: int
    lag_time_max_s: float
    min_insync_replicas: int
    high_watermark: int
    followers: dict[int, FollowerProgress] = field(default_factory=dict)
    proposed: frozenset[int] | None = None  # an in-sync set on its way to the store

    @classmethod
    def begin(
        cls,
        broker_id: int,
        state: Assignment,
        *,
        end_offset: int,
        high_watermark: int,
        now: float,
        lag_time_max_s: float,
        min_insync_replicas: int,
    ) -> "LeaderState":
        """Start to lead in the state's epoch, at the end of the log as it is."""
        assert state.leader == broker_id, f"{broker_id} does not lead {state}"
        leader = cls(broker_id, state, end_offset, lag_time_max_s, min_insync_replicas, high_watermark)
        for follower in leader._others(state.replicas):
            leader.followers[follower] = FollowerProgress().starting_over(now, follower in state.isr)
        return leader

    @property
    def in_sync(self) -> frozenset[int]:
        """What the store last confirmed."""
        return frozenset(self.state.isr)

    @property
    def in_sync_at_most(self) -> frozenset[int]:
        return self.in_sync | (self.proposed or frozenset())

    @property
    def minimum(self) -> int:
        return min(self.min_insync_replicas, len(self.state.replicas))

    def on_state(self, state: Assignment, now: float) -> None:
        """The store confirmed a change within this leader's epoch: in-sync set, replicas, or both."""
        assert state.leader == self.broker_id
        assert state.leader_epoch == self.state.leader_epoch
        if state.partition_epoch < self.state.partition_epoch:
            return
        if state.partition_epoch > self.state.partition_epoch:
            self.proposed = None
        left = self.in_sync - frozenset(state.isr)
        self.state = state
        wanted = set(self._others(state.replicas))
        for follower in left & wanted & self.followers.keys():
            # Whoever left, by itself perhaps, as its disk failed, is let in again when it is heard of again, and not before.
            self.followers[follower] = FollowerProgress().starting_over(now, False)
        for gone in self.followers.keys() - wanted:
            del self.followers[gone]
        for new in wanted - self.followers.keys():
            self.followers[new] = FollowerProgress().starting_over(now, new in state.isr)

    def on_fetch(
        self, follower: int, offset: int, start_offset: int, leader_end: int, now: float, broker_epoch: int = -1
    ) -> bool:
        """A follower asks for `offset` on.  False when it holds no replica here."""
        progress = self.followers.get(follower)
        if progress is None:
            return False
        self.followers[follower] = progress.fetched(offset, start_offset, leader_end, now, broker_epoch)
        return True

    def advance(self, local_end: int, now: float, may_join: MayJoin) -> int:
        """The high watermark, given how far this log is safe (flushed, where the topic says so).  It never goes back."""
        if not self.may_write():
            return self.high_watermark
        reached = local_end
        for follower, progress in self.followers.items():
            if progress.end_offset < reached and self._counts(follower, progress, now, may_join):
                reached = progress.end_offset
        self.high_watermark = max(self.high_watermark, reached)
        return self.high_watermark

    def _counts(self, follower: int, progress: FollowerProgress, now: float, may_join: MayJoin) -> bool:
        """Whether the high watermark waits for a follower."""
        if follower in self.in_sync_at_most:
            return True
        # One that has caught up would never enter the set if the high watermark ran away from it under load.
        close = now - progress.caught_up_at <= self.lag_time_max_s
        return close and self._may_enter(follower, may_join)

    def propose(self, leader_end: int, now: float, may_join: MayJoin) -> Mapping[int, int] | None:
        """The in-sync set as it should be (broker -> broker epoch), or None when it is right or a proposal is under way."""
        if self.proposed is not None:
            return None
        staying = {self.broker_id} | {f for f in self.in_sync if f in self.followers and self._keeps_up(f, leader_end, now)}
        joining = {f for f in self.followers if f not in self.in_sync and self._may_enter(f, may_join)}
        wanted = staying | joining
        if wanted == self.in_sync and not self.state.recovering:
            return None
        self.proposed = frozenset(wanted)
        return {broker: self._epoch_of(broker) for broker in sorted(wanted)}

    def on_refused(self) -> None:
        """The store did not take the proposal, for certain: another may be made."""
        self.proposed = None

    def _keeps_up(self, follower: int, leader_end: int, now: float) -> bool:
        return self.followers[follower].is_caught_up(leader_end, now, self.lag_time_max_s)

    def _may_enter(self, follower: int, may_join: MayJoin) -> bool:
        progress = self.followers[follower]
        # Below the start of this epoch it may still have to truncate.
        far_enough = progress.end_offset >= max(self.high_watermark, self.epoch_start_offset)
        return far_enough and may_join(follower, progress.broker_epoch)

    def _epoch_of(self, broker: int) -> int:
        return self.followers[broker].broker_epoch if broker in self.followers else -1

    def _others(self, brokers: Iterable[int]) -> list[int]:
        return [broker for broker in brokers if broker != self.broker_id]

    def may_write(self) -> bool:
        """Whether a write with acks=all may begin."""
        return len(self.state.isr) >= self.minimum

    def is_acknowledged(self, next_offset: int) -> bool | None:
        """Whether records below an offset may be acknowledged to acks=all: yes, not yet (None), or too few have them (False)."""
        if self.high_watermark < next_offset:
            return None
        return len(self.state.isr) >= self.minimum

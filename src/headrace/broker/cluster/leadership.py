"""Leading partitions that have followers: their progress, the high watermark, and proposals to change in-sync sets.

Decisions are those of `replication.leader`; this is the shell that feeds them fetches and time.
"""

import asyncio
from collections.abc import Callable

from headrace.broker.cluster.insync_proposals import InSyncProposals
from headrace.broker.health.disk_space import says_full
from headrace.broker.partitions.partition import Alone, Leadership, Partition
from headrace.broker.partitions.replicas import Replicas
from headrace.broker.supervision.supervision import Rule, Scope
from headrace.controller.entries import PartitionState
from headrace.controller.image import CurrentImage
from headrace.controller.insync import may_join
from headrace.metadata.membership import BrokerMembership
from headrace.model.broker_settings import BrokerConfig
from headrace.replication.leader import LeaderState

LOOKS_PER_TURN = 100  # between so many partitions the loop gets a turn


class FollowedLeadership:
    """The leadership of one partition in one leader epoch."""

    __slots__ = ("_leaderships", "leader", "partition")

    def __init__(self, partition: Partition, leader: LeaderState, leaderships: "Leaderships") -> None:
        self.partition = partition
        self.leader = leader
        self._leaderships = leaderships

    def high_watermark(self, local: int) -> int:
        if not self._leaderships.may_act():
            # Others may already follow another leader: nothing more is committed here.
            return self.leader.high_watermark
        return self._leader_now().advance(local, self._leaderships.now(), self._leaderships.may_join)

    def may_write(self) -> bool:
        return self._leader_now().may_write()

    def is_acknowledged(self, next_offset: int) -> bool | None:
        return self._leader_now().is_acknowledged(next_offset)

    def _leader_now(self) -> LeaderState:
        """The leader's state under the topic's settings as they are now."""
        self.leader.min_insync_replicas = self.partition.log.config.min_insync_replicas
        return self.leader

    def low_watermark(self, local: int) -> int:
        # As in Kafka: every replica whose broker is alive counts, in sync or not.
        alive = [each.start_offset for follower, each in self.leader.followers.items() if self._leaderships.is_alive(follower)]
        return min([local, *alive])

    def on_fetch(self, follower: int, offset: int, start_offset: int, broker_epoch: int) -> None:
        """A follower asks for `offset` on, so it has everything below."""
        log = self.partition.log
        if self.leader.on_fetch(follower, offset, start_offset, log.end_offset, self._leaderships.now(), broker_epoch):
            self.partition.advance()
            if self.partition.start_readers:
                self.partition.start_readers.wake()
            if follower not in self.leader.in_sync:
                self._leaderships.propose(self)


class Leaderships:
    """All partitions this broker leads that have followers."""

    def __init__(
        self,
        replicas: Replicas,
        image: CurrentImage,
        membership: BrokerMembership,
        proposals: InSyncProposals,
        now: Callable[[], float],
        config: BrokerConfig,
    ) -> None:
        """`now` is the event loop's time."""
        self._replicas = replicas
        self._image = image
        self._membership = membership
        self._proposals = proposals
        self.now = now
        self._lag_time_max_s: float = config["replica.lag.time.max.ms"] / 1000

    def start(self, scope: Scope) -> None:
        scope.start("in-sync sets", self._look_for_laggards, Rule.RESTART)

    def may_act(self) -> bool:
        return self._membership.is_valid

    def is_alive(self, broker: int) -> bool:
        return broker in self._image().brokers

    def may_join(self, broker: int, epoch: int) -> bool:
        # One whose disk is full would leave again with the next record.
        return may_join(self._image(), broker, epoch) and not says_full(self._image().brokers[broker].degraded)

    def lead(self, partition: Partition, state: PartitionState) -> Leadership:
        """The leadership under this state: the one there is, if the epoch is the same, or a new one."""
        if len(state.replicas) == 1 and not state.recovering:
            return Alone()
        present = partition.leadership
        if (
            isinstance(present, FollowedLeadership)
            and partition.is_leader
            and present.leader.state.leader_epoch == state.leader_epoch
        ):
            present.leader.on_state(state, self.now())
            return present
        leader = LeaderState.begin(
            self._membership.registration.broker_id,
            state,
            end_offset=partition.log.end_offset,
            high_watermark=partition.high_watermark,
            now=self.now(),
            lag_time_max_s=self._lag_time_max_s,
            min_insync_replicas=partition.config.min_insync_replicas,
        )
        return FollowedLeadership(partition, leader, self)

    def followed(self) -> list[FollowedLeadership]:
        return [p.leadership for p in self._replicas if p.is_leader and isinstance(p.leadership, FollowedLeadership)]

    async def _look_for_laggards(self) -> None:
        while True:
            await asyncio.sleep(self._lag_time_max_s / 4)
            for turn, leadership in enumerate(self.followed()):
                self.propose(leadership)
                if turn % LOOKS_PER_TURN == LOOKS_PER_TURN - 1:
                    await asyncio.sleep(0)

    def propose(self, leadership: FollowedLeadership) -> None:
        """Ask the store for the in-sync set that should be, if it is not what is."""
        partition = leadership.partition
        if not partition.is_leader or partition.failure is not None or not self.may_act():
            return
        wanted = leadership.leader.propose(partition.log.end_offset, self.now(), self.may_join)
        if wanted is not None:
            self._proposals.add(partition, leadership.leader, wanted)

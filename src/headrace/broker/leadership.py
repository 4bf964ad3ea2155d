"""Leading partitions that have followers: their progress, the high watermark, and proposals to change in-sync sets.

Decisions are those of `replication.leader`; this is the shell that feeds them fetches and time, and carries proposals to the
store.  A proposal counts as under way until the store has surely taken or refused it.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.broker.partition import Alone, Leadership, Partition
from headrace.controller.election import ElectionRules
from headrace.controller.entries import PartitionState
from headrace.controller.insync import InSyncChange, change_in_sync, may_join
from headrace.metadata.store import StoreUnavailable
from headrace.model.errors import RequestError
from headrace.model.topic_settings import LogConfig
from headrace.replication.leader import LeaderState

if TYPE_CHECKING:
    from headrace.broker.app import Broker

logger = logging.getLogger(__name__)

RETRY_S = 0.5
LOOKS_PER_TURN = 100  # between so many partitions the loop gets a turn


def election_rules(config: LogConfig) -> ElectionRules:
    """What a topic's settings say about its elections."""
    return ElectionRules(
        min_insync_replicas=config.min_insync_replicas,
        unclean_allowed=config.unclean_leader_election_enable,
        flushed_before_ack=config.flush == "ack",
    )


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
        self.leader.min_insync_replicas = self.partition.config.min_insync_replicas
        return self.leader.advance(local, self._leaderships.now(), self._leaderships.may_join)

    def in_sync_count(self) -> int:
        return len(self.leader.in_sync)

    def on_fetch(self, follower: int, offset: int, start_offset: int, broker_epoch: int) -> None:
        """A follower asks for `offset` on, so it has everything below."""
        log = self.partition.log
        if self.leader.on_fetch(follower, offset, start_offset, log.end_offset, self._leaderships.now(), broker_epoch):
            self.partition.advance()
            if follower not in self.leader.in_sync:
                self._leaderships.propose(self)


class Leaderships:
    """All partitions this broker leads that have followers."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._lag_time_max_s: float = broker.config["replica.lag.time.max.ms"] / 1000
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._look_for_laggards(), name="in-sync sets")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def now(self) -> float:
        return self._broker.loop.time()

    def may_act(self) -> bool:
        return self._broker.membership.is_valid

    def may_join(self, broker: int, epoch: int) -> bool:
        return may_join(self._broker.image, broker, epoch)

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
            self._broker.broker_id,
            state,
            end_offset=partition.log.end_offset,
            high_watermark=partition.high_watermark,
            now=self.now(),
            lag_time_max_s=self._lag_time_max_s,
            min_insync_replicas=partition.config.min_insync_replicas,
        )
        return FollowedLeadership(partition, leader, self)

    def followed(self) -> list[FollowedLeadership]:
        return [p.leadership for p in self._broker.replicas if p.is_leader and isinstance(p.leadership, FollowedLeadership)]

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
            self._broker.spawn(self._submit(leadership, wanted))

    async def _submit(self, leadership: FollowedLeadership, wanted: Mapping[int, int]) -> None:
        partition, leader = leadership.partition, leadership.leader
        before = leader.state.isr
        change = InSyncChange(
            topic_id=partition.topic_id,
            index=partition.identity.partition,
            leader=self._broker.broker_id,
            broker_epoch=self._broker.membership.epoch,
            leader_epoch=leader.state.leader_epoch,
            partition_epoch=leader.state.partition_epoch,
            isr=wanted,
        )
        while True:
            try:
                after, transaction = change_in_sync(self._broker.image, change, election_rules(partition.config))
            except RequestError as error:
                logger.debug("%s: the in-sync set stays as it is: %s", partition.identity, error)
                leader.on_refused()
                return
            try:
                taken = await self._broker.cluster.commit(transaction)
            except (StoreUnavailable, RequestError):
                # It may have been taken: until that is known the larger set counts, and asking again finds out.
                await asyncio.sleep(RETRY_S)
                continue
            if taken:
                logger.info("%s: in sync are %s, before %s", partition.identity, after.isr, before)
            else:
                leader.on_refused()
            return

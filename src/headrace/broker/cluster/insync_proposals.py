"""Proposals of this broker's leaderships to change in-sync sets, written to the store many at a time.

Whoever comes back catches up with all its partitions at once.  A write for each of ten thousand would keep the store, and
everybody who watches it, busy until leases end; so those that gather while one is being written go together in the next.

A proposal counts as under way until the store has surely taken or refused it.  When a write of several comes to nothing,
one of them may have been overtaken and the others need not wait: each half is decided anew.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from uuid import UUID

from headrace.broker.partitions.partition import Partition
from headrace.broker.supervision.supervision import Spawn
from headrace.controller.election import ElectionRules
from headrace.controller.entries import ConditionalWrite, PartitionState
from headrace.controller.insync import InSyncChange, change_in_sync
from headrace.declaring import dataclass
from headrace.metadata.cluster import ClusterMetadata
from headrace.metadata.membership import BrokerMembership
from headrace.metadata.store import StoreUnavailable
from headrace.model.errors import RequestError
from headrace.replication.leader import LeaderState

logger = logging.getLogger(__name__)

RETRY_S = 0.5
NAMED_MAX = 5  # of the partitions that changed together, in a line of the log


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """What one leadership wants."""

    partition: Partition
    leader: LeaderState
    change: InSyncChange


@dataclass(frozen=True, slots=True)
class Decided:
    """A proposal that may be written: the state that follows, and how."""

    proposal: Proposal
    after: PartitionState
    write: ConditionalWrite


class InSyncProposals:
    """Takes proposals at any time, and writes them in the order in which they came."""

    def __init__(self, cluster: ClusterMetadata, membership: BrokerMembership, spawn: Spawn) -> None:
        self._cluster = cluster
        self._membership = membership
        self._spawn = spawn
        # The latest for each partition: a leadership that began anew has forgotten what it proposed before.
        self._waiting: dict[tuple[UUID, int], Proposal] = {}
        self._is_writing = False

    def add(self, partition: Partition, leader: LeaderState, wanted: Mapping[int, int]) -> None:
        """Have the store asked for this in-sync set (broker -> broker epoch); the leader hears what becomes of it."""
        change = InSyncChange(
            topic_id=partition.topic_id,
            index=partition.identity.partition,
            leader=self._membership.registration.broker_id,
            broker_epoch=self._membership.epoch,
            leader_epoch=leader.state.leader_epoch,
            partition_epoch=leader.state.partition_epoch,
            isr=wanted,
        )
        self._waiting[change.topic_id, change.index] = Proposal(partition, leader, change)
        if not self._is_writing:
            self._is_writing = True
            self._spawn(self._write_all())

    async def _write_all(self) -> None:
        # Conditions are limited like operations, and each broker that joins adds one to those of the partitions.
        size = self._cluster.store.operations_max * 3 // 4
        try:
            while self._waiting:
                await self._write([self._waiting.pop(key) for key in list(islice(self._waiting, size))])
        finally:
            self._is_writing = False

    async def _write(self, proposals: Sequence[Proposal]) -> None:
        decided = list(self._decide(proposals))
        if not decided:
            return
        taken = await self._commit(_together(decided))
        if taken:
            _tell(decided)
        elif len(decided) > 1:
            middle = len(decided) // 2
            await self._write([each.proposal for each in decided[:middle]])
            await self._write([each.proposal for each in decided[middle:]])
        elif taken is None:
            # It may have been taken: until that is known the larger set counts, and asking again finds out.
            (unsure,) = (each.proposal for each in decided)
            self._waiting.setdefault((unsure.change.topic_id, unsure.change.index), unsure)
        else:
            decided[0].proposal.leader.on_refused()

    async def _commit(self, write: ConditionalWrite) -> bool | None:
        """Whether the store has taken it; None, after a pause, when that is not known."""
        try:
            return await self._cluster.commit(write)
        except (StoreUnavailable, RequestError) as error:
            logger.debug("in-sync sets could not be written: %s", error)
        except Exception:
            # Whatever it was: who stopped trying would lead with a set of yesterday for ever.
            logger.exception("in-sync sets could not be written")
        await asyncio.sleep(RETRY_S)
        return None

    def _decide(self, proposals: Sequence[Proposal]) -> Iterator[Decided]:
        for proposal in proposals:
            partition = proposal.partition
            try:
                yield Decided(proposal, *change_in_sync(self._cluster.image, proposal.change, ElectionRules.of(partition.config)))
            except RequestError as error:
                logger.debug("%s: the in-sync set stays as it is: %s", partition.identity, error)
                proposal.leader.on_refused()


def _together(decided: Sequence[Decided]) -> ConditionalWrite:
    """All of them in one write; what several demand is demanded once."""
    conditions = dict.fromkeys(condition for each in decided for condition in each.write.conditions)
    return ConditionalWrite(tuple(conditions), tuple(operation for each in decided for operation in each.write.operations))


def _tell(decided: Sequence[Decided]) -> None:
    changes = [f"{each.proposal.partition.identity} {each.after.isr}" for each in decided[:NAMED_MAX]]
    more = f" and {len(decided) - NAMED_MAX} more" if len(decided) > NAMED_MAX else ""
    logger.info("in sync are now: %s%s", ", ".join(changes), more)

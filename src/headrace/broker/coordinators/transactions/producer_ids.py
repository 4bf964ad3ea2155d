"""Claims blocks of producer ids from the cluster in good time, so that whoever needs one seldom waits."""

import logging
from contextlib import suppress

from headrace.broker.coordinators.waiting import Waiting
from headrace.broker.supervision.supervision import Spawn
from headrace.coordination.transaction.producer_ids import BLOCK_IDS, ProducerIds
from headrace.metadata.cluster import ClusterMetadata
from headrace.model.errors import RequestError

logger = logging.getLogger(__name__)

# What those wait for who need an id when there is none.
CLAIM = "a block of producer ids"
CLAIM_SECONDS_MAX = 30.0


class ProducerIdClaims:
    """The producer ids that this broker may give out."""

    def __init__(self, cluster: ClusterMetadata, waiting: Waiting, spawn: Spawn) -> None:
        self.at_hand = ProducerIds()
        self._cluster = cluster
        self._waiting = waiting
        self._spawn = spawn
        self._is_claiming = False

    async def take(self) -> int:
        """An identity for an idempotent producer; any broker gives it.  Raises RequestError when there is none."""
        await self.have_some()
        return self.at_hand.take()

    async def have_some(self) -> None:
        """Claim the next block in good time; wait for it only when the last id is gone."""
        if self.at_hand.wants_block and not self._is_claiming:
            self._is_claiming = True
            self._spawn(self._claim())
        if not self.at_hand.available and self._is_claiming:
            # Whoever takes one is told when there is none.
            with suppress(RequestError):
                await self._waiting.wait(CLAIM, CLAIM_SECONDS_MAX)

    async def _claim(self) -> None:
        try:
            self.at_hand.add(await self._cluster.allocate_producer_ids(BLOCK_IDS))
        except Exception as error:
            # Whoever needs an id is asked to come back, and then the next attempt is made.
            logger.warning("no producer ids could be claimed: %s", error)
        finally:
            self._is_claiming = False
            self._waiting.answer(CLAIM, None)

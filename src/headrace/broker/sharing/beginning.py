"""Has share coordinators begin to keep how far a group is in partitions, and then tells its coordinator."""

import asyncio
import logging

from headrace.broker.coordinators.groups.coordinator import GroupShards
from headrace.broker.coordinators.share_state.client import ShareStateClient
from headrace.broker.supervision.supervision import Spawn
from headrace.coordination.group.entries import Partitions
from headrace.coordination.group.shard import GroupShard
from headrace.coordination.group.share.requests import ShareBegun
from headrace.coordination.share.entries import ShareKey
from headrace.coordination.share.state_shard import InitializeState
from headrace.model.errors import RequestError

logger = logging.getLogger(__name__)

PATIENCE_S = 2.0


class ShareBeginnings:
    """What fails is asked for again by a later heartbeat."""

    def __init__(self, groups: GroupShards, client: ShareStateClient, spawn: Spawn) -> None:
        self._groups = groups
        self._client = client
        self._spawn = spawn

    async def begin(self, group_id: str, partitions: Partitions) -> bool:
        """Whether it has begun within the time that a heartbeat may take; else it goes on by itself."""
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._spawn(self._begin(group_id, partitions, begun), "beginning of a share group's state")
        done, _ = await asyncio.wait([begun], timeout=PATIENCE_S)
        return bool(done)

    async def _begin(self, group_id: str, partitions: Partitions, begun: "asyncio.Future[None]") -> None:
        keys = [ShareKey(group_id, topic_id, index) for topic_id, indexes in partitions.items() for index in indexes]
        try:
            await asyncio.gather(*(self._client.initialize(InitializeState(key=key, state_epoch=0)) for key in keys))
            await self._groups.ask(group_id, GroupShard.note_begun, ShareBegun(group_id=group_id, partitions=partitions))
            if not begun.done():
                begun.set_result(None)
        except RequestError as error:
            logger.info("share group %s begins on its partitions later: %s", group_id, error)

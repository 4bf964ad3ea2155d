"""Takes note of what a member says of records of several partitions, each by itself."""

import asyncio
from collections.abc import Mapping

from headrace.broker.network.dispatch import RequestContext
from headrace.broker.sharing.partitions import SharePartitions
from headrace.broker.sharing.words import PartitionWords, words_of
from headrace.controller.image import CurrentImage
from headrace.coordination.share.sessions import PartitionId
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.errors import ErrorCode, RequestError

# For each partition that something was said of, why it does not count; None where it does.
Outcomes = Mapping[PartitionId, RequestError | None]


class Acknowledging:
    """On behalf of one request."""

    def __init__(self, partitions: SharePartitions, image: CurrentImage, context: RequestContext) -> None:
        self._partitions = partitions
        self._image = image
        self._context = context

    async def note(
        self, group_id: str, member_id: str, words: Mapping[PartitionId, PartitionWords], *, may_renew: bool
    ) -> Outcomes:
        """Return when all is kept that counts."""
        outcomes = await asyncio.gather(*(self._note(group_id, member_id, each, said, may_renew) for each, said in words.items()))
        return dict(zip(words, outcomes, strict=True))

    async def _note(
        self, group_id: str, member_id: str, named: PartitionId, said: PartitionWords, may_renew: bool
    ) -> RequestError | None:
        topic_id, index = named
        try:
            topic = self._image().topics_by_id.get(topic_id)
            if topic is None:
                raise RequestError(ErrorCode.UNKNOWN_TOPIC_ID)
            self._context.require(Operation.READ, ResourceType.TOPIC, topic.name)
            words = words_of(said.batches, may_renew=may_renew)
            await self._partitions.find(group_id, topic_id, index).acknowledge(member_id, words, said.reasons)
        except RequestError as error:
            return error
        return None

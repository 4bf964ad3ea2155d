"""Share coordinators as leaders of partitions and group coordinators ask them: here, or on whichever broker has the state.

Raises RequestError where the coordinator refuses, and COORDINATOR_NOT_AVAILABLE where there is none to ask, or no answer.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from headrace.broker.administration.topics import Topics
from headrace.broker.cluster.peers import Peers, PeerUnreachable
from headrace.broker.coordinators.placement import partition_for
from headrace.broker.coordinators.share_state import messages
from headrace.broker.coordinators.share_state.coordinator import ShareStateCoordinator, name_of
from headrace.coordination.decision import Decision, Token
from headrace.coordination.moment import Moment
from headrace.coordination.share.entries import ShareKey, ShareState
from headrace.coordination.share.state_shard import InitializeState, ReadState, ShareStateShard, WriteState
from headrace.metadata.cluster import ClusterMetadata
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.names import SHARE_GROUP_STATE

REMOTE_TIMEOUT_S = 10.0
PURPOSE = "share state"

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


class ShareStateClient:
    """Finds the coordinator of a share-partition, and asks it."""

    def __init__(
        self, broker_id: int, coordinator: ShareStateCoordinator, topics: Topics, cluster: ClusterMetadata, peers: Peers
    ) -> None:
        self._broker_id = broker_id
        self._shards = coordinator.shards
        self._topics = topics
        self._cluster = cluster
        self._peers = peers

    async def initialize(self, request: InitializeState) -> None:
        await self._ask(request.key, ShareStateShard.initialize, request, messages.initialize(request))

    async def read(self, request: ReadState) -> ShareState:
        answer = await self._ask(request.key, ShareStateShard.read, request, messages.read(request))
        return answer if isinstance(answer, ShareState) else messages.state_read(answer, request)

    async def write(self, request: WriteState) -> None:
        await self._ask(request.key, ShareStateShard.write, request, messages.write(request))

    async def delete(self, key: ShareKey) -> None:
        await self._ask(key, ShareStateShard.delete, key, messages.delete(key))

    async def summary(self, key: ShareKey) -> ShareState | None:
        broker_id = await self._broker_of(key)
        if broker_id == self._broker_id:
            return await self._shards.look(name_of(key), ShareStateShard.summary, key)
        return messages.summary_read(await self._call(broker_id, messages.summary(key)))

    async def _ask(
        self,
        key: ShareKey,
        decide: Callable[[ShareStateShard, Asked, Token, Moment], Decision[Any]],
        request: Asked,
        message: Any,
    ) -> Any:
        broker_id = await self._broker_of(key)
        if broker_id == self._broker_id:
            return await self._shards.ask(name_of(key), decide, request)
        return await self._call(broker_id, message)

    async def _broker_of(self, key: ShareKey) -> int:
        topic = await self._topics.ensure(SHARE_GROUP_STATE)
        index = partition_for(name_of(key), topic.partition_count)
        state = self._cluster.image.partition(SHARE_GROUP_STATE, index)
        if state is None or state.leader not in self._cluster.image.brokers:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The share coordinator's partition has no leader.")
        return state.leader

    async def _call(self, broker_id: int, message: Any) -> Any:
        """The one partition of the one topic that was asked about."""
        version = message.api.versions[-1]
        try:
            reply = await self._peers.call(broker_id, message, version, timeout=REMOTE_TIMEOUT_S, purpose=PURPOSE)
        except PeerUnreachable as error:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error
        answer = reply.results[0].partitions[0]
        if answer.error_code:
            raise RequestError(ErrorCode(answer.error_code), answer.error_message or "")
        return answer

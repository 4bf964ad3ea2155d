"""FindCoordinator: the leader of the partition a group or a transactional id falls on.  The first question makes the topic."""

import asyncio
from contextlib import suppress
from typing import Any

from headrace.broker.administration.topics import Topics
from headrace.broker.coordinators.groups.coordinator import GroupShards
from headrace.broker.coordinators.placement import partition_for
from headrace.broker.coordinators.shards import Shards
from headrace.broker.coordinators.share_state.coordinator import ShareStateShards
from headrace.broker.coordinators.transactions.requests import TransactionShards
from headrace.broker.network.dispatch import RequestContext, denied
from headrace.broker.network.listeners import endpoint_of
from headrace.broker.partitions.replica_changes import Settled
from headrace.controller.image import CurrentImage
from headrace.declaring import dataclass
from headrace.model.access.acls import Operation, ResourceType
from headrace.model.errors import ErrorCode, RequestError
from headrace.model.identity import NO_BROKER
from headrace.model.names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE, UNGROUPED
from headrace.security.authorization.permissions import check_of
from headrace.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

TOPICS = {0: CONSUMER_OFFSETS, 1: TRANSACTION_STATE, 2: SHARE_GROUP_STATE}
KINDS = {0: ResourceType.GROUP, 1: ResourceType.TRANSACTIONAL_ID}
FIRST_BATCHED_VERSION = 4
# How long a freshly led shard may load, so that its clients' first requests need not come twice.
LOAD_PATIENCE_S = 1.0


async def handle(
    request: FindCoordinatorRequest,
    context: RequestContext,
    image: CurrentImage,
    topics: Topics,
    groups: GroupShards,
    transactions: TransactionShards,
    share_states: ShareStateShards,
    settled: Settled,
    broker_id: int,
) -> FindCoordinatorResponse:
    search = _Search(context, image, topics, groups, transactions, share_states, settled, broker_id)
    if context.api_version >= FIRST_BATCHED_VERSION:
        coordinators = [await search.find(key, request.key_type) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=tuple(coordinators))
    found = await search.find(request.key, request.key_type)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


@dataclass(frozen=True, slots=True)
class _Search:
    """On behalf of a client that came in by one listener."""

    context: RequestContext
    image: CurrentImage
    topics: Topics
    groups: GroupShards
    transactions: TransactionShards
    share_states: ShareStateShards
    settled: Settled
    broker_id: int

    async def find(self, key: str, key_type: int) -> Coordinator:
        try:
            return await self._coordinator(key, key_type)
        except RequestError as error:
            message = error.message or error.code.name
            return Coordinator(key=key, node_id=NO_BROKER, host="", port=-1, error_code=error.code, error_message=message)

    async def _coordinator(self, key: str, key_type: int) -> Coordinator:
        if key_type not in TOPICS:
            raise RequestError(ErrorCode.INVALID_REQUEST, f"There is no coordinator for keys of type {key_type}.")
        if key_type in KINDS:
            self._require_right(KINDS[key_type], key)
        else:
            self.context.require(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
        try:
            topic = await self.topics.ensure(TOPICS[key_type])
        except RequestError as error:
            # Too few brokers, for instance: that may pass.
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message or error.code.name) from error
        index = partition_for(key, topic.partition_count)
        leader = self.image().brokers.get(topic.partitions[index].leader)
        endpoint = None if leader is None else endpoint_of(leader, self.context.connection.listener)
        if leader is None or endpoint is None:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator's partition has no leader.")
        if leader.broker_id == self.broker_id:
            led: tuple[Shards[Any], ...] = (self.groups, self.transactions, self.share_states)
            shards = led[key_type]
            if not shards.leads(index):
                # The metadata knows the topic and this broker is about to take it up.
                await self.settled()
            await _loaded(shards, index)
        return Coordinator(
            key=key,
            node_id=leader.broker_id,
            host=endpoint.host,
            port=endpoint.port,
            error_code=ErrorCode.NONE,
            error_message=None,
        )

    def _require_right(self, kind: ResourceType, key: str) -> None:
        """Whoever reads without a group asks all the same, and goes on without an answer: that no is no denial."""
        if kind is ResourceType.GROUP and key == UNGROUPED:
            if not self.context.listed(Operation.DESCRIBE, kind, [key]):
                raise denied(self.context.subject, check_of(self.context.api_key, Operation.DESCRIBE, kind))
        else:
            self.context.require(Operation.DESCRIBE, kind, key)


async def _loaded(shards: Shards[Any], index: int) -> None:
    """Give a shard that this broker is about to lead a moment to be loaded."""
    if shards.leads(index) and not shards.is_loaded(index):
        with suppress(TimeoutError, RequestError):
            await asyncio.wait_for(shards.wait_loaded(index), LOAD_PATIENCE_S)

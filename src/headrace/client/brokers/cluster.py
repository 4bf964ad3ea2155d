"""A cluster as one principal sees it: who leads what, and calls to whoever must be asked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal
from uuid import UUID

from headrace.client.admin.wire_admin import raise_for
from headrace.client.broker_connection import Endpoint
from headrace.client.brokers.connection import Connection, connect
from headrace.client.contact import address_of
from headrace.client.errors import BrokerError, BrokerTimeout, SecurityFailed, TopicNotFound
from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

Isolation = Literal["read_committed", "read_uncommitted"]
ISOLATION_LEVELS: Final[Mapping[Isolation, int]] = {"read_uncommitted": 0, "read_committed": 1}
EARLIEST, LATEST = -2, -1
KNOWN_S: Final = 30.0
TURNS_TO_CLOSE: Final = 3  # of a loop, until transports have let go of their sockets
MISSING_S: Final = 1.0
AGAIN_S: Final = 0.1
PATIENCE_S: Final = 15.0
FETCH_VERSION_MAX: Final = 12  # the newest that names topics
FETCH_BYTES: Final = 1024 * 1024
MOVED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
COORDINATOR_MOVED: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


class Cluster:
    """Connections are shared by all that one principal asks; those that wait long are apart."""

    def __init__(self, bootstrap: str, properties: Mapping[str, Any], *, client_id: str) -> None:
        self._bootstrap = [Endpoint(*address_of(part)) for part in bootstrap.split(",") if part.strip()]
        self._properties = properties
        self._client_id = client_id
        self._connections: dict[tuple[Endpoint, str], Connection] = {}
        self._connecting: dict[tuple[Endpoint, str], asyncio.Lock] = {}
        self._brokers: dict[int, Endpoint] = {}
        self._leaders: dict[str, tuple[dict[int, int], float]] = {}
        self._topic_ids: dict[str, UUID] = {}
        self._coordinators: dict[str, Endpoint] = {}
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    async def abort(self) -> None:
        """Close it where the loop ends, too: nothing is left of any connection."""
        connections = list(self._connections.values())
        self.close()
        for connection in connections:
            connection.abort()
        for _ in range(TURNS_TO_CLOSE):
            await asyncio.sleep(0)

    # Connections

    async def any_connection(self) -> Connection:
        """To whoever answers first of those we were told of, and of those we have heard of since."""
        last: BrokerTimeout | None = None
        for endpoint in dict.fromkeys([*self._bootstrap, *self._brokers.values()]):
            try:
                return await self.connection(endpoint)
            except BrokerTimeout as error:
                last = error
        raise last or BrokerTimeout("no broker address was given")

    async def connection(self, endpoint: Endpoint, purpose: str = "ask") -> Connection:
        key = (endpoint, purpose)
        known = self._connections.get(key)
        if known is not None and known.usable:
            return known
        async with self._connecting.setdefault(key, asyncio.Lock()):
            known = self._connections.get(key)
            if known is None or not known.usable:
                if known is not None:
                    known.close("it was replaced by a younger one")
                known = self._connections[key] = await connect(endpoint, self._properties, client_id=self._client_id)
                if self._is_closed:
                    known.close()
                    raise BrokerTimeout("the way to these brokers was closed")
        return known

    def part_with(self, purpose: str) -> None:
        """Close the connections that were for this."""
        for key in [key for key in self._connections if key[1] == purpose]:
            self._connections.pop(key).close()
            self._connecting.pop(key, None)

    async def call(self, request: Any, *, broker: int | None = None) -> Any:
        """Ask a broker by its id, or any that answers."""
        connection = await (self.any_connection() if broker is None else self.connection(await self.endpoint_of(broker)))
        return await connection.call(request)

    async def call_controller(self, request: Any) -> Any:
        """Ask the broker that is the controller; any broker when there is none right now."""
        controller = (await self._ask_metadata(())).controller_id
        return await self.call(request, broker=controller if controller >= 0 else None)

    async def endpoint_of(self, broker: int) -> Endpoint:
        if broker not in self._brokers:
            await self._ask_metadata(())
        if broker not in self._brokers:
            raise BrokerTimeout(f"broker {broker} is not up")
        return self._brokers[broker]

    # Topics and leaders

    async def _ask_metadata(self, topics: Iterable[str], *, make: bool = False) -> Any:
        wanted = tuple(MetadataRequestTopic(name=name) for name in topics)
        reply = await (await self.any_connection()).call(MetadataRequest(topics=wanted, allow_auto_topic_creation=make))
        self._brokers = {broker.node_id: Endpoint(broker.host, broker.port) for broker in reply.brokers}
        return reply

    async def leaders(self, topic: str, *, make: bool = False) -> dict[int, int]:
        """The leader of each partition, -1 where there is none; asked at most every half minute.  `make` has brokers make the
        topic where they do so for whoever writes."""
        now = asyncio.get_running_loop().time()
        known = self._leaders.get(topic)
        if known is not None and now < known[1]:
            return known[0]
        (found,) = (await self._ask_metadata([topic], make=make)).topics
        if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise TopicNotFound(f"topic '{topic}' does not exist", code=3, name="UNKNOWN_TOPIC_OR_PART")
        raise_for(found.error_code, f"topic '{topic}'")
        leaders = {each.partition_index: each.leader_id for each in found.partitions}
        self._topic_ids[topic] = found.topic_id
        self._leaders[topic] = (leaders, now + (KNOWN_S if min(leaders.values(), default=-1) >= 0 else MISSING_S))
        return leaders

    async def topic_id(self, topic: str) -> UUID:
        await self.leaders(topic)
        return self._topic_ids[topic]

    def forget(self, topic: str) -> None:
        self._leaders.pop(topic, None)

    async def leader(self, place: TopicPartition) -> int:
        leaders = await self.leaders(place.topic)
        if place.partition not in leaders:
            self.forget(place.topic)  # it may have been added just now
            leaders = await self.leaders(place.topic)
        if place.partition not in leaders:
            raise TopicNotFound(f"topic '{place.topic}' has no partition {place.partition}", code=3, name="UNKNOWN_TOPIC_OR_PART")
        if leaders[place.partition] < 0:
            raise_for(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {place.partition} of topic '{place.topic}'")
        return leaders[place.partition]

    # Reading

    async def fetch(
        self, place: TopicPartition, offset: int, isolation: Isolation, bytes_max: int = FETCH_BYTES
    ) -> PartitionData:
        """What is there from an offset on, without waiting; looks for a new leader where there is one."""
        request = fetch_request({place: offset}, isolation, wait_ms=0, bytes_max=bytes_max)
        reply = await self._at_leader(place, request, FETCH_VERSION_MAX)
        data: PartitionData = reply.responses[0].partitions[0]
        return data

    async def offsets(
        self, topic: str, timestamp: int, isolation: Isolation = "read_uncommitted", partitions: Iterable[int] | None = None
    ) -> dict[int, int]:
        """The offset in each partition at a moment, or at EARLIEST or LATEST; -1 where all records are older."""
        wanted = list(await self.leaders(topic)) if partitions is None else list(partitions)
        found = await asyncio.gather(*(self._offset(TopicPartition(topic, each), timestamp, isolation) for each in wanted))
        return dict(zip(wanted, found, strict=True))

    async def _offset(self, place: TopicPartition, timestamp: int, isolation: Isolation) -> int:
        asked = ListOffsetsPartition(partition_index=place.partition, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=ISOLATION_LEVELS[isolation],
            topics=(ListOffsetsTopic(name=place.topic, partitions=(asked,)),),
        )
        reply = await self._at_leader(place, request, None)
        found = reply.topics[0].partitions[0]
        raise_for(found.error_code, f"partition {place.partition} of topic '{place.topic}'")
        return int(found.offset)

    async def _at_leader(self, place: TopicPartition, request: Any, version_max: int | None) -> Any:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_S
        while True:
            try:
                endpoint = await self.endpoint_of(await self.leader(place))
                reply = await (await self.connection(endpoint)).call(request, version_max=version_max)
                answers = reply.responses if hasattr(reply, "responses") else reply.topics
                code = answers[0].partitions[0].error_code if answers else reply.error_code
                if code not in MOVED or loop.time() > deadline:
                    if not answers:
                        raise_for(code, f"partition {place.partition} of topic '{place.topic}'")
                    return reply
            except (BrokerTimeout, BrokerError) as error:
                if isinstance(error, TopicNotFound | SecurityFailed) or loop.time() > deadline or not _passes(error):
                    raise
            self.forget(place.topic)
            await asyncio.sleep(AGAIN_S)

    # Groups

    async def call_coordinator(self, group: str, request: Any, *, version_max: int | None = None) -> Any:
        """Ask the broker that coordinates a group; the caller looks whether it still did."""
        endpoint = self._coordinators.get(group)
        if endpoint is None:
            endpoint = self._coordinators[group] = await self._coordinator(group)
        try:
            return await (await self.connection(endpoint)).call(request, version_max=version_max)
        except BrokerTimeout:
            self.forget_coordinator(group)
            raise

    def forget_coordinator(self, group: str) -> None:
        self._coordinators.pop(group, None)

    async def _coordinator(self, group: str) -> Endpoint:
        request = FindCoordinatorRequest(key=group, key_type=0, coordinator_keys=(group,))
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_S
        while True:
            reply = await self.call(request)
            found = reply.coordinators[0] if reply.coordinators else reply
            if found.error_code not in COORDINATOR_MOVED or loop.time() > deadline:
                raise_for(found.error_code, f"group '{group}'", found.error_message)
                return Endpoint(found.host, found.port)
            await asyncio.sleep(AGAIN_S)


def _passes(error: BrokerTimeout | BrokerError) -> bool:
    return isinstance(error, BrokerTimeout) or error.retriable


def fetch_request(
    wanted: Mapping[TopicPartition, int], isolation: Isolation, *, wait_ms: int, bytes_max: int = FETCH_BYTES
) -> FetchRequest:
    """Asks for records of partitions from offsets on."""
    by_topic: dict[str, list[FetchPartition]] = {}
    for place, offset in wanted.items():
        asked = FetchPartition(partition=place.partition, fetch_offset=offset, partition_max_bytes=bytes_max)
        by_topic.setdefault(place.topic, []).append(asked)
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=max(bytes_max, 16 * FETCH_BYTES),
        isolation_level=ISOLATION_LEVELS[isolation],
        topics=tuple(FetchTopic(topic=name, partitions=tuple(each)) for name, each in by_topic.items()),
    )

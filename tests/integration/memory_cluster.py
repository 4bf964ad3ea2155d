"""Several real brokers in one event loop, sharing a metadata store in memory: a whole cluster that starts in milliseconds.

They speak to each other over real sockets, and tests speak to them the same way.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from headrace.broker.app import Broker
from headrace.broker.cluster.peers import Peers
from headrace.broker.parts import Host
from headrace.controller.image import ClusterImage
from headrace.host.disk import Disk, SystemDisk
from headrace.host.entropy import Entropy
from headrace.metadata.memory import MemoryStore
from headrace.metadata.store import MetadataStore
from headrace.model.broker_settings import BrokerConfig
from headrace.model.errors import ErrorCode
from headrace.records.batch import build_batch
from headrace.records.record import Record
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.support.waiting import until_async

TIMEOUT_S = 20.0
PRODUCE_VERSION = 9
FETCH_VERSION = 12


class SharedStore(MemoryStore):
    """One broker's hold on a store that others hold too: letting go of it closes nothing."""

    def __init__(self, whole: MemoryStore) -> None:
        self.__dict__ = whole.__dict__

    async def close(self) -> None:
        return


class MemoryCluster:
    """`async with MemoryCluster(3) as cluster:`"""

    hold = SharedStore  # how a broker holds the store

    def __init__(
        self,
        size: int,
        settings: Mapping[str, str] | None = None,
        racks: Mapping[int, str] | None = None,
        disks: Mapping[int, Disk] | None = None,
    ) -> None:
        """`disks`: brokers that keep their logs there, and not in memory."""
        self._size = size
        self._disks = disks or {}
        self.settings = settings or {}  # of those that are added
        self._racks = racks or {}
        self.store = MemoryStore()
        self.brokers: dict[int, Broker] = {}
        self.client = Peers("test", self._resolve)

    def _resolve(self, broker_id: int) -> tuple[str, int] | None:
        return self.brokers[broker_id].address

    async def __aenter__(self) -> "MemoryCluster":
        for broker_id in range(1, self._size + 1):
            await self.add(broker_id)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.client.close()
        for broker in self.brokers.values():
            await broker.stop()

    async def add(self, broker_id: int) -> Broker:
        settings = {"node.id": str(broker_id), "listeners": "127.0.0.1:0", "headrace.memory": "true", **self.settings}
        if broker_id in self._racks:
            settings["broker.rack"] = self._racks[broker_id]

        disk = self._disks.get(broker_id)
        if disk is not None:
            settings |= {"headrace.memory": "false", "log.dirs": f"/data/{broker_id}"}

        async def open_store(config: BrokerConfig, entropy: Entropy) -> MetadataStore:
            return self.hold(self.store)

        host = Host(open_store=open_store, disk=disk or SystemDisk(), worker_processes=disk is None)
        broker = self.brokers[broker_id] = Broker(BrokerConfig(settings), host)
        await broker.start()
        return broker

    @property
    def image(self) -> ClusterImage:
        return next(iter(self.brokers.values())).image

    async def call(self, broker_id: int, request: Any, version: int) -> Any:
        return await self.client.call(broker_id, request, version, timeout=TIMEOUT_S)

    async def create_topic(self, name: str, partitions: int = 1, factor: int = 3) -> None:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, assignments=(), configs=())
        response = await self.call(next(iter(self.brokers)), CreateTopicsRequest(topics=(topic,), timeout_ms=10_000), 5)
        assert response.topics[0].error_code == ErrorCode.NONE, response
        await self.until(lambda: all(self._has_its_replicas(broker, name) for broker in self.brokers.values()))

    @staticmethod
    def _has_its_replicas(broker: Broker, topic: str) -> bool:
        if topic not in broker.image.topics:
            return False
        placed = broker.image.topics[topic].partitions
        mine = {index for index, partition in enumerate(placed) if broker.broker_id in partition.replicas}
        return mine == {partition.identity.partition for partition in broker.parts.replicas.of_topic(topic)}

    async def produce(self, broker_id: int, topic: str, *values: str, partition: int = 0) -> ProduceResponse:
        records = [Record(offset=n, timestamp=1, key=None, value=value.encode(), headers=()) for n, value in enumerate(values)]
        data = PartitionProduceData(index=partition, records=build_batch(records))
        request = ProduceRequest(
            transactional_id=None, acks=-1, timeout_ms=10_000, topic_data=(TopicProduceData(name=topic, partition_data=(data,)),)
        )
        response: ProduceResponse = await self.call(broker_id, request, PRODUCE_VERSION)
        return response

    async def fetch(self, broker_id: int, topic: str, offset: int = 0, rack: str = "") -> PartitionData:
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=200, min_bytes=1, max_bytes=1 << 20, topics=(FetchTopic(topic=topic, partitions=(wanted,)),), rack_id=rack
        )
        response = await self.call(broker_id, request, FETCH_VERSION)
        data: PartitionData = response.responses[0].partitions[0]
        return data

    async def until(self, holds: Callable[[], bool], timeout_s: float = TIMEOUT_S) -> None:
        await until_async(holds, seconds=timeout_s)


async def has_coordinator(cluster: MemoryCluster, request: FindCoordinatorRequest) -> None:
    """Return when the coordinator that is asked for serves."""

    async def is_found() -> bool:
        return (await cluster.call(1, request, 3)).error_code == ErrorCode.NONE

    await until_async(is_found, "there is a coordinator")


def play(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(story(), 60))

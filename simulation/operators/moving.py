"""An operator who moves partitions from broker to broker, and changes his mind now and then."""

from collections.abc import Sequence

from headrace.model.errors import ErrorCode
from headrace.model.identity import TopicPartition
from headrace.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from simulation.clients.client import ClusterClient, Unavailable
from simulation.clients.working import PacedWorker

VERSION = 0
PAUSE_S = (1.0, 4.0)
CANCEL_ONE_IN = 5


class Mover(PacedWorker):
    """Gives one partition after the other new replicas."""

    def __init__(self, client: ClusterClient, *, factor: int) -> None:
        super().__init__(client, pause_s=PAUSE_S)
        self._factor = factor

    async def _act(self, partitions: Sequence[TopicPartition]) -> None:
        chance = self._client.chance
        partition = chance.choice(partitions)
        replicas = tuple(chance.sample(self._client.brokers, self._factor)) if chance.randrange(CANCEL_ONE_IN) else None
        try:
            await self._move(partition, replicas)
        except Unavailable as error:
            self._client.history.tell(f"nobody heard that {partition} is to move: {error}")

    async def _move(self, partition: TopicPartition, replicas: tuple[int, ...] | None) -> None:
        wanted = ReassignablePartition(partition_index=partition.partition, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(name=partition.topic, partitions=(wanted,)),))
        response: AlterPartitionReassignmentsResponse = await self._client.call_any(request, VERSION)
        code = ErrorCode(response.responses[0].partitions[0].error_code)
        self._client.history.tell(f"{partition} is to move to {replicas}: {code.name}")

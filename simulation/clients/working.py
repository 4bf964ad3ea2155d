"""Clients that work until they are told to stop."""

import abc
import asyncio
from collections.abc import Sequence

from headrace.model.identity import TopicPartition
from simulation.clients.client import ClusterClient


class Worker(abc.ABC):
    """One client at work on the partitions of a topic."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._stopping = False

    def stop(self) -> None:
        """Begin nothing new; what is under way is finished."""
        self._stopping = True

    @abc.abstractmethod
    async def run(self, partitions: Sequence[TopicPartition]) -> None: ...


class PacedWorker(Worker):
    """Does one thing after the other, with a pause before each."""

    def __init__(self, client: ClusterClient, *, pause_s: tuple[float, float]) -> None:
        super().__init__(client)
        self._pause_s = pause_s

    async def run(self, partitions: Sequence[TopicPartition]) -> None:
        while not self._stopping:
            await asyncio.sleep(self._client.chance.uniform(*self._pause_s))
            await self._act(partitions)

    @abc.abstractmethod
    async def _act(self, partitions: Sequence[TopicPartition]) -> None: ...

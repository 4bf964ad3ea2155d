"""Partitions in memory that are led here, and a connection that takes replies: what handlers of records are called with."""

import asyncio
from collections.abc import Sequence
from typing import Any

from headrace.broker.network.memory_account import MemoryAccount
from headrace.broker.network.pending_reply import PendingReply
from headrace.broker.partitions.flushing import Flusher
from headrace.broker.partitions.partition import Alone, Partition
from headrace.broker.partitions.replicas import Replicas
from headrace.controller.entries import PartitionState
from headrace.controller.image import ClusterImage, Topic
from headrace.host.clock import SystemClock
from headrace.host.disk import Buffer
from headrace.host.entropy import SystemEntropy
from headrace.log.memory.memory_log import MemoryLog
from headrace.model.identity import TopicPartition
from headrace.model.topic_settings import LogConfig
from headrace.records.batch import build_batch
from headrace.records.record import Record
from tests.unit.broker.handlers.requests import FakeConnection

TOPIC_ID = SystemEntropy().uuid()
HERE = PartitionState(replicas=(1,), leader=1, leader_epoch=3, isr=(1,))
ELSEWHERE = PartitionState(replicas=(2,), leader=2, leader_epoch=3, isr=(2,))


def image_of(*states: PartitionState, name: str = "t") -> ClusterImage:
    """A cluster with one topic."""
    topic = Topic(name, TOPIC_ID, {}, list(states))
    return ClusterImage(topics={name: topic}, topics_by_id={TOPIC_ID: topic})


def replicas_of(image: ClusterImage, config: LogConfig | None = None) -> Replicas:
    """Those that broker 1 leads, each with an empty log.  On a running loop."""
    loop = asyncio.get_running_loop()
    replicas = Replicas(lambda: image)
    for topic, index, state in image.partitions():
        if state.leader == 1:
            log = MemoryLog(config or LogConfig(), SystemClock())
            identity = TopicPartition(topic.name, index)
            partition = Partition(identity, topic.topic_id, log, flusher=Flusher(loop), loop=loop)
            partition.lead(state, Alone())
            replicas.add(partition)
    return replicas


def batch(*values: bytes, timestamp: int = 0) -> bytes:
    return build_batch([Record(index, timestamp, b"k", value) for index, value in enumerate(values)])


class TakingConnection(FakeConnection):
    """Takes one reply."""

    is_open = True

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.get_running_loop()
        self.share = MemoryAccount(1 << 24, self.loop.call_soon).open()
        self.closed_because: str | None = None
        self.answered = asyncio.Event()
        self.frame = b""

    def reply(self) -> PendingReply:
        connection: Any = self
        return PendingReply(connection)

    def is_head(self, reply: PendingReply) -> bool:
        return True

    def on_answered(self, reply: PendingReply) -> None:
        buffers: Sequence[Buffer] = reply.buffers or ()
        self.frame = b"".join(map(bytes, buffers))
        self.answered.set()

    def on_kept(self, size: int) -> None:
        return

    def close(self, reason: str) -> None:
        self.closed_because = reason
        self.answered.set()

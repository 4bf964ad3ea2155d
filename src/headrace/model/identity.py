"""Names for the things a log is made of.  Numbers with a meaning get a type of their own."""

from dataclasses import dataclass
from typing import NewType
from uuid import UUID

Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
BrokerId = NewType("BrokerId", int)
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)
PartitionIndex = NewType("PartitionIndex", int)
TimestampMs = NewType("TimestampMs", int)
TopicId = UUID

NO_OFFSET = Offset(-1)
NO_EPOCH = LeaderEpoch(-1)
NO_BROKER = BrokerId(-1)
NO_PRODUCER_ID = ProducerId(-1)
NO_PRODUCER_EPOCH = ProducerEpoch(-1)
NO_TIMESTAMP = TimestampMs(-1)
NO_TOPIC_ID = UUID(int=0)


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """One partition, by the name of its topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """Who wrote: a producer id and the epoch that fences its older selves."""

    producer_id: int
    epoch: int

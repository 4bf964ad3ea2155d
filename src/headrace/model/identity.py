"""What names a partition or a producer, and the numbers that stand for none."""

from typing import NamedTuple
from uuid import UUID

from headrace.declaring import dataclass

NO_OFFSET = -1
NO_EPOCH = -1
NO_BROKER = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIMESTAMP = -1
NO_TOPIC_ID = UUID(int=0)
BROKER_ID_DIGITS_MAX = 10


class TopicPartition(NamedTuple):
    """One partition, by the name of its topic.  A tuple, since it is the key of every record that goes by: cheap to hash."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """Who wrote: a producer id and the epoch that fences its older selves."""

    producer_id: int
    epoch: int


def broker_id_of(text: str) -> int | None:
    """The number of a broker; None of a text that is none, however long a client made it."""
    return int(text) if text.isdecimal() and len(text) <= BROKER_ID_DIGITS_MAX else None

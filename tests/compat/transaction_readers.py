"""What a consumer sees of a topic, with and without what did not commit."""

import uuid

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

WAIT_S = 20.0


def create_topic(bootstrap: str, *topics: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(topic, partitions, 1) for topic in topics]).values():
        created.result(WAIT_S)


def read_all(bootstrap: str, topic: str, *, partitions: int = 1, isolation: str = "read_committed") -> list[list[str]]:
    """The values of each partition up to its end, as librdkafka hands them out."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-{uuid.uuid4().hex}",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
        found: list[list[str]] = [[] for _ in range(partitions)]
        finished: set[int] = set()
        while len(finished) < partitions:
            message = consumer.poll(WAIT_S)
            assert message is not None, "the end of a partition was not reached"
            if message.error():
                finished.add(message.partition())
            else:
                found[message.partition()].append(message.value().decode())
    finally:
        consumer.close()
    return found

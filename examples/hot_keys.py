"""One key that gets most of the traffic: salted, it is spread over several partitions; every other key keeps its order."""

import uuid
from collections import Counter

from headrace import Admin, Consumer, KeyHash, Producer, Salted

COUNT = 2000


def spread(partitioner: KeyHash | Salted) -> list[int]:
    """How many records each of eight partitions gets when half of them have the same key."""
    topic = f"clicks-{uuid.uuid4().hex[:6]}"
    with Admin() as admin:
        admin.create_topic(topic, partitions=8)
    keys = ["celebrity" if number % 2 else f"user-{number}" for number in range(COUNT)]
    with Producer(partitioner=partitioner) as producer:
        producer.send_many(topic, ["click"] * COUNT, keys=keys)
    with Consumer(topic) as consumer:
        counts = Counter(record.partition for record in consumer.to_end())
    return [counts[partition] for partition in range(8)]


salted = Salted(4, only=["celebrity"])
print("by key:  ", spread(KeyHash()))
print("salted:  ", spread(salted))
print("the celebrity's records are in partitions", sorted(salted.partitions_of("celebrity", 8)))
